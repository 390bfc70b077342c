"""Perplexity under a language model: the one that the pipeline trains, an ARPA or KenLM file, or a causal model in a local folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from dataplane.annotators.causal_lm import CausalParams
from dataplane.annotators.lm_scorers import model_files, open_scorer
from dataplane.kernels.ngram_lm import FILE, FOLDER
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams

_FIX = "train it with `dvc repro train_lm` or `dataplane train-lm`, or take perplexity out of clean.pipeline in params.yaml"


class Perplexity(Filter):
    """Measures how much a text surprises a model; what it was trained on is the measure of good.

    Perplexity is by token of the model: by character for the model of `train_lm`. Two models are compared by bits per character. A
    Chinese text has a higher perplexity by character than an English one as good, since there are more characters to choose from, and a
    language that the model never saw has a very high one: give the operator a `when` by language or kind before it decides. A text
    without tokens has the perplexity 1.

    Source: after CCNet (Wenzek et al. 2019, arXiv:1911.00359, section 4).
    """

    name = "perplexity"
    version = "1"
    writes: ClassVar[Mapping[str, pa.DataType]] = {"value": pa.float64(), "bits_per_char": pa.float64()}

    class Params(BaseParams):
        model: str = Field(
            f"{FOLDER}/{FILE}",
            min_length=1,
            description="Model, relative to the project: .npz of `train_lm`, .arpa, .arpa.gz, .bin of KenLM, or a folder of transformers.",
        )
        max_perplexity: float | None = Field(
            None, gt=1, description="Perplexity by token above which a document is dropped; null drops none."
        )
        tokens: str = Field(
            "",
            description="Tokens of an ARPA or KenLM model: words, characters, or a tokenizer's file; empty as FILE.json says, or words.",
        )
        fold: bool | None = Field(
            None, description="Whether such a model reads text folded as CCNet does; null takes what FILE.json says, or not."
        )
        sentences: Literal["", "line", "text"] = Field(
            "", description="What such a model takes for a sentence; empty as FILE.json says, or a line."
        )
        causal: CausalParams = Field(CausalParams.model_validate({}), description="How a causal model is run.")

    def files(self) -> list[Path]:
        """The model, what lies beside it, and its tokenizer.

        Raises:
            ModelMissing: One is not there.
        """
        return model_files(Path(self.params.model), reading_given(self.params), _FIX)

    def open(self) -> None:
        """Loads the model."""
        self.files()
        self._scorer = open_scorer(Path(self.params.model), reading_given(self.params), self.params.causal)

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Perplexity and bits per character of each text."""
        scored = self._scorer.score(batch.column("text"))
        return {"value": pa.array(scored.perplexity()), "bits_per_char": pa.array(scored.bits_per_char())}

    def rules(self) -> Mapping[str, str]:
        """Drops what is more surprising than `max_perplexity`."""
        limit = self.params.max_perplexity
        return {} if limit is None else {"too_surprising": f"perplexity.value > {limit}"}


def reading_given(params: Any) -> dict[str, Any]:
    """What params say of a model's tokens: those of `tokens`, `fold` and `sentences` that are set."""
    return {name: value for name in ("tokens", "fold", "sentences") if (value := getattr(params, name)) not in ("", None)}
