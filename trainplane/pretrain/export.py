"""From a trained engine to a model that stands alone: whole weights under every ZeRO stage, and a check of what was saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainplane.data.packed import Batch
from trainplane.errors import TrainingError
from trainplane.model.build import load
from trainplane.pretrain.engine import Engine
from trainplane.pretrain.parts import check_known, holders, parts_of_ranks

TOLERANCE = 1e-5  # of a logit in fp32; the same weights through the same kernels
ROUNDINGS = 4  # of the largest logit in half precision: where a weight begins in memory decides how a product is summed there


@contextmanager
def whole_weights(engine: Engine) -> Iterator[None]:
    """Has every rank hold all weights for the while; under ZeRO 3, tensor parallelism and in a pipeline each holds a part. Every rank has
    to enter, and the model cannot be called meanwhile.

    Raises:
        TrainingError: A weight is cut in a way that is not known here.
    """
    if engine.pipeline is not None:
        engine.pipeline.gather(engine.model)
    if engine.layout.tensor > 1:
        with _put_together(engine):
            yield
        return
    if engine.params.zero_stage < 3:
        yield
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters(list(engine.deepspeed.module.parameters())):
        yield


@contextmanager
def _put_together(engine: Engine) -> Iterator[None]:
    """Rows and columns of matrices that the ranks of a layer share."""
    import torch
    from deepspeed.utils import groups

    held, mine = holders(parts_of_ranks(engine)), engine.layout.rank % engine.layout.tensor
    first, group = engine.layout.rank - mine, groups.get_tensor_model_parallel_group()
    own: list[tuple[Any, Any]] = []
    for name, parameter in engine.model.named_parameters():
        dim = held[name][0][1].dim
        if dim is None:
            continue
        check_known(held[name])
        pieces = [parameter.data.contiguous() if rank == mine else parameter.new_empty(part.shape) for rank, part in held[name]]
        for rank, piece in enumerate(pieces):
            torch.distributed.broadcast(piece.detach(), first + rank, group=group)
        own.append((parameter, parameter.data))
        parameter.data = torch.cat([piece.detach() for piece in pieces], dim)
    try:
        yield
    finally:
        for parameter, data in own:
            parameter.data = data


def check_export(engine: Engine, folder: Path, batch: Batch) -> None:
    """Loads what was saved and holds it against the engine: all weights, and the logits of a batch where a rank can compute them alone.

    Raises:
        TrainingError: They differ.
    """
    import torch

    trained, loaded = engine.model, load(folder, engine.params.head)
    for name, saved in loaded.state_dict().items():
        own = trained.state_dict()[name].detach().cpu().float()
        if own.shape != saved.shape or not torch.equal(own, saved.float()):
            raise TrainingError(
                f"the weights {name} were saved otherwise than they were trained", where=str(folder), fix="look at the disk"
            )
    if engine.params.zero_stage == 3 or engine.layout.tensor > 1:
        return
    loaded = loaded.to(engine.device, next(trained.parameters()).dtype)
    own_BTV, precision = _logits(engine, trained, batch), next(trained.parameters()).dtype
    difference = float((own_BTV - _logits(engine, loaded, batch)).abs().max())
    allowed = TOLERANCE if precision == torch.float32 else ROUNDINGS * torch.finfo(precision).eps * float(own_BTV.abs().max())
    if not difference <= allowed:
        raise TrainingError(
            f"the saved model's logits differ by {difference}", where=str(folder), fix="this model cannot be saved as it is"
        )


def _logits(engine: Engine, model: Any, batch: Batch) -> Any:
    import torch

    was_training = model.training
    model.eval()
    with torch.no_grad():
        found = replace(engine.objective, share=None).logits(model, batch, engine.device)
    model.train(was_training)
    return found
