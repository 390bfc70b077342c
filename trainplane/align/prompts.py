"""Prompts of reinforcement learning: JSONL records {"id", "prompt", "split"}, and whatever the rewards ask of them.

Files of preference pairs are prompts too: their answers are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dataplane.conversation import Turn
from dataplane.errors import DataError, SourceError
from trainplane.align import session
from trainplane.data.chat import ChatEncoder, split_of
from trainplane.data.jsonl import read_records, text_field
from trainplane.data.overlap import check_overlap


@dataclass(frozen=True)
class Question:
    """One prompt.

    Attributes:
        id: Unique in its data.
        text: What the user says.
        split: train | held_out.
        record: The whole record, for rewards: its reference, test, ...
        ids: Its tokens, up to where the answer begins; empty until it is tokenised.
    """

    id: str
    text: str
    split: str
    record: Mapping[str, Any]
    ids: tuple[int, ...] = ()


def read_questions(globs: Iterable[str], root: Path) -> list[Question]:
    """The prompts of JSONL files.

    Raises:
        SourceError: A record is wrong, a prompt is empty, or an id comes twice.
        TrainingError: A held-out prompt is trained on too.
    """
    questions: dict[str, Question] = {}
    for where, record in read_records(globs, root):
        question = Question(text_field(record, "id", where), text_field(record, "prompt", where), split_of(record, where), record)
        if not question.text.strip():
            raise SourceError("field 'prompt' is empty", where=where, fix="mend or remove the line")
        if question.id in questions:
            raise SourceError(f"the id {question.id!r} comes twice", where=where, fix="give each prompt an id of its own, in one split")
        questions[question.id] = question
    check_overlap(((question.id, question.split, question.text) for question in questions.values()), "prompts")
    return list(questions.values())


def pick(questions: Sequence[Question], split: str, most: int, seed: int, encoder: ChatEncoder, max_length: int) -> list[Question]:
    """A sample of one split, tokenised; prompts that are too long are passed over.

    Raises:
        DataError: None is left.
    """

    def encode(question: Question) -> tuple[int, ...] | None:
        ids = tuple(encoder.prompt([Turn("user", question.text)]))
        return ids if len(ids) <= max_length else None

    found, n_too_long = session.sample_fitting([question for question in questions if question.split == split], most, seed, encode)
    if not found:
        raise DataError(f"no {split} prompt is left of {n_too_long}", where="prompts", fix="raise max_length, or add data")
    return [replace(question, ids=ids) for question, ids in found]
