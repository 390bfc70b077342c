"""Lengths of question and answer, and how much of the answer is said more than once."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pydantic import Field

from dataplane.annotators.instruction_text import distinct, exchange, words
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams


class InstructionSignals(Filter):
    """Measures conversations: turns, words asked and answered, and the answer's distinct-1 and distinct-2.

    `instruction_words` are those of all turns before the last answer. A Chinese or Japanese character is a word; `distinct_2` is the
    share of the pairs of words that are different, so that it falls where an answer repeats itself and, more slowly, with its length.
    A document that is no conversation has no signals, and is kept.

    Source: distinct-n, Li et al. 2016, arXiv:1510.03055, section 5.
    """

    name, version = "instruction_signals", "1"
    reads = {"text": pa.large_string()}
    writes = {
        "turns": pa.int32(), "instruction_words": pa.int64(), "answer_words": pa.int64(), "distinct_1": pa.float64(),
        "distinct_2": pa.float64(),
    }  # fmt: skip

    class Params(BaseParams):
        """Params of the measured conversations."""

        min_instruction_words: int | None = Field(None, ge=1, description="Words asked below which a record is dropped; null drops none.")
        min_answer_words: int | None = Field(None, ge=1, description="Words answered below which a record is dropped; null drops none.")
        max_answer_words: int | None = Field(None, ge=1, description="Words answered above which a record is dropped; null drops none.")
        min_distinct_2: float | None = Field(
            None, ge=0, le=1, description="Share of distinct 2-grams of the answers below which a record is dropped; null drops none."
        )

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """The signals of each conversation; null for other documents."""
        rows = [_measured(text) for text in batch.column("text").to_pylist()]
        return {name: pa.array([row.get(name) for row in rows], kind) for name, kind in self.writes.items()}

    def rules(self) -> Mapping[str, str]:
        """A reason for each limit that is set."""
        limits = {
            "short_instruction": ("instruction_words <", self.params.min_instruction_words),
            "short_answer": ("answer_words <", self.params.min_answer_words),
            "long_answer": ("answer_words >", self.params.max_answer_words),
            "repetitive_answer": ("distinct_2 <", self.params.min_distinct_2),
        }
        return {reason: f"{self.name}.{test} {limit!r}" for reason, (test, limit) in limits.items() if limit is not None}


def _measured(text: str | None) -> dict[str, int | float | None]:
    found = exchange(text)
    if found is None:
        return {}
    answer = words(found.answer)
    return {
        "turns": found.n_turns, "instruction_words": len(words(found.instruction())), "answer_words": len(answer),
        "distinct_1": distinct(answer, 1), "distinct_2": distinct(answer, 2),
    }  # fmt: skip
