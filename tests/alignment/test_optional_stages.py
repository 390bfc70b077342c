"""The stages that a project may add: where they stand in the graph, what they wait for, and how the report shows them."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dataplane.stage_graph import Inputs, dvc_yaml

SOME = Inputs(raw=["data/a"], instructions=["data/i"], preferences=["data/p"], prompts=["data/q"])


def stages(*align: str) -> dict:
    return dvc_yaml(Inputs(**(vars(SOME) | {"align": align})))["stages"]


def test_stages_that_nobody_asked_for_are_not_in_the_graph() -> None:
    assert set(stages()) & {"reward", "ppo", "grpo"} == set()
    assert set(stages("ppo")) - set(stages()) == {"ppo"}


def test_policies_wait_for_the_reward_model_where_there_is_one_and_are_evaluated() -> None:
    whole = stages("reward", "ppo", "grpo")
    assert whole["reward"]["deps"] == [*whole["dpo"]["deps"]]
    lake = [f"lake/{table}.json" for table in ("raw", "documents", "decontaminated")]  # prompts may be documents
    assert whole["ppo"]["deps"] == whole["grpo"]["deps"] == [*lake, "models/sft", "data/q", "models/reward"]
    assert stages("ppo")["ppo"]["deps"] == [*lake, "models/sft", "data/q"]
    assert [path for path in whole["evaluate"]["deps"] if path.startswith("models")] == [
        "models/pretrain", "models/sft", "models/dpo", "models/ppo", "models/grpo",
    ]  # fmt: skip
    told = {"metrics/ppo.json", "models/ppo/run.json", "plots/ppo.csv", "metrics/reward.json", "models/reward/run.json", "plots/reward.csv"}
    assert told <= set(whole["report"]["deps"])


def init(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    from dataplane.cli import main

    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "a", "text": "words", "prompt": "p"}) + "\n")
    command = ["init", str(tmp_path / "project"), "--source", f"a={tmp_path}/rows.jsonl", *arguments]
    done = CliRunner().invoke(main, [argument.replace("ROWS", f"{tmp_path}/rows.jsonl") for argument in command])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--align", "ppo", "--prompts", "ROWS"], "add --instructions"),
        (["--align", "reward", "--instructions", "ROWS"], "add --preferences"),
        (["--align", "grpo", "--instructions", "ROWS"], "add --prompts"),
    ],
)
def test_what_a_stage_lacks_is_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    code, output = init(tmp_path, *arguments)
    assert (code, message in output, (tmp_path / "project").exists()) == (2, True, False)


def test_a_new_project_has_the_stages_asked_for_and_params_that_they_take(tmp_path: Path) -> None:
    from trainplane.align.rl_params import GRPOParams, PPOParams, RewardModelParams

    files = ["--instructions", "ROWS", "--preferences", "ROWS", "--prompts", "ROWS"]
    assert init(tmp_path, *files, "--align", "reward", "--align", "ppo", "--align", "grpo")[0] == 0
    params = yaml.safe_load((tmp_path / "project/params.yaml").read_text())
    assert params["evaluate"]["models"] == ["pretrain", "sft", "dpo", "ppo", "grpo"]
    assert RewardModelParams.parse(params["reward"], where="reward").data == ["data/preference/**"]
    for parse, stage in ((PPOParams.parse, "ppo"), (GRPOParams.parse, "grpo")):
        found = parse(params[stage], where=stage)
        assert (found.data, [use.use for use in found.rewards]) == (["data/prompts/**"], ["length"])
    graph = yaml.safe_load((tmp_path / "project/dvc.yaml").read_text())["stages"]
    assert {"reward", "ppo", "grpo"} <= set(graph)


def test_every_reward_is_an_option_of_the_template() -> None:
    import re
    from importlib.resources import files

    from dataplane.registry import entries

    text = files("dataplane.template").joinpath("params.yaml").read_text(encoding="utf-8")
    options = yaml.safe_load(re.sub(r"(?m)^( +)# (- \{use: .*\})$", r"\1\2", text))["ppo"]["rewards"]
    assert sorted(option["use"] for option in options) == sorted(entries("trainplane.rewards"))


def test_the_report_shows_curves_calibration_and_alarms_of_what_was_run(tmp_path: Path) -> None:
    from dataplane.report.blocks import Figure, Heading, Table
    from dataplane.report.project import Project
    from dataplane.report.sections.alignment import alignment

    assert alignment(Project(tmp_path)) == []
    for name in ("plots", "metrics"):
        (tmp_path / name).mkdir()
    (tmp_path / "plots/ppo.csv").write_text("step,loss,score,kl,entropy,length\n1,0.1,0.5,0.0,2.0,9\n2,0.1,0.6,0.5,1.9,9\n")
    looks = [{"step": 0, "score": 0.4, "kl": 0.0, "judged": None}, {"step": 2, "score": 0.6, "kl": 0.5, "judged": None}]
    alarm = {"step": 2, "name": "length", "value": 9.0, "limit": 8.0}
    (tmp_path / "metrics/ppo.json").write_text(json.dumps({"held_out": looks, "alarms": [alarm]}))
    blocks = alignment(Project(tmp_path))
    assert [block.text for block in blocks if isinstance(block, Heading)] == ["Reinforcement learning (PPO)"]
    assert [block.caption for block in blocks if isinstance(block, Figure)] == [
        "Mean score", "KL to the reference", "Entropy of the policy", "Mean length of an answer",
    ]  # fmt: skip
    assert [block.rows for block in blocks if isinstance(block, Table)] == [[[2, "length", 9.0, 8.0]]]


def test_the_reports_calibration_is_that_of_the_metrics(tmp_path: Path) -> None:
    from dataplane.report.blocks import Note, Table
    from dataplane.report.project import Project
    from dataplane.report.sections.alignment import alignment
    from trainplane.evaluate.calibration import calibration

    (tmp_path / "metrics").mkdir()
    held_out = calibration([1.0, 2.0, -0.5, 3.0], 10, seed=0, resamples=20)
    (tmp_path / "metrics/reward.json").write_text(json.dumps({"held_out": held_out}))
    blocks = alignment(Project(tmp_path))
    (note,) = [block.text for block in blocks if isinstance(block, Note)]
    assert note.startswith("Of 4 held-out pairs it ranks 0.75")
    (table,) = [block for block in blocks if isinstance(block, Table)]
    assert sum(row[2] for row in table.rows) == 4
