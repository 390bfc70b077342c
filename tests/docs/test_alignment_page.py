"""docs/alignment.md is true: its programs run, its params are taken, its command prints what it shows."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

PAGE = (Path(__file__).parents[2] / "docs" / "alignment.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("program", [one for one in blocks("python") if "trainplane" in one])
def test_the_programs_of_the_page_run(program: str) -> None:
    exec(compile(program, "docs/alignment.md", "exec"), {"__name__": "page"})


@pytest.mark.parametrize("stage", ["ppo", "grpo"])
def test_the_params_of_the_policies_are_taken(stage: str) -> None:
    from trainplane.align.rewards import Scorer
    from trainplane.align.rl_params import GRPOParams, PPOParams

    (values,) = [parsed[stage] for parsed in map(yaml.safe_load, blocks("yaml")) if stage in parsed]
    params = {"ppo": PPOParams.parse, "grpo": GRPOParams.parse}[stage](values, where=stage)
    assert [reward.name for _, reward in Scorer(params.rewards).rewards] == [use.use for use in params.rewards]


def test_the_params_of_safety_are_taken() -> None:
    from trainplane.evaluate.params import EvaluateParams

    (values,) = [parsed["evaluate"] for parsed in map(yaml.safe_load, blocks("yaml")) if "evaluate" in parsed]
    assert [task.kind for task in EvaluateParams.parse(values, where="evaluate").safety] == ["harmful", "harmless"]


def test_every_reward_has_a_row_and_its_params_are_those_of_the_class() -> None:
    from dataplane.registry import entries

    rows = dict(re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", PAGE, re.MULTILINE))
    classes = {name: point.load() for name, point in entries("trainplane.rewards").items()}
    assert {name: re.findall(r"`(\w+)`", row) for name, row in rows.items()} == {
        name: list(reward.Params.model_fields) for name, reward in classes.items()
    }


def test_the_comparison_prints_what_the_page_shows(project: Path) -> None:
    from trainplane.cli import main
    from trainplane.evaluate.compare import item_rows
    from trainplane.evaluate.scores import Score

    (shown,) = [one for one in blocks("console") if "trainplane compare" in one]
    command, line = shown.strip().splitlines()
    right = {"sft": 2, "ppo": 6}
    scores = [
        Score("questions", "all", "exact_match", 0.0, 0.0, 8, items={str(n): float(n < count) for n in range(8)}).of(model, model)
        for model, count in right.items()
    ]
    Path("metrics").mkdir()
    Path("metrics/item_scores.json").write_text(json.dumps(item_rows(scores)))
    done = CliRunner().invoke(main, command.split()[2:])
    assert (done.exit_code, done.output.startswith(line.rstrip("…"))) == (0, True)


@pytest.mark.parametrize("option", re.findall(r"`dataplane init (--\w+ \w+)", PAGE))
def test_options_that_the_page_names_are_there(option: str) -> None:
    from dataplane.commands.project import init

    name, value = option.split()
    (found,) = [one for one in init.params if name in one.opts]
    assert value in found.type.choices  # type: ignore[attr-defined]
