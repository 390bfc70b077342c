"""GRPO and RLOO through trl: a first loss of 0 that still teaches, rewards that rise, equal runs."""

import csv
import json
import math
from pathlib import Path

import pytest
import yaml

from dataplane.errors import ParamsError
from trainplane.align.grpo import check_first_loss, schedule
from trainplane.align.rl_params import GRPOParams
from trainplane.errors import TrainingError
from trainplane.lineage.ledger import verify


def params(**values: object) -> GRPOParams:
    return GRPOParams.parse({"data": ["x"], "rewards": [{"use": "length"}]} | values, where="grpo")


def read(path: str) -> dict:
    return json.loads(Path(path).read_text())


def run_stage(**values: object) -> dict:
    from trainplane.stages import grpo

    whole = yaml.safe_load(Path("params.yaml").read_text())
    whole["grpo"] |= values
    Path("params.yaml").write_text(yaml.safe_dump(whole))
    grpo.main()
    return read("metrics/grpo.json")


def test_a_step_has_whole_groups_and_an_epoch_each_prompt_once() -> None:
    steps = schedule(params(batch_size=8, group_size=4, max_steps=6), 6)
    assert [len(step) for step in steps] == [2] * 6
    assert [sorted(place for step in steps[first : first + 3] for place in step) for first in (0, 3)] == [list(range(6))] * 2
    with pytest.raises(ParamsError, match="no multiple"):
        schedule(params(batch_size=8, group_size=3), 6)


@pytest.mark.parametrize("loss", [0.01, math.nan])
def test_a_first_loss_that_is_not_0_stops_the_runs_whose_loss_must_be(loss: float) -> None:
    for name in ("grpo", "rloo"):
        check_first_loss(1, 1e-7, params(loss=name))
        check_first_loss(2, loss, params(loss=name))
        with pytest.raises(TrainingError, match="expected 0"):
            check_first_loss(1, loss, params(loss=name))
    for other in (params(loss="dapo"), params(loss="grpo", beta=0.1)):
        check_first_loss(1, 0.01, other)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["grpo", "rloo"])
def test_the_first_loss_is_0_and_its_gradient_is_not(prompts_project: Path, loss: str) -> None:
    metrics = run_stage(loss=loss, max_steps=2)
    entries = [json.loads(line) for line in Path("models/grpo/consumed.jsonl").read_text().splitlines()]
    assert abs(metrics["first_loss"]) <= 1e-6
    assert entries[0]["grad_norm"] > 1e-3


@pytest.mark.slow
def test_the_stage_raises_its_reward_records_what_it_consumed_and_repeats_bit_for_bit(prompts_project: Path) -> None:
    metrics, run = run_stage(), read("models/grpo/run.json")
    with Path("plots/grpo.csv").open() as stream:
        scores = [float(row["score"]) for row in csv.DictReader(stream)]
    assert sum(scores[-10:]) / 10 > sum(scores[:5]) / 5 + 0.1
    assert [(seen["step"], seen["kl"] > 0) for seen in metrics["held_out"]] == [(0, False), (20, True), (40, True)]
    assert metrics["alarms"] == []
    entries = [json.loads(line) for line in Path("models/grpo/consumed.jsonl").read_text().splitlines()]
    assert [entry["chain_hash"] for entry in verify(entries)][-1] == run["chain_hash"]
    assert {name for entry in entries for name in entry["ids"]} == {f"p{i}" for i in range(24) if i % 3}
    assert run_stage() == metrics
    assert read("models/grpo/run.json") == run


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["dr_grpo", "dapo", "bnpo"])
def test_each_loss_of_trl_runs(prompts_project: Path, loss: str) -> None:
    metrics = run_stage(loss=loss, max_steps=2, beta=0.05)
    assert metrics["steps"] == 2
    assert read("models/grpo/run.json")["digest"] != read("models/sft/run.json")["digest"]


@pytest.mark.slow
def test_an_alarm_stops_the_run_and_leaves_no_model(prompts_project: Path) -> None:
    with pytest.raises(TrainingError, match="kl is"):
        run_stage(guards={"max_kl": 0.01, "judge_every": 2})
    assert not Path("models/grpo").exists()
