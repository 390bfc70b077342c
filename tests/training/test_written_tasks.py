"""Tasks answered in writing, with a model whose answers are known."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from dataplane.errors import SourceError
from trainplane.errors import SandboxUnavailable
from trainplane.evaluate.params import ProgramParams, WrittenParams
from trainplane.evaluate.sandbox import require_sandbox
from trainplane.evaluate.written import WrittenTask, read_written_items, run_written

WRITTEN = WrittenParams(name="qa", data=["qa.jsonl"])
PROGRAMS = ProgramParams(name="code", data=["code.jsonl"], programs=3, k=[1, 2], temperature=0.5)
ANSWERS = {"Where?": " in Paris, France", "Who?": "the cat", "谁？": "我们去公园"}
ITEMS = [
    {"id": "a", "question": "Where?", "references": ["Paris"], "lang": "en"},
    {"id": "b", "question": "Who?", "references": ["nobody", "Cat"], "lang": "en"},
    {"id": "c", "question": "谁？", "references": ["我们去公园"], "lang": "zh"},
]
PROBLEM = {"id": "p", "question": "def one():\n", "test": "def check(f):\n    assert f() == 1", "entry_point": "one"}


def write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_answers_are_scored_by_item_and_language_with_standard_errors(tmp_path: Path) -> None:
    write_lines(tmp_path / "qa.jsonl", ITEMS)
    task = WrittenTask(WRITTEN, read_written_items(WRITTEN, tmp_path), "clean")
    scores = run_written(task, lambda question, heat, seed: ANSWERS[question], asked="h", seed=0)
    found = {(score.metric, score.group): score for score in scores}
    assert sorted({metric for metric, _ in found}) == ["bleu", "chrf", "exact_match", "f1", "rouge1", "rouge2", "rougeL"]
    assert found["exact_match", "all"].value == pytest.approx(2 / 3)
    assert found["exact_match", "all"].standard_error == pytest.approx(1 / 3)
    assert (found["f1", "lang=en"].value, found["f1", "lang=en"].n) == (pytest.approx(0.75), 2)
    assert (found["bleu", "lang=zh"].value, found["chrf", "lang=zh"].value) == (pytest.approx(100), pytest.approx(100))
    assert found["bleu", "all"].standard_error > 0
    assert {(score.contamination, score.task_version, score.task) for score in scores} == {("clean", "1", "qa")}


def test_the_template_hash_tells_how_a_question_was_put_apart(tmp_path: Path) -> None:
    write_lines(tmp_path / "qa.jsonl", ITEMS)
    items = read_written_items(WRITTEN, tmp_path)
    longer = WRITTEN.model_copy(update={"max_new_tokens": 9})
    asked = [("h", WRITTEN), ("h", WRITTEN), ("other", WRITTEN), ("h", longer)]
    hashes = [run_written(WrittenTask(params, items, ""), lambda *_: "x", asked=how, seed=0)[0].template_hash for how, params in asked]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_programs_are_drawn_with_seeds_of_their_own_and_cut_behind_the_function(tmp_path: Path) -> None:
    try:
        require_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    write_lines(tmp_path / "code.jsonl", [PROBLEM])
    task = WrittenTask(PROGRAMS, read_written_items(PROGRAMS, tmp_path), "clean")
    asked = []

    def draw(question: str, heat: float | None, seed: int) -> str:
        asked.append((question, heat, seed))
        return "    return 1\nprint(undefined)" if seed == 7 else "    return 2"

    scores = {score.metric: score for score in run_written(task, draw, asked="h", seed=7)}
    assert asked == [("def one():\n", 0.5, seed) for seed in (7, 8, 9)]
    assert {name: score.value for name, score in scores.items()} == {"pass@1": pytest.approx(1 / 3), "pass@2": pytest.approx(2 / 3)}


@pytest.mark.parametrize(
    ("params", "change", "message"),
    [
        (WRITTEN, {"references": []}, "one or more texts"),
        (WRITTEN, {"references": "x"}, "one or more texts"),
        (WRITTEN, {"question": 3}, "should be a text"),
        (WRITTEN, {"id": "a"}, "comes twice"),
        (PROGRAMS, {}, "'test' should be a text"),
    ],
)
def test_a_wrong_item_is_named_with_its_place(params, change: dict, message: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    first = ITEMS[0] | ({"test": "t", "entry_point": "e"} if params is PROGRAMS else {})
    write_lines(tmp_path / params.data[0], [first, ITEMS[1] | change])
    with pytest.raises(SourceError, match=message) as caught:
        read_written_items(params, tmp_path)
    assert caught.value.where.endswith(":2")


def test_k_above_the_programs_drawn_is_refused() -> None:
    with pytest.raises(ValidationError, match="k should be between 1 and programs = 3"):
        ProgramParams(name="code", data=["x"], programs=3, k=[4])
