"""Judged answers: a prompt, one answer to it, and whether that was good. They need no second answer to be held against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dataplane.conversation import Turn
from dataplane.errors import SourceError
from trainplane.data.chat import ChatEncoder, split_of
from trainplane.data.jsonl import read_records, text_field

MEND = "mend or remove the line"


@dataclass(frozen=True)
class Judged:
    """One judgement.

    Attributes:
        id: Of the judgement; unique in its data.
        asked: What the answer answers.
        answer: What is judged.
        desirable: Whether it was found good.
        source: Where it comes from.
        split: train | held_out.
    """

    id: str
    asked: tuple[Turn, ...]
    answer: str
    desirable: bool
    source: str
    split: str


@dataclass(frozen=True)
class EncodedAnswer:
    """Tokens of a judged answer, with the token that ends it."""

    prompt_ids: list[int]
    answer_ids: list[int]
    desirable: bool

    def longest(self) -> int:
        """Tokens of both."""
        return len(self.prompt_ids) + len(self.answer_ids)


def read_judged(globs: Iterable[str], root: Path) -> list[Judged]:
    """The judged answers of JSONL files {"id", "prompt", "completion", "label": true | false, "source", "split"}.

    Raises:
        SourceError: A record is wrong, a prompt or an answer is empty, a label is no truth value, or an id comes twice.
    """
    found: dict[str, Judged] = {}
    for where, record in read_records(globs, root):
        name, prompt, answer = (text_field(record, field, where) for field in ("id", "prompt", "completion"))
        for field, text in (("prompt", prompt), ("completion", answer)):
            if not text.strip():
                raise SourceError(f"field {field!r} is empty", where=where, fix=MEND)
        if not isinstance(record.get("label"), bool):
            raise SourceError(f"field 'label' is {record.get('label')!r}, expected true or false", where=where, fix=MEND)
        if name in found:
            raise SourceError(f"the id {name!r} comes twice", where=where, fix="give each answer an id of its own, in one split")
        asked = (Turn("user", prompt),)
        found[name] = Judged(name, asked, answer, record["label"], str(record.get("source", "")), split_of(record, where))
    return list(found.values())


def encode_judged(one: Judged, encoder: ChatEncoder) -> EncodedAnswer:
    """Tokens of a judged answer, by the chat template."""
    prompt_ids, answer_ids = encoder.answer(one.asked, one.answer)
    return EncodedAnswer(prompt_ids, answer_ids, one.desirable)
