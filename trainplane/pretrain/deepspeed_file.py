"""Reads a file that DeepSpeed wrote."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from trainplane.errors import TrainingError


def read_file(path: Path, map_location: Any = "cpu", *, mmap: bool = False) -> Any:
    """What is in a file: tensors, plain values, and the few classes that DeepSpeed puts beside them. Nothing else is made of it.

    Args:
        path: The file.
        map_location: Where its tensors go.
        mmap: Whether they stay in the file until they are read.

    Raises:
        TrainingError: The file holds something else, or is damaged.
    """
    import torch
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler, LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    try:
        with torch.serialization.safe_globals([DynamicLossScaler, LossScaler, ZeroStageEnum, fragment_address]):
            return torch.load(path, map_location=map_location, mmap=mmap or None, weights_only=True)
    except pickle.UnpicklingError as error:
        named = next((line.strip() for line in str(error).splitlines() if "GLOBAL" in line), "it is damaged")
        raise TrainingError(
            f"a checkpoint's file is not what DeepSpeed writes: {named}", where=str(path), fix="take another checkpoint"
        ) from None
