"""`dataplane augment`: variants stand behind their parents and name them; held-out records have none; the file is whole or not there."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dataplane.cli import main
from dataplane.corpus.augmentation import BACK_TRANSLATION, Plan, augment_file, rewriter
from dataplane.transforms.augment import salt
from dataplane.transforms.word_edits import Draws, Vocabulary, edited

QUESTION = "Which river runs through the middle of the old town of Berne?"


def chat(key: str, **more: Any) -> dict[str, Any]:
    turns = [
        ("system", "Be short and kind please"),
        ("user", QUESTION),
        ("assistant", "The Aare flows right through it"),
        ("user", "And where does it end?"),
    ]
    return {"id": key, "messages": [{"role": role, "content": content} for role, content in turns], "split": "train", **more}


def run(source: Path, records: list[dict[str, Any]], *arguments: str) -> Result:
    source.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf-8")
    return CliRunner().invoke(main, ["augment", str(source), str(source.with_name("out.jsonl")), *arguments])


def written(source: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in source.with_name("out.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "in.jsonl"


def test_variants_stand_behind_their_parent_and_name_it(source: Path) -> None:
    done = run(source, [chat("a"), chat("b", split="held_out")], "--copies", "2", "--seed", "7", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == {"records": 2, "held_out": 1, "variants": {"swap": 2}, "unchanged": 0}
    rows = written(source)
    assert [(row["id"], row.get("parent")) for row in rows] == [("a", None), ("a#swap-0", "a"), ("a#swap-1", "a"), ("b", None)]
    for number, row in enumerate(rows[1:3]):
        parts = [edited(rows[0]["messages"][i]["content"], "swap", 0.1, Vocabulary(), Draws(salt(7, "swap", f"a {place}", number)))
                 for place, i in enumerate((1, 3))]  # fmt: skip
        contents = [turn["content"] for turn in rows[0]["messages"]]
        contents[1], contents[3] = (text for text, _ in parts)
        assert [turn["content"] for turn in row["messages"]] == contents
        edits = sum(count for _, count in parts)
        assert row["augmentation"] == {"method": "swap", "copy": number, "edits": edits, "seed": 7, "share": 0.1, "version": "1"}


def test_a_variant_does_not_hang_on_the_rest_of_the_file(source: Path) -> None:
    run(source, [chat("a"), chat("b"), chat("c")])
    first = {row["id"]: row for row in written(source)}
    run(source, [chat("c"), chat("a")])
    assert written(source) == [first[key] for key in ("c", "c#swap-0", "a", "a#swap-0")]


def test_plain_records_take_their_field_and_are_named_by_their_content(source: Path) -> None:
    records = [{"instruction": "我今天高兴", "n": 1}, {"instruction": "nothing", "n": 2}]
    (source.parent / "words.txt").write_text("高兴、快乐\n", "utf-8")
    options = ["--method", "synonym", "--synonyms", str(source.parent / "words.txt"), "--field", "instruction", "--only-variants", "--json"]
    done = run(source, records, *options)
    assert json.loads(done.output) == {"records": 2, "held_out": 0, "variants": {"synonym": 1}, "unchanged": 1}
    (row,) = written(source)
    assert (row["instruction"], row["n"], row["id"]) == ("我今天快乐", 1, f"{row['parent']}#synonym-0")
    assert len(row["parent"]) == 32


def test_roles_say_whose_turns_are_rewritten(source: Path) -> None:
    run(source, [chat("a")], "--role", "assistant", "--method", "deletion", "--share", "0.5")
    parent, variant = written(source)
    changed = [old["role"] for old, new in zip(parent["messages"], variant["messages"], strict=True) if old != new]
    assert changed == ["assistant"]


def test_a_translation_that_changes_nothing_is_no_variant(source: Path) -> None:
    source.write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n')
    plan = Plan((BACK_TRANSLATION,), copies=3)
    counts = augment_file(
        source, source.with_name("out.jsonl"), plan, rewriter(plan, Vocabulary(), {"one": "uno", "two": "two"}.__getitem__)
    )
    assert counts["variants"] == {BACK_TRANSLATION: 1}
    assert [(row["id"], row["text"]) for row in written(source)] == [("a", "one"), ("a#back_translation-0", "uno"), ("b", "two")]


@pytest.mark.parametrize(
    ("text", "arguments", "code", "said"),
    [
        ("{\n", [], 1, "the line is no JSON"),
        ("[1]\n", [], 1, "the line is no JSON object"),
        ('{"id": 1, "body": "a"}\n', [], 1, "field 'text' holds no text"),
        ('{"id": 1, "messages": [{"role": "user"}]}\n', [], 1, "field 'content' holds no text"),
        ('{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n', [], 1, "the id '1' comes twice"),
        ('{"text": "a"}\n', ["--method", "insertion"], 2, "insertion need synonyms"),
        ('{"text": "a"}\n', ["--method", "back_translation"], 2, "needs two models"),
        pytest.param(
            '{"text": "a"}\n',
            ["--method", "back_translation", "--there", "no", "--back", "no"],
            3,
            "no holds no translation model",
            marks=pytest.mark.slow,  # imports torch
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_left(source: Path, text: str, arguments: list[str], code: int, said: str) -> None:
    source.write_text(text)
    done = CliRunner().invoke(main, ["augment", str(source), str(source.with_name("out.jsonl")), *arguments])
    assert (done.exit_code, said in done.output) == (code, True), done.output
    assert [path.name for path in source.parent.iterdir()] == ["in.jsonl"]


def test_a_file_does_not_take_its_own_place(source: Path) -> None:
    source.write_text('{"text": "a b"}\n')
    done = CliRunner().invoke(main, ["augment", str(source), str(source)])
    assert (done.exit_code, source.read_text()) == (2, '{"text": "a b"}\n')
