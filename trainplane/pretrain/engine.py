"""DeepSpeed around a model: the process group, the optimizer's groups, and one step with a loss that is right.

The loss of a step is the sum over its tokens divided by the number of its tokens, over all micro-batches and ranks. DeepSpeed
divides by accumulation steps and averages over ranks by itself, so backward is told not to do the first, and the loss is
multiplied by the number of ranks to undo the second.
"""

from __future__ import annotations

import logging
import math
import os
import warnings
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from trainplane.data.packed import IGNORED, Batch
from trainplane.model.masking import block_causal_mask
from trainplane.params import PretrainParams, deepspeed_config
from trainplane.pretrain.ranks import gather, rank, world_size

# Numbers of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 1 << 30


@dataclass(frozen=True)
class StepResult:
    """What a step gave.

    Attributes:
        loss: Mean over the tokens of the global batch, nats.
        losses: Mean of each sequence, nats, in the order of the batch.
        document_losses: Mean of each document of each sequence, nats.
        grad_norm: Of all gradients, before clipping.
    """

    loss: float
    losses: list[float]
    document_losses: list[list[float]]
    grad_norm: float


class Engine:
    """A model under DeepSpeed.

    Args:
        model: A causal LM of transformers.
        params: Of pretraining.
    """

    def __init__(self, model: Any, params: PretrainParams) -> None:
        import torch

        _keep_memory()
        start_processes()
        import deepspeed

        self.params = params
        torch.set_num_threads(params.threads)
        torch.use_deterministic_algorithms(not torch.cuda.is_available())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.deepspeed, *_ = deepspeed.initialize(
                model=model, model_parameters=_groups(model, params), config=deepspeed_config(params, world_size())
            )
        self.device = self.deepspeed.device

    def step(self, batch: Batch, learning_rate: float) -> StepResult:
        """One optimizer step over a global batch, of which this rank takes its run of neighbours.

        What is not finite is not held back: the loop goes back to a checkpoint, on all ranks alike.
        """
        for group in self.deepspeed.optimizer.param_groups:
            group["lr"] = learning_rate
        self.deepspeed.train()
        n_labels, each = batch.n_labels(), len(batch.seq_ids) // world_size()
        total, norm, losses, by_document = 0.0, math.nan, [], []
        for start in range(rank() * each, (rank() + 1) * each, self.params.micro_batch):
            part = batch.part(slice(start, start + self.params.micro_batch))
            token_losses_BT = self.token_losses(part)
            scaled = token_losses_BT.sum() * world_size() / max(1, n_labels)
            self.deepspeed.backward(scaled, scale_wrt_gas=False)
            norm = self._plain_grad_norm()
            self.deepspeed.step()
            total += float(token_losses_BT.detach().sum())
            losses += _means(token_losses_BT.detach(), part)
            by_document += part.document_means(token_losses_BT.detach().cpu().numpy())
        if self.params.zero_stage:
            norm = float(self.deepspeed.get_global_grad_norm())
        totals, losses_of, documents_of = zip(*gather((total, losses, by_document)), strict=True)
        return StepResult(sum(totals) / max(1, n_labels), list(chain(*losses_of)), list(chain(*documents_of)), norm)

    def _plain_grad_norm(self) -> float:
        """Norm of the gradients so far; under ZeRO they lie in pieces, and DeepSpeed tells their norm after the step."""
        import torch

        if self.params.zero_stage:
            return math.nan
        return float(torch.nn.utils.get_total_norm([p.grad for p in self.deepspeed.module.parameters() if p.grad is not None]))

    def token_losses(self, batch: Batch, module: Any = None) -> Any:
        """Cross entropy of each token, 0 where nothing is predicted: float32 tensor [B, T], nats; of `module` instead of DeepSpeed's."""
        import torch
        from torch.nn.functional import cross_entropy

        ids, positions, documents, labels = (
            torch.from_numpy(array).to(self.device) for array in (batch.input_ids, batch.position_ids, batch.documents, batch.labels)
        )
        logits_BTV = (module or self.deepspeed)(
            input_ids=ids, attention_mask=block_causal_mask(documents), position_ids=positions, use_cache=False
        ).logits.float()
        flat = cross_entropy(logits_BTV.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="none")
        return flat.view(labels.shape)


def _keep_memory() -> None:
    """Has the C library keep freed memory: a step frees and takes hundreds of megabytes, and giving them back to the system each
    time costs a sixth of it in page faults (docs/log.md). Only glibc knows the call.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def start_processes() -> None:
    """Joins the process group: once. A process group of one where no launcher made one; without a GPU DeepSpeed has to be told so."""
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        os.environ.setdefault(name, value)
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import deepspeed

        backend = "nccl" if torch.cuda.is_available() else "gloo"
        # This op is compiled for a minute at first use; gloo does without.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        if world_size() == 1 and not torch.distributed.is_initialized():
            # A store in this process: no port is opened.
            torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)
        if not deepspeed.comm.is_initialized():
            deepspeed.init_distributed(dist_backend=backend, verbose=False)


def _groups(model: Any, params: PretrainParams) -> list[dict[str, Any]]:
    """Matrices decay; norms, biases and embeddings do not."""
    import torch

    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    named = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [p for p in named if p.ndim >= 2 and id(p) not in embeddings]
    others = [p for p in named if p.ndim < 2 or id(p) in embeddings]
    groups = [{"params": decayed, "weight_decay": params.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def _means(token_losses_BT: Any, batch: Batch) -> list[float]:
    counts = np.maximum(1, (batch.labels != IGNORED).sum(axis=1))
    return [float(total) / int(count) for total, count in zip(token_losses_BT.sum(dim=1), counts, strict=True)]
