"""Schedule, batches and the DeepSpeed config as functions of the params."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.errors import ParamsError
from trainplane.params import ModelParams, PretrainParams
from trainplane.pretrain.layout import Layout, check, deepspeed_config
from trainplane.pretrain.schedule import learning_rate

PARAMS = PretrainParams(steps=100, warmup_steps=10, learning_rate=1.0, min_lr_ratio=0.1)


@pytest.mark.parametrize(("step", "rate"), [(1, 0.1), (5, 0.5), (10, 1.0), (55, 0.55), (100, 0.1)])
def test_the_schedule_at_known_points(step: int, rate: float) -> None:
    assert learning_rate(step, PARAMS) == pytest.approx(rate)


@given(st.integers(1, 99))
def test_the_rate_rises_in_warm_up_and_falls_after(step: int) -> None:
    rises = learning_rate(step + 1, PARAMS) > learning_rate(step, PARAMS)
    assert rises == (step < PARAMS.warmup_steps)


def test_the_cosine_is_half_way_down_in_its_middle() -> None:
    middle = (PARAMS.warmup_steps + PARAMS.steps) // 2
    assert learning_rate(middle, PARAMS) == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 2)))


def test_accumulation_makes_up_the_global_batch() -> None:
    params = PretrainParams(global_batch=16, micro_batch=4)
    assert [params.accumulation(world) for world in (1, 2, 4)] == [4, 2, 1]
    with pytest.raises(ValueError, match="3 ranks"):
        params.accumulation(3)


@pytest.mark.parametrize("values", [{"global_batch": 8, "micro_batch": 3}, {"steps": 0}, {"learning_rate": -1}, {"zero_stage": 4}])
def test_impossible_training_params_are_refused(values: dict) -> None:
    with pytest.raises(ParamsError):
        PretrainParams.parse(values, where="pretrain")


@pytest.mark.parametrize("values", [{"hidden_size": 100, "n_heads": 6}, {"n_heads": 6, "n_kv_heads": 4}])
def test_heads_have_to_divide(values: dict) -> None:
    with pytest.raises(ParamsError, match="multiple"):
        ModelParams.parse(values, where="model")


def test_the_deepspeed_config_follows_the_params() -> None:
    config = deepspeed_config(PretrainParams(zero_stage=2, precision="bf16", global_batch=8, micro_batch=2, clip=0.5), 2)
    assert config["zero_optimization"] == {"stage": 2}
    assert config["bf16"] == {"enabled": True}
    assert (config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]) == (2, 2)
    assert config["gradient_clipping"] == 0.5


def rates(**more: object) -> list[float]:
    params = PretrainParams.model_validate({"steps": 100, "warmup_steps": 10, "learning_rate": 1.0, "min_lr_ratio": 0.1} | more)
    return [learning_rate(step, params) for step in range(1, 101)]


def test_wsd_stays_at_the_peak_and_falls_straight_at_the_end() -> None:
    found = rates(schedule="wsd", decay_share=0.2)
    assert found[9:80] == [1.0] * 71
    assert found[80:] == pytest.approx([1 - 0.9 * i / 20 for i in range(1, 21)])


def test_restarts_reach_the_floor_and_the_peak_in_every_cycle() -> None:
    found = rates(schedule="restarts", cycles=3)
    for end in (40, 70, 100):
        assert found[end - 1] == pytest.approx(0.1)
        assert found[end - 16] == pytest.approx(0.55)
    assert found[40] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 30)))
    assert rates(schedule="restarts", cycles=1) == pytest.approx(rates(schedule="cosine"))


def test_inverse_sqrt_is_vaswanis_down_to_its_floor() -> None:
    found = rates(schedule="inverse_sqrt", min_lr_ratio=0.4)
    assert found[9:] == pytest.approx([max(0.4, (10 / step) ** 0.5) for step in range(10, 101)])


@pytest.mark.parametrize("schedule", ["cosine", "wsd", "restarts", "inverse_sqrt"])
def test_every_schedule_warms_up_and_keeps_between_floor_and_peak(schedule: str) -> None:
    found = rates(schedule=schedule)
    assert found[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert (min(found[10:]) >= 0.1 - 1e-12, max(found)) == (True, 1.0)


@pytest.mark.parametrize(
    ("values", "world", "message"),
    [
        ({"parallel": {"tensor": 3}}, 4, "3 ranks do not divide the 4 ranks"),
        ({"global_batch": 8, "micro_batch": 8}, 2, "no multiple of micro_batch 8 x 2 ranks"),
        ({"zero_stage": 3, "parallel": {"tensor": 2}}, 2, "DeepSpeed refuses AutoTP with ZeRO 3"),
        ({"parallel": {"offload_optimizer": True}}, 1, "offload_optimizer needs zero_stage"),
        ({"zero_stage": 2, "parallel": {"offload_params": True}}, 1, "offload_params needs zero_stage 3"),
        ({"zero_stage": 2, "parallel": {"pipeline": 2}}, 2, "pipeline parallelism goes with zero_stage 0 or 1"),
        ({"parallel": {"pipeline": 2, "tensor": 2}}, 4, "pipeline parallelism goes with no other"),
        ({"objective": "masked", "parallel": {"pipeline": 2}}, 2, "pipeline parallelism is for objective causal"),
        ({"precision": "fp16", "zero_stage": 1, "parallel": {"pipeline": 2}}, 2, "pipeline parallelism goes without fp16"),
        ({"next_sentence": True}, 1, "next_sentence is for objective masked"),
        ({"objective": "masked", "next_sentence": True, "parallel": {"tensor": 2}}, 2, "next_sentence goes without tensor and sequence"),
        ({"precision": "bf16", "parallel": {"pipeline": 2}}, 2, "pipeline parallelism in bf16 needs zero_stage 1"),
        ({"compile": True, "parallel": {"pipeline": 2}}, 2, "pipeline parallelism goes without compile"),
        ({"parallel": {"sequence": 2, "tensor": 2}}, 4, "sequence parallelism goes with no other"),
        ({"precision": "fp16"}, 1, "fp16 needs zero_stage"),
        ({"optimizer": "lamb", "zero_stage": 1}, 1, "lamb needs whole matrices"),
        ({"optimizer": "muon", "zero_stage": 1}, 1, "muon needs whole matrices"),
        ({"optimizer": "lamb", "precision": "bf16"}, 1, "lamb needs whole matrices"),
        ({"batch_schedule": [{"from_step": 5, "sequences": 3}]}, 2, "batch_schedule 3 is no multiple of micro_batch 1 x 2 ranks"),
    ],
)
def test_what_deepspeed_cannot_do_is_refused_before_anything_starts(values: dict, world: int, message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        check(PretrainParams.model_validate({"global_batch": 8, "micro_batch": 1} | values), world)


def test_all_faults_of_a_layout_are_told_at_once() -> None:
    wrong = PretrainParams.parse({"optimizer": "lamb", "zero_stage": 3, "parallel": {"tensor": 2}, "micro_batch": 1}, where="pretrain")
    with pytest.raises(ParamsError, match=r"AutoTP.*lamb"):
        check(wrong, 2)


def test_ranks_that_share_a_model_lie_side_by_side_and_take_the_same_rows() -> None:
    found = [(layout.data_rank, layout.rows(8)) for layout in (Layout(4, rank, 2) for rank in range(4))]
    first, second = slice(0, 4), slice(4, 8)
    assert found == [(0, first), (0, first), (1, second), (1, second)]
