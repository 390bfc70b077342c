"""Spikes: found where they are planted, not before there is a window; what a rollback skips and how it scales the learning rate."""

import math
from pathlib import Path

import numpy as np
import pytest

from dataplane.errors import ParamsError
from dataplane.settings import TrainingSettings
from trainplane.data.order import Batches
from trainplane.pretrain.alarms import ALARMS, HEARTBEAT, Alarms
from trainplane.pretrain.stability import Interventions, SpikeDetector, StabilityParams

PARAMS = StabilityParams()


def stream(n: int, seed: int = 0) -> list[float]:
    return (2.0 + 0.1 * np.random.default_rng(seed).standard_normal(n)).tolist()


def faults(losses: list[float], norms: list[float] | None = None) -> list[int]:
    """Steps, from 0, at which something is said to be wrong."""
    detector = SpikeDetector(PARAMS)
    return [i for i, pair in enumerate(zip(losses, norms or [1.0] * len(losses), strict=True)) if detector.fault(*pair) is not None]


@pytest.mark.parametrize("seed", range(5))
def test_planted_spikes_are_found_and_nothing_else(seed: int) -> None:
    losses = stream(400, seed)
    for step in (64, 200, 399):
        losses[step] = 3.0
    assert faults(losses) == [64, 200, 399]


def test_a_spike_of_the_gradient_norm_counts_too() -> None:
    norms = stream(100, 1)
    norms[80] = 9.0
    assert faults([2.0] * 100, norms) == [80]


def test_nothing_but_the_infinite_is_a_spike_before_64_samples() -> None:
    losses = stream(64)
    losses[10], losses[20], losses[63] = 50.0, math.nan, math.inf
    assert faults(losses) == [20, 63]


def test_a_spike_does_not_become_part_of_the_window() -> None:
    detector = SpikeDetector(PARAMS)
    for loss in stream(128):
        assert detector.fault(loss, 1.0) is None
    before = detector.state()
    assert detector.fault(30.0, 1.0) == f"loss 30 is above {detector.limit('loss'):.4g}, 6 sigma of 128 steps"
    assert detector.state() == before


def test_the_limit_is_mean_plus_six_deviations_of_the_last_128() -> None:
    detector, losses = SpikeDetector(PARAMS), stream(300)
    for loss in losses:
        detector.fault(loss, 1.0)
    last = np.array(losses[-128:])
    assert detector.limit("loss") == pytest.approx(last.mean() + 6 * last.std())


def test_a_window_that_was_put_back_judges_alike() -> None:
    one, two = SpikeDetector(PARAMS), SpikeDetector(PARAMS)
    for loss in stream(100):
        one.fault(loss, 1.0)
    two.restore(one.state())
    assert (two.state(), two.limit("loss")) == (one.state(), one.limit("loss"))


def test_equal_losses_leave_room_for_rounding() -> None:
    assert faults([2.0] * 100 + [2.0 * (1 + 1e-3)] + [2.02]) == [101]


@pytest.mark.parametrize(("skip_steps", "from_step", "sequences"), [(1, 17, 8), (4, 14, 32), (100, 11, 56)])
def test_what_is_skipped_ends_with_the_spike_and_begins_behind_the_checkpoint(skip_steps: int, from_step: int, sequences: int) -> None:
    made = Interventions()
    made.add(StabilityParams(skip_steps=skip_steps, lr_scale=0.5), spike=17, checkpoint=10, batches=Batches.of(8), reason="loss is nan")
    assert [made.skipped_before(step) for step in (from_step - 1, from_step, from_step + 1)] == [0, sequences, 0]
    assert [made.lr_scale(step) for step in (from_step - 1, from_step, 99)] == [1.0, 0.5, 0.5]
    assert Interventions.parse(made.to_json()) == made


def test_rollbacks_to_one_step_add_up() -> None:
    made = Interventions()
    for spike in (12, 12, 15):
        made.add(StabilityParams(lr_scale=0.5), spike, 10, Batches.of(8), "")
    assert (made.skipped_before(12), made.skipped_before(15), made.lr_scale(20)) == (16, 8, 0.125)


def test_more_samples_than_the_window_holds_are_refused() -> None:
    with pytest.raises(ParamsError, match="min_samples"):
        StabilityParams.parse({"window": 10, "min_samples": 11}, where="stability")


def test_a_silent_run_raises_one_alarm_with_the_stacks_of_its_threads(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import json
    import time

    with Alarms(tmp_path, TrainingSettings(stall_seconds=0.05)) as alarms:
        alarms.beat(6, [0.001])
        end = time.monotonic() + 10
        while not (tmp_path / ALARMS).exists() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
    (line,) = (tmp_path / ALARMS).read_text().splitlines()
    told = json.loads(line)
    assert (told["alarm"], told["step"], told["rank"]) == ("stall", 7, 0)
    assert "test_a_silent_run_raises_one_alarm" in capfd.readouterr().err
    assert json.loads((tmp_path / HEARTBEAT).read_text())["step"] == 6


def test_a_rank_that_is_slower_than_the_others_is_named(tmp_path: Path) -> None:
    import json

    alarms = Alarms(tmp_path, TrainingSettings(alarm_factor=3))
    alarms.beat(1, [0.1, 0.1, 0.2, 0.1])
    alarms.beat(2, [0.1, 0.1, 0.4, 0.1])
    (line,) = (tmp_path / ALARMS).read_text().splitlines()
    assert {name: json.loads(line)[name] for name in ("alarm", "step", "rank", "usual")} == {
        "alarm": "straggler", "step": 2, "rank": 2, "usual": 0.1,
    }  # fmt: skip
