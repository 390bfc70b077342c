"""An item that fine-tuning showed a model is caught, whichever model of the line it was shown to."""

import json
from pathlib import Path

import pytest

from trainplane.data.jsonl import files_digest
from trainplane.evaluate.consumed import Consumed, consumed, items_consumed, told

PLANTED = "Which of the seven rivers of the northern plain carries the most water in early spring, and why is that so?"
OTHER = "How many of the old mills along the upper valley were still grinding grain when the railway came to the town?"
CHINESE = "请问在这座古老的城市里，哪一条河流在初春时节的水量最大，又是因为什么原因造成的呢？"
ITEMS = [
    {"id": "planted", "question": PLANTED, "choices": ["the first", "the last"]},
    {"id": "other", "question": OTHER, "choices": ["two", "five"]},
    {"id": "chinese", "question": CHINESE, "references": ["黄河"]},
    {"id": "short", "question": "Who?", "choices": ["he", "she"]},
]


def model(root: Path, stage: str, parent: str | None, record: dict | None) -> None:
    """A model's folder with its ledger, and the only record it was trained on."""
    folder = root / "models" / stage
    folder.mkdir(parents=True)
    run = {"stage": stage, "digest": f"digest of {stage}", "parent": parent}
    if record:
        more = {"id": "unused", "messages": [{"role": "user", "content": CHINESE}], "split": "train"}
        held_out = {"id": "a", "messages": [{"role": "user", "content": OTHER}], "split": "held_out"}
        lines = [
            json.dumps(one | {"split": one.get("split", "train")}, ensure_ascii=False) for one in (record | {"id": "a"}, more, held_out)
        ]
        (root / f"{stage}.jsonl").write_text("\n".join(lines))
        run |= {"data": [f"{stage}.jsonl"], "data_digest": files_digest([f"{stage}.jsonl"], root)}
        (folder / "consumed.jsonl").write_text(json.dumps({"step": 1, "ids": ["a"]}) + "\n")
    (folder / "run.json").write_text(json.dumps(run))


@pytest.fixture
def line(tmp_path: Path) -> Path:
    """pretrain -> sft, which saw the planted item -> dpo, which saw the Chinese one."""
    model(tmp_path, "pretrain", None, None)
    model(tmp_path, "sft", "digest of pretrain", {"messages": [{"role": "user", "content": f"Please tell me. {PLANTED}"}]})
    model(tmp_path, "dpo", "digest of sft", {"prompt": "?", "chosen": CHINESE, "rejected": "no"})
    return tmp_path


def verdict(root: Path, name: str) -> tuple[list[str], int]:
    return items_consumed(ITEMS, consumed(root / "models", name, root), {})


def test_a_planted_item_is_caught_in_the_model_and_in_those_that_come_from_it(line: Path) -> None:
    assert {name: verdict(line, name) for name in ("pretrain", "sft", "dpo")} == {
        "pretrain": ([], 1),
        "sft": (["planted"], 1),
        "dpo": (["chinese", "planted"], 1),
    }


def test_what_is_told_of_each_model(line: Path) -> None:
    said = {name: told(ITEMS, consumed(line / "models", name, line), {"n": 13}) for name in ("pretrain", "sft", "dpo")}
    short = "1 of 4 too short to be looked for"
    assert said == {"pretrain": "", "sft": f"1 of 4 items trained on; {short}", "dpo": f"2 of 4 items trained on; {short}"}
    assert told(ITEMS[1:2], consumed(line / "models", "sft", line), {}) == "none fine-tuned on"


def test_data_that_changed_and_models_that_are_gone_are_owned_up_to(line: Path) -> None:
    (line / "sft.jsonl").write_text("{}\n")
    seen = consumed(line / "models", "dpo", line)
    assert (seen.names, seen.unknown) == (["dpo/a"], ["sft"])
    assert told(ITEMS[1:2], seen, {}) == "none fine-tuned on; unchecked against sft"
    (line / "models" / "sft" / "run.json").unlink()
    assert consumed(line / "models", "dpo", line).unknown == ["the model before dpo"]
    (line / "dpo.jsonl").unlink()
    assert consumed(line / "models", "dpo", line) == Consumed([], [], ["dpo", "the model before dpo"])
