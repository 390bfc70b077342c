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

TOLERANCE = 1e-5  # of a logit in fp32; the same weights through the same kernels
ROUNDINGS = 4  # of the largest logit in half precision: where a weight begins in memory decides how a product is summed there


@contextmanager
def whole_weights(engine: Engine) -> Iterator[None]:
    """Has every rank hold all weights for the while; under ZeRO 3 and in a pipeline each holds a part. Every rank has to enter."""
    if engine.pipeline is not None:
        engine.pipeline.gather(engine.model)
    if engine.params.zero_stage < 3:
        yield
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters(list(engine.deepspeed.module.parameters())):
        yield


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
    if engine.params.zero_stage == 3:
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
