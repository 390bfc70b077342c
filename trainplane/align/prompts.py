"""Prompts of reinforcement learning: JSONL records {"id", "prompt", "split"}, and whatever the rewards ask of them; or documents of the
lake.

Files of preference pairs are prompts too: their answers are not looked at. Of a document, what its last answer answers is the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dataplane.conversation import Turn
from dataplane.errors import DataError, SourceError
from trainplane.align import session
from trainplane.align.params import AlignParams
from trainplane.align.training_data import Found, lake_conversations
from trainplane.data.chat import ChatEncoder, split_of
from trainplane.data.jsonl import read_records, text_field
from trainplane.data.overlap import check_overlap

SHOWN = 3


@dataclass(frozen=True)
class Question:
    """One prompt.

    Attributes:
        id: Unique in its data.
        asked: What is to be answered; of a file's record, one turn of the user.
        split: train | held_out.
        record: The whole record, for rewards: its reference, test, ... Of a document: `id`, `prompt` (all that was asked), `reference` (the
            answer that it holds), and what its record's `meta` says.
        ids: Its tokens, up to where the answer begins; empty until it is tokenised.
    """

    id: str
    asked: tuple[Turn, ...]
    split: str
    record: Mapping[str, Any]
    ids: tuple[int, ...] = ()

    def text(self) -> str:
        """The words of all that is asked."""
        return "\n".join(turn.content for turn in self.asked)


def read_questions(globs: Iterable[str], root: Path) -> list[Question]:
    """The prompts of JSONL files.

    Raises:
        SourceError: A record is wrong, a prompt is empty, or an id comes twice.
    """
    questions: dict[str, Question] = {}
    for where, record in read_records(globs, root):
        asked = (Turn("user", text_field(record, "prompt", where)),)
        question = Question(text_field(record, "id", where), asked, split_of(record, where), record)
        if not question.text().strip():
            raise SourceError("field 'prompt' is empty", where=where, fix="mend or remove the line")
        if question.id in questions:
            raise SourceError(f"the id {question.id!r} comes twice", where=where, fix="give each prompt an id of its own, in one split")
        questions[question.id] = question
    return list(questions.values())


def questions_of(params: AlignParams, root: Path) -> list[Question]:
    """The prompts of the files and of the lake's documents.

    Raises:
        SourceError: A file's record is wrong.
        DataError: A document's assistant speaks without being asked.
        TrainingError: A document is no conversation any more, or a held-out prompt is trained on too.
    """
    questions = read_questions(params.data, root) + [_question(one) for one in lake_conversations(params, root)]
    if empty := [question.id for question in questions if not question.text().strip()]:
        raise DataError(
            f"{len(empty)} documents ask nothing: {', '.join(empty[:SHOWN])}", where="prompts", fix="drop them by a rule of select.rules"
        )
    check_overlap(((question.id, question.split, question.text()) for question in questions), "prompts")
    return questions


def _question(found: Found) -> Question:
    asked, answer = found.conversation.exchange()
    question = Question(found.doc_id, asked, found.split, {})
    record = found.meta | {"id": found.doc_id, "prompt": question.text()}
    if found.conversation.desirable or not found.conversation.is_judged():
        record["reference"] = answer
    return replace(question, record=record)


def pick(questions: Sequence[Question], split: str, most: int, seed: int, encoder: ChatEncoder, max_length: int) -> list[Question]:
    """A sample of one split, tokenised; prompts that are too long are passed over.

    Raises:
        DataError: None is left.
    """

    def encode(question: Question) -> tuple[int, ...] | None:
        ids = tuple(encoder.prompt(question.asked))
        return ids if len(ids) <= max_length else None

    found, n_too_long = session.sample_fitting([question for question in questions if question.split == split], most, seed, encode)
    if not found:
        raise DataError(f"no {split} prompt is left of {n_too_long}", where="prompts", fix="raise max_length, or add data")
    return [replace(question, ids=ids) for question, ids in found]
