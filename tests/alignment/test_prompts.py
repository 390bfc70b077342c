"""Prompts of reinforcement learning are read strictly."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane import schema
from dataplane.conversation import Conversation, Turn, render
from dataplane.errors import DataError, ParamsError, SourceError
from trainplane.align.prompts import pick, questions_of, read_questions
from trainplane.align.rl_params import PPOParams
from trainplane.data.chat import ChatEncoder
from trainplane.errors import TrainingError


def ppo(**more: object) -> PPOParams:
    return PPOParams.parse({"rewards": [{"use": "length"}]} | more, where="ppo")


def write(folder: Path, *records: dict) -> Path:
    (folder / "x.jsonl").write_text("".join(json.dumps({"id": str(n), "prompt": f"p {n}"} | one) + "\n" for n, one in enumerate(records)))
    return folder


@pytest.mark.parametrize(
    ("records", "error", "message"),
    [
        ([{"prompt": " "}], SourceError, "'prompt' is empty"),
        ([{"prompt": 3}], SourceError, "'prompt' should be a text"),
        ([{"split": "test"}], SourceError, "neither 'train' nor 'held_out'"),
        ([{"id": "a"}, {"id": "a"}], SourceError, "'a' comes twice"),
        ([{"prompt": "same"}, {"prompt": "Same ", "split": "held_out"}], TrainingError, "trained on too"),
    ],
)
def test_a_wrong_prompt_is_named(tmp_path: Path, records: list[dict], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        questions_of(ppo(data=["x.jsonl"]), write(tmp_path, *records))


def test_prompts_of_a_split_keep_their_records_and_long_ones_are_left_out(tmp_path: Path, tokenizer) -> None:
    records = [{"reference": "r"}, {"prompt": "long " * 60}, {"split": "held_out"}]
    questions = read_questions(["x.jsonl"], write(tmp_path, *records))
    (found,) = pick(questions, "train", 10, 0, ChatEncoder(tokenizer), 32)
    assert (found.id, found.record["reference"], tokenizer.decode(list(found.ids))) == ("0", "r", "<|user|>p 0<|end|><|assistant|>")
    with pytest.raises(DataError, match="no train prompt is left of 2"):
        pick(questions, "train", 10, 0, ChatEncoder(tokenizer), 3)


@pytest.mark.parametrize(
    ("more", "message"),
    [({"micro_batch": 4}, "set mini_batch"), ({"data": []}, "nothing to learn from"), ({"rewards": []}, "rewards")],
)
def test_params_that_do_not_go_together_are_refused(more: dict, message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        PPOParams.parse({"data": ["x"], "rewards": [{"use": "length"}]} | more, where="ppo")


TALK = Conversation((Turn("system", "Be short."), Turn("user", "1+1?"), Turn("assistant", "2"), Turn("user", "thanks")))


def put_lake(put, texts: dict[str, str], meta: dict[str, str]) -> None:
    rows = [{"doc_id": name, "source": "s", "kind": "instruct", "text": text} for name, text in texts.items()]
    put("documents", pa.Table.from_pylist(rows, schema.DOCUMENTS))
    put("raw", pa.Table.from_pylist([{"doc_id": n, "source": "s", "meta": json.dumps(meta), "payload": b""} for n in texts], schema.RAW))
    put("decontaminated", pa.Table.from_pylist([{"doc_id": name} for name in texts], schema.IDS))


def test_documents_of_the_lake_ask_what_their_last_answer_answers(project: Path, put, tokenizer) -> None:
    asked = (Turn("user", "1+2?"),)
    whole = {
        "a": TALK, "b": Conversation(asked, "3", "4"), "c": Conversation(asked, judged="9", desirable=False),
        "d": Conversation(asked, judged="3", desirable=True),
    }  # fmt: skip
    put_lake(put, {name: render(one) for name, one in whole.items()}, {"split": "train", "test": "t"})
    questions = questions_of(ppo(sources=["s"], data=["x.jsonl"]), write(project, {"split": "held_out"}))
    assert [(q.id, q.record.get("reference"), q.record.get("test")) for q in questions] == [
        ("0", None, None), ("a", "2", "t"), ("b", "3", "t"), ("c", None, "t"), ("d", "3", "t"),
    ]  # fmt: skip
    assert (questions[1].asked, questions[1].record["prompt"]) == (TALK.turns[:2], "Be short.\n1+1?")
    (found,) = pick(questions[1:2], "train", 1, 0, ChatEncoder(tokenizer), 64)
    assert tokenizer.decode(list(found.ids)) == "<|system|>Be short.<|end|><|user|>1+1?<|end|><|assistant|>"


def test_a_document_that_asks_nothing_is_named(project: Path, put) -> None:
    put_lake(put, {"a": render(TALK), "b": render(Conversation((Turn("assistant", "Hello."),)))}, {})
    with pytest.raises(DataError, match="1 documents ask nothing: b"):
        questions_of(ppo(sources=["s"]), project)


def test_files_are_found_by_the_patterns_that_init_writes(tmp_path: Path) -> None:
    from trainplane.data.jsonl import files_digest, matching_files

    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    for folder in (root / "data" / "prompts" / "deep", elsewhere):
        folder.mkdir(parents=True)
        (folder / "x.jsonl").write_text("{}\n")
    (root / "data" / "prompts" / "y.jsonl").write_text("{}\n")
    copied = matching_files(["data/prompts/**"], root)
    assert [path.relative_to(root).as_posix() for path in copied] == ["data/prompts/deep/x.jsonl", "data/prompts/y.jsonl"]
    assert matching_files([f"{elsewhere}/*.jsonl"], root) == [elsewhere / "x.jsonl"]
    assert files_digest([f"{elsewhere}/*.jsonl"], root) != files_digest(["data/prompts/y.jsonl"], root)
    with pytest.raises(ParamsError, match="no file matches 'nothing/"):
        matching_files(["nothing/**"], root)
