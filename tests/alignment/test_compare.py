"""Two models on the same items: whose mean is higher, and how sure that is."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from trainplane.cli import main
from trainplane.evaluate.compare import compare, item_rows
from trainplane.evaluate.scores import Score
from trainplane.evaluate.uncertainty import paired_bootstrap


def score(stage: str, values: dict[str, float] | None, **more: str) -> Score:
    found = Score("t", "all", "acc", 0.5, 0.1, 4, items=values, **({"template_hash": "h"} | more))
    return found.of(stage, f"digest of {stage}")


FIRST = {f"i{n}": float(n % 2) for n in range(20)}
SECOND = {f"i{n}": float(n % 4 > 0) for n in range(5, 20)} | {"other": 1.0}


def test_only_items_that_both_answered_are_compared() -> None:
    rows = item_rows([score("sft", FIRST), score("dpo", SECOND), score("dpo", None)])
    (found,) = compare(rows, "sft", "dpo", seed=3)
    shared = [f"i{n}" for n in range(5, 20)]
    expected = paired_bootstrap([FIRST[item] for item in shared], [SECOND[item] for item in shared], seed=3)
    assert {name: found[name] for name in ("value", "low", "high", "p_value")} == {
        name: getattr(expected, name) for name in ("value", "low", "high", "p_value")
    }
    assert (found["items"], found["first_mean"], found["same_template"]) == (15, sum(FIRST[item] for item in shared) / 15, True)


def test_other_versions_are_not_compared_and_other_words_are_told() -> None:
    assert compare(item_rows([score("sft", FIRST), score("dpo", SECOND, task_version="2")]), "sft", "dpo") == []
    (found,) = compare(item_rows([score("sft", FIRST), score("dpo", SECOND, template_hash="k")]), "sft", "dpo")
    assert found["same_template"] is False


def test_the_values_of_items_stay_out_of_the_table() -> None:
    assert set(score("sft", FIRST).row("r", 0)) == set(Score.__dataclass_fields__) - {"items"} | {"run_id", "seed"}


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["compare", *arguments])
    return done.exit_code, done.output


def test_the_command_tells_the_difference_and_names_what_is_missing(project: Path) -> None:
    code, output = run("sft", "dpo")
    assert (code, "dvc repro evaluate" in output) == (2, True)
    Path("metrics").mkdir()
    rows = item_rows([score("sft", FIRST), score("dpo", FIRST | {f"i{n}": 1.0 for n in range(12)})])
    Path("metrics/item_scores.json").write_text(json.dumps(rows))
    code, output = run("sft", "dpo")
    assert (code, output.startswith("t acc: 0.5000 -> 0.8000 on 20 items, difference +0.3000 (95 %: +")) == (0, True)
    (found,) = json.loads(run("sft", "dpo", "--json")[1])
    assert found["value"] == pytest.approx(0.3)
    code, output = run("sft", "dpu")
    assert (code, "did you mean 'dpo'" in output) == (2, True)
