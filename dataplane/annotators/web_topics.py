"""Terms of Chinese pages that sell what nobody wants to train on: sex, gambling, and spam."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.annotators.word_lists import packaged, read_terms
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams

TOPICS = ("adult", "gambling", "spam")


class WebTopics(Filter):
    """Counts the terms of three topics, and their share of the words (Chinese: characters).

    News and law texts speak of gambling and of forged invoices, and clinics of sex: the share separates them from the pages that
    sell it, one hit does not.

    Source: terms compiled by hand for Terraplane; thresholds of our own, measured in docs/classifiers.md.
    """

    name, version = "web_topics", "1"
    reads = {"text": pa.large_string()}
    writes = {**{f"n_{topic}": pa.int32() for topic in TOPICS}, **{topic: pa.float32() for topic in TOPICS}}

    class Params(BaseParams):
        """Params of the topics."""

        max_adult: float = Field(0.01, ge=0, le=1, description="Highest share of terms of pornography among words kept.")
        max_gambling: float = Field(0.008, ge=0, le=1, description="Highest share of terms of gambling among words kept.")
        max_spam: float = Field(0.015, ge=0, le=1, description="Highest share of terms of advertising spam among words kept.")
        min_hits: int = Field(3, ge=1, description="Documents with fewer terms of a topic are kept whatever their share.")

    def files(self) -> list[Path]:
        """The lists, in the order of the topics."""
        return [packaged(f"{topic}_zh.txt") for topic in TOPICS]

    def open(self) -> None:
        """Indexes the terms."""
        from dataplane.kernels.terms import index_terms

        self._terms = index_terms([(term, i) for i, path in enumerate(self.files()) for term in read_terms(path)])

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Hits of each topic, and their share of the words."""
        from dataplane.kernels.terms import count_terms

        hits, _, words = count_terms(batch.column("text"), self._terms)
        shares = np.minimum(1.0, hits / np.maximum(words, 1)[:, None])
        counts = {f"n_{topic}": pa.array(hits[:, i]) for i, topic in enumerate(TOPICS)}
        return counts | {topic: pa.array(shares[:, i], pa.float32()) for i, topic in enumerate(TOPICS)}

    def rules(self) -> Mapping[str, str]:
        """One reason for each topic."""
        return {
            f"too_much_{topic}": f"web_topics.n_{topic} >= {self.params.min_hits} "
            f"AND web_topics.{topic} > {getattr(self.params, f'max_{topic}')!r}"
            for topic in TOPICS
        }
