"""DeepSpeed around a model: the process group, and one step with a loss that is right.

The loss of a step is the sum over its tokens divided by the number of its tokens, over all micro-batches and ranks. DeepSpeed
divides by accumulation steps and averages over ranks by itself, so backward is told not to do the first, and the loss is
multiplied by the number of ranks to undo the second.
"""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from trainplane.data.packed import Batch, token_hash
from trainplane.model.objective import Objective
from trainplane.model.sequence_parallel import share_sequences
from trainplane.params import PretrainParams
from trainplane.pretrain.layout import Layout, clips_itself, deepspeed_config
from trainplane.pretrain.optimizer import groups, own_optimizer
from trainplane.pretrain.pipeline import Pipeline, stage_of

F64 = npt.NDArray[np.float64]

# Numbers of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 1 << 30


@dataclass(frozen=True)
class StepResult:
    """What a step gave; equal on every rank.

    Attributes:
        loss: Mean over the tokens of the global batch, nats.
        losses: Mean of each sequence, nats, in the order of the batch.
        document_losses: Mean of each document of each sequence, nats.
        token_hash: Digest of the global batch's tokens.
        grad_norm: Of all gradients, before clipping; not finite where the loss is not, or fp16 overflowed.
        applied: Whether the weights changed. They do not where the loss is not finite; and fp16 leaves a step out whose gradients
            overflow, and lowers the loss scale.
        pair_loss: Mean over the pairs of the global batch, nats; None where there are none.
        update_ratios: Group of parameters -> size of its update over its size; None where it was not asked for.
    """

    loss: float
    losses: list[float]
    document_losses: list[list[float]]
    token_hash: str
    grad_norm: float
    applied: bool = True
    update_ratios: dict[str, float] | None = None
    pair_loss: float | None = None


