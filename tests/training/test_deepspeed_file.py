"""A checkpoint's file makes tensors and DeepSpeed's own classes, and runs nothing."""

import os
from pathlib import Path

import pytest
import torch

from trainplane.errors import TrainingError
from trainplane.pretrain.deepspeed_file import read_file


class Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("mmap", [False, True])
def test_what_deepspeed_writes_comes_back(tmp_path: Path, mmap: bool) -> None:
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum

    scaler = DynamicLossScaler(2.0**16, 2.0, 1000, 1.0, 1)
    torch.save({"w": torch.arange(3.0), "stage": ZeroStageEnum.weights, "loss_scaler": scaler, "n": 1}, tmp_path / "a.pt")
    found = read_file(tmp_path / "a.pt", mmap=mmap)
    assert found["w"].tolist() == [0.0, 1.0, 2.0]
    assert (found["stage"], found["n"], vars(found["loss_scaler"])) == (ZeroStageEnum.weights, 1, vars(scaler))


def test_what_would_run_is_refused_and_named(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(1), "x": Runs(tmp_path / "made")}, tmp_path / "a.pt")
    with pytest.raises(TrainingError, match=r"not what DeepSpeed writes: .*mkdir"):
        read_file(tmp_path / "a.pt")
    assert not (tmp_path / "made").exists()
