"""The annotator behind the rule sets: characters, words, lines, sentences and repetitions of each document."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import yaml
from pydantic import Field, field_validator

from dataplane.annotators.word_marks import Cutter, chinese_words, marks, spacy_words
from dataplane.errors import did_you_mean
from dataplane.kernels.text_signals import COUNTS, ENGLISH, F64, MAX_STOP_WORDS, SIGNALS, StopWords, measure
from dataplane.kernels.words import EXACT, PAPER, REFERENCE
from dataplane.operator import Annotator
from dataplane.params import Params as BaseParams

RULES = {"paper": PAPER, "reference": REFERENCE, "exact": EXACT}
PUBLISHED_STOP_WORDS = ("fineweb2",)  # data/NAME_stop_words.yaml


def published_stop_words(name: str) -> dict[str, list[str]]:
    """Stop words by language, as a publication lists them.

    Raises:
        ValueError: No lists are called so.
    """
    if name not in PUBLISHED_STOP_WORDS:
        raise ValueError(f"no lists of stop words are called {name!r}, {did_you_mean(name, PUBLISHED_STOP_WORDS)}")
    text = files("dataplane.annotators").joinpath("data", f"{name}_stop_words.yaml").read_text(encoding="utf-8")
    lists: dict[str, list[str]] = yaml.safe_load(text)
    return lists


class TextSignals(Annotator):
    """Measures what the rule sets gopher_quality, gopher_repetition, fineweb, fineweb2 and c4 decide on, and what RedPajama-V2 published.

    Characters are code points. `n_words` leaves out words of punctuation alone; ratios over words count every word. A Chinese or
    Japanese character is one word. Shares are by what their names say; `cjk_share` and `capital_share` are by letter. Shares over
    nothing are 0.

    Sources: Rae et al. 2021 (arXiv:2112.11446), A1.1 and table A1; Penedo et al. 2024 (arXiv:2406.17557), 3.6; Raffel et al. 2020
    (arXiv:1910.10683), 2.2; Penedo et al. 2023 (arXiv:2306.01116), G.2; Weber et al. 2024 (arXiv:2411.12372).
    """

    name = "text_signals"
    version = "3"
    reads: ClassVar[Mapping[str, pa.DataType]] = {"text": pa.large_string()}
    writes: ClassVar[Mapping[str, pa.DataType]] = {name: pa.int64() if name in COUNTS else pa.float64() for name in SIGNALS}

    class Params(BaseParams):
        words: Literal["reference", "paper", "exact"] = Field(
            "reference",
            description="reference: the words that datatrove counts, by an emulation of spaCy's English tokenizer, punctuation included; "
            "paper: runs of what is not white space, as Gopher was published; exact: calls that tokenizer, and every definition is "
            "datatrove's to the letter (some 60 times slower).",
        )
        tokenizer_language: str = Field("en", description="Language of the tokenizer that words: exact calls, as spaCy names it.")
        cjk: Literal["character", "segment"] = Field(
            "character",
            description="Words of Chinese and Japanese if words is not exact. character: each character is one; segment: those of jieba's "
            "dictionary (the extra `segmentation`). With the latter set the rule sets' min_cjk_share to 2: a word is a word.",
        )

        stop_words: dict[str, list[str]] = Field(
            {},
            description="Stop words by language: a document is held against those of its language.lang, and has none in others. "
            "fineweb2: the lists of FineWeb2 for 13 languages, and Gopher's for English. Left out: the eight of Gopher for every document.",
        )

        @field_validator("stop_words", mode="before")
        @classmethod
        def _by_name(cls, given: Any) -> Any:
            # The lists take the place of their name, so that they are part of the operator's identity.
            return published_stop_words(given) if isinstance(given, str) else given

        @field_validator("stop_words")
        @classmethod
        def _not_too_many(cls, lists: dict[str, list[str]]) -> dict[str, list[str]]:
            for lang, words in lists.items():
                if len(set(words)) > MAX_STOP_WORDS:
                    raise ValueError(f"{lang} has {len(set(words))} words, at most {MAX_STOP_WORDS} are counted")
            return lists

    _cutter: Cutter | None = None

    def __init__(self, params: Mapping[str, Any] | BaseParams | None = None) -> None:
        super().__init__(params)
        self._stops = StopWords(self.params.stop_words) if self.params.stop_words else ENGLISH
        if self.params.stop_words:
            self.reads = {**type(self).reads, "language__lang": pa.string()}  # type: ignore[misc]  # of this instance alone

    def open(self) -> None:
        """Loads the tokenizer that the params ask for."""
        if self.params.words == "exact":
            self._cutter = spacy_words(self.params.tokenizer_language)
        elif self.params.cjk == "segment":
            self._cutter = chinese_words()

    def close(self) -> None:
        """Lets go of it."""
        self._cutter = None

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """The signals of each document."""
        text = batch.column("text")
        known = marks(text, self._cutter) if self._cutter else None
        langs = batch.column("language__lang").to_pylist() if self.params.stop_words else None
        values = measure(text, rule=RULES[self.params.words], marks=known, stops=self._stops, langs=langs)
        return {name: _column(values[:, i], kind) for i, (name, kind) in enumerate(self.writes.items())}


def _column(values: F64, kind: pa.DataType) -> pa.Array:
    return pa.array(values.astype(np.int64) if kind == pa.int64() else np.ascontiguousarray(values), kind)