class Engine:
    """A model under DeepSpeed.

    Args:
        model: Of transformers, with the head that the objective needs.
        params: Of pretraining.
        mask_id: Token that stands for a hidden one, for the masked objective; None takes the padding token, which is never attended to.

    Raises:
        ParamsError: These params cannot run on so many ranks.
    """

    def __init__(self, model: Any, params: PretrainParams, mask_id: int | None = None) -> None:
        import torch

        self.params, self.layout, self.model = params, Layout.of(params), model
        self.n_parameters = sum(p.numel() for p in model.parameters())
        hidden = model.config.pad_token_id if mask_id is None else mask_id
        self.objective = Objective(
            params.objective, params.mask_share, params.seed, hidden, model.config.vocab_size, next_sentence=params.next_sentence
        )
        self._pair_losses, self._pair_weight = list[float](), 0.0  # of a step: sums of micro-batches, and what a pair counts in tokens
        _keep_memory()
        start_processes()
        import deepspeed

        torch.set_num_threads(params.threads)
        torch.use_deterministic_algorithms(not torch.cuda.is_available())
        # Or else each buffer is filled with NaN when it is made: gigabytes a step, where ZeRO takes one for gradients.
        torch.utils.deterministic.fill_uninitialized_memory = False
        staged = params.parallel.pipeline > 1
        if params.activation_checkpointing and not staged:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trained = stage_of(model, params, self.layout.world) if staged else model
            grouped = groups(model, params, trained)
            self.parameters = {group["name"]: list(group["params"]) for group in grouped}
            self.deepspeed, *_ = deepspeed.initialize(
                model=trained,
                model_parameters=grouped,
                optimizer=own_optimizer(params),
                config=deepspeed_config(params, self.layout.world),
            )
        if self.layout.world == 1 and params.zero_stage == 0:
            self.deepspeed.enable_backward_allreduce = False  # there is nobody to add gradients of; it would copy all of them
        if params.compile:
            self.deepspeed.compile()
        self.device = self.deepspeed.device
        self.pipeline = Pipeline(self.deepspeed, params.z_loss) if staged else None
        if params.parallel.sequence > 1:
            share = share_sequences(model, params.parallel.sequence)
            self.objective = replace(self.objective, share=share)

    def step(self, batch: Batch, learning_rate: float, *, step: int = 0, ratios: bool = False) -> StepResult:
        """One optimizer step over a global batch, of which this rank has its part.

        Args:
            batch: This rank's rows, which `layout.rows` names; as many on every rank.
            learning_rate: Of this step.
            step: Its number, from 1: what a masked model hides, and the length of sequences, depend on it.
            ratios: Whether to measure the update ratios, which costs a copy of the weights.

        Returns:
            What happened. A loss that is not finite updates nothing, on any rank; what then is for the loop to say.
        """
        for group in self.deepspeed.optimizer.param_groups:
            group["lr"] = learning_rate
        self.deepspeed.train()
        shown = self.objective.shown(batch.pieces(self.params.length_of_step(step, batch.input_ids.shape[1])), step)
        found = self.over_ranks(list(zip(shown.whole().label_counts().tolist(), batch.row_hashes(), strict=True)))
        counts = np.array([count for count, _ in found])
        n_labels = max(1, int(counts.sum()))
        n_pairs = sum(self.over_ranks([shown.n_pairs()])) if self.params.next_sentence else 0
        sums, by_document, pair_sum = self._backward(shown, n_labels, n_pairs)
        finite = bool(np.isfinite([*sums, pair_sum]).all())
        before = self._copy_of_weights() if ratios and finite else None
        norm = self._update() if finite else self._leave()
        return StepResult(
            float(sums.sum() / n_labels),
            (sums / np.maximum(1, counts)).tolist(),
            by_document,
            token_hash([row_hash for _, row_hash in found]),
            norm,
            finite and (self.params.precision != "fp16" or bool(self.deepspeed.was_step_applied())),
            None if before is None else self._update_ratios(before),
            pair_sum / n_pairs if n_pairs else None,
        )

    def _backward(self, batch: Batch, n_labels: int, n_pairs: int) -> tuple[F64, list[list[float]], float]:
        """Gradients of the global batch's mean loss, by token and by pair; returns the sum of each of its sequences' losses, the means of
        its documents, and the sum of its pairs' losses.
        """
        starts = range(0, len(batch.seq_ids), self.params.micro_batch * batch.n_pieces)
        parts = [self._padded(batch.part(slice(start, start + starts.step))) for start in starts]
        scale, found = self.layout.gradient_ranks / n_labels, list[tuple[float, list[float]]]()
        self._pair_losses, self._pair_weight = [], n_labels / max(1, n_pairs)
        of_parts = self._gradients(parts, scale) if self.pipeline is None else self.pipeline.gradients(parts, scale)
        for part, losses_BT in zip(parts, of_parts, strict=False):  # stages before the last know of none
            whole, losses = part.whole(), self._whole(losses_BT).cpu().numpy()
            losses = losses.reshape(whole.labels.shape)
            found += zip(losses.sum(axis=1, dtype=np.float64).tolist(), whole.document_means(losses), strict=True)
        found = self.over_ranks(found)
        pair_sum = sum(self.over_ranks(self._pair_losses)) if n_pairs else 0.0
        return np.array([losses for losses, _ in found]), [means for _, means in found], pair_sum

    def _gradients(self, parts: Sequence[Batch], scale: float) -> Iterator[Any]:
        """Adds up the gradients of micro-batches; gives the loss of each token of each."""
        for number, part in enumerate(parts, 1):
            losses_BT, penalty, pair_loss = self._forward(part)
            if part.pairs is not None:
                self._pair_losses.append(float(pair_loss.detach()))
                penalty = penalty + pair_loss * self._pair_weight
            self.deepspeed.set_gradient_accumulation_boundary(number == len(parts))
            self.deepspeed.backward((losses_BT.sum() + penalty) * scale, scale_wrt_gas=False)
            yield losses_BT.detach()

    def sequence_losses(self, batch: Batch) -> F64:
        """Sum of each sequence's token losses, float64 [b], nats, without gradients; ranks share the work, and each gets all.

        Every rank makes as many forward passes as the others, since under ZeRO 3 each pass gathers weights from all.
        """
        import torch

        self.deepspeed.eval()
        per_round, micro, sums = self.params.micro_batch * self.layout.data_ranks, self.params.micro_batch, np.zeros(len(batch.seq_ids))
        mine = range(self.layout.data_rank * micro, len(sums) + per_round - 1, per_round)[: -(-len(sums) // per_round)]
        parts = [self._padded(batch.part(slice(at, at + micro) if at < len(sums) else slice(0, 1))) for at in mine]
        with torch.no_grad():
            losses = (self._forward(part)[0] for part in parts) if self.pipeline is None else self.pipeline.losses(parts)
            found = [self._whole(losses_BT).sum(dim=1, dtype=torch.float64).tolist() for losses_BT in losses]
        for number, at in enumerate(mine):
            told = found[number] if found and at < len(sums) else []
            sums[number * per_round : (number + 1) * per_round] = self.over_ranks(told)
        return sums

    def _forward(self, batch: Batch) -> tuple[Any, Any, Any]:
        return self.objective.losses(self.deepspeed, batch, self.device, self.params.z_loss)

    def logits(self, batch: Batch) -> Any:
        """What the model says of each place, without gradients: float32 tensor [b, t, vocabulary]. Every rank gives the same batch."""
        import torch

        if self.pipeline is not None:
            return self.pipeline.logits(batch, self.model.config.vocab_size)
        self.deepspeed.eval()
        with torch.no_grad():
            found = self._whole(self.objective.logits(self.deepspeed, self._padded(batch), self.device))
        return found[:, : batch.input_ids.shape[1]]

    def _padded(self, batch: Batch) -> Batch:
        return batch if self.objective.share is None else self.objective.share.padded(batch)

    def _whole(self, values_BT: Any) -> Any:
        """All places of the sequences, where ranks share them."""
        return values_BT if self.objective.share is None else self.objective.share.whole(values_BT)

    def token_losses(self, batch: Batch, module: Any = None) -> Any:
        """Cross entropy of each token, 0 where nothing is predicted: float32 tensor [b, t], nats; of `module` instead of DeepSpeed's.

        A rank may ask alone: nothing is shared.
        """
        return replace(self.objective, share=None).losses(module or self.deepspeed, batch, self.device)[0]

    def over_ranks(self, mine: list[Any]) -> list[Any]:
        """The lists of all data-parallel ranks behind each other, which is the order of the batch; equal on every rank."""
        import torch

        if self.layout.world == 1:
            return mine
        all_of: list[Any] = [None] * self.layout.world
        torch.distributed.all_gather_object(all_of, mine)
        return [value for found in all_of[self.layout.speaker :: self.layout.per_model] for value in found]

    def _leave(self) -> float:
        """Forgets the gradients of a step that must not count."""
        self.deepspeed.zero_grad()
        if self.params.zero_stage or self.params.precision != "fp32":
            self.deepspeed.optimizer.zero_grad()
        return math.nan

    def _update(self) -> float:
        """Clips and applies the gradients; returns their norm before."""
        import torch

        apply = self.deepspeed.step if self.pipeline is None else self.pipeline.update
        if not clips_itself(self.params):
            apply()
            norm = self.deepspeed.get_global_grad_norm()
            return math.nan if norm is None else float(norm)
        parameters = [p for p in self.deepspeed.module.parameters() if p.grad is not None]
        norm = self._plain_norm(parameters) if self.pipeline is None else self.pipeline.norm(parameters)
        if self.params.clip:
            torch.nn.utils.clip_grads_with_norm_(parameters, self.params.clip, norm)
        apply()
        return float(norm)

    def _plain_norm(self, parameters: list[Any]) -> Any:
        """Norm of all gradients; where a matrix lies on several ranks, its pieces are added and the rest counts once."""
        import torch
        from deepspeed.runtime.utils import is_model_parallel_parameter
        from deepspeed.utils import groups as ranks

        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if not is_model_parallel_parameter(p)])
        if self.params.parallel.tensor == 1:
            return norm
        pieces = torch.nn.utils.get_total_norm([p.grad for p in parameters if is_model_parallel_parameter(p)]) ** 2
        torch.distributed.all_reduce(pieces, group=ranks.get_tensor_model_parallel_group())
        return (norm**2 + pieces).sqrt()

    def _copy_of_weights(self) -> list[Any]:
        return [p.detach().clone() for p in self.deepspeed.module.parameters()]

    def _update_ratios(self, before: list[Any]) -> dict[str, float]:
        """Norm of the update over norm of the weights, by group; of this rank's part under ZeRO 3, tensor parallelism and pipelines."""
        place = {id(p): i for i, p in enumerate(self.deepspeed.module.parameters())}
        out = {}
        for name, parameters in self.parameters.items():
            moved = sum(float((p.detach() - before[place[id(p)]]).float().norm()) ** 2 for p in parameters)
            size = sum(float(before[place[id(p)]].float().norm()) ** 2 for p in parameters)
            out[name] = math.sqrt(moved / size) if size else math.nan
        return out


def _keep_memory() -> None:
    """Has the C library keep freed memory: a step frees and takes hundreds of megabytes, and giving them back to the system each
    time costs a sixth of it in page faults (docs/log.md). Only glibc knows the call.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def stop_processes() -> None:
    """Leaves the process group. A process that ends in it may be aborted: gloo's threads are still at work."""
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


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
        # Gloo does the same over memory that ranks share; this op is compiled for a minute at first use.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        if os.environ["WORLD_SIZE"] == "1" and not torch.distributed.is_initialized():
            # A store in this process: no port is opened.
            torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)
        if not deepspeed.comm.is_initialized():
            deepspeed.init_distributed(dist_backend=backend, verbose=False)
