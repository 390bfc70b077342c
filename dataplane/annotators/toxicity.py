"""Share of offensive terms, by word lists: a signal, not a verdict; `toxicity_model` is the classifier.

Terms of alphabetic scripts count as whole words, Chinese and Japanese ones as runs of characters, under the folds and evasions of
`dataplane.kernels.terms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.annotators.word_lists import own_lists, packaged, read_terms
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams

PACKAGED = ("toxic_en.txt", "toxic_zh.txt")
# Innocent words that hold a listed run of characters: "his mother", "gymnastics" before "you", clinical terms, a novel, a bank.
INNOCENT_WORDS = (
    *("他妈妈", "她妈妈", "体操你", "情操你", "破鞋子", "放屁虫", "阿三哥", "人渣打"),
    *("智障人士", "智障儿童", "智障者", "弱智儿童", "《白痴》"),
)


class Toxicity(Filter):
    """Counts offensive terms.

    Source: lists compiled by hand for Terraplane; the share as a signal and not a verdict, after the figures of docs/classifiers.md.
    """

    name, version = "toxicity", "3"
    reads = {"text": pa.large_string()}
    writes = {"n_hits": pa.int32(), "share": pa.float32(), "n_evasions": pa.int32()}

    class Params(BaseParams):
        """Params of the word lists."""

        lists: tuple[str, ...] = Field((), description="Files of terms, one a line, used instead of the packaged lists.")
        max_share: float = Field(0.02, ge=0, le=1, description="Highest share of offensive terms among words (Chinese: characters) kept.")
        min_hits: int = Field(2, ge=1, description="Documents with fewer terms are kept whatever their share.")

    def files(self) -> list[Path]:
        """The lists.

        Raises:
            ParamsError: One of them is no file.
        """
        return own_lists(self.params.lists, where="toxicity.lists") or [packaged(name) for name in PACKAGED]

    def open(self) -> None:
        """Indexes the terms."""
        from dataplane.kernels.terms import INNOCENT, index_terms

        innocent = [(word, INNOCENT) for word in INNOCENT_WORDS]
        self._terms = index_terms([*innocent, *((term, 0) for path in self.files() for term in read_terms(path))])

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Hits, their share of the words, and those that were written so as to evade a list."""
        from dataplane.kernels.terms import count_terms

        hits, evasions, words = count_terms(batch.column("text"), self._terms)
        shares = np.minimum(1.0, hits[:, 0] / np.maximum(words, 1))
        return {"n_hits": pa.array(hits[:, 0]), "share": pa.array(shares, pa.float32()), "n_evasions": pa.array(evasions)}

    def rules(self) -> Mapping[str, str]:
        """too_toxic."""
        return {"too_toxic": f"toxicity.n_hits >= {self.params.min_hits} AND toxicity.share > {self.params.max_share!r}"}
