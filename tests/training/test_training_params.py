"""Schedule, batches and the DeepSpeed config as functions of the params."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.errors import ParamsError
from trainplane.params import ModelParams, PretrainParams, deepspeed_config
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
