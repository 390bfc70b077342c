"""What a run tells: MFU as llm-foundry's table has it, lines that survive a kill, TensorBoard's events."""

from pathlib import Path

import pytest

from dataplane.settings import TrainingSettings
from trainplane.pretrain.watch import FILE, Watch, flops_per_token, mfu, read


def test_mfu_is_that_of_llm_foundrys_table() -> None:
    """1.3B parameters, 24 layers, 2,048 wide, 2,048 tokens at 45,455 tokens/s on an H100: 41.82 %."""
    flops = flops_per_token(1_315_950_592, 24, 2048, 2048)
    assert round(100 * mfu(45_455, flops, 989.5e12), 2) == 41.82


def test_a_resumed_run_says_each_step_once(tmp_path: Path) -> None:
    first = Watch(tmp_path, 0, TrainingSettings())
    for step in range(1, 6):
        first.write(step, {"loss": float(step), "mfu": None})
    with (tmp_path / FILE).open("a") as stream:
        stream.write('{"step": 6, "lo')
    resumed = Watch(tmp_path, 3, TrainingSettings())
    resumed.write(4, {"loss": 0.5})
    assert read(tmp_path / FILE) == [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 2.0}, {"step": 3, "loss": 3.0}, {"step": 4, "loss": 0.5}]


@pytest.mark.slow
def test_tensorboard_reads_the_same_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    watch = Watch(tmp_path, 0, TrainingSettings(tensorboard=str(tmp_path / "events")))
    for step in (1, 2):
        watch.write(step, {"loss": 3.0 - step, "update_ratio/matrices": 0.25})
    watch.close()
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 2.0), (2, 1.0)]
    assert [event.value for event in events.Scalars("update_ratio/matrices")] == [0.25, 0.25]
