"""Perplexity under the n-gram model that the pipeline trains on trusted sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.errors import ModelMissing
from dataplane.kernels.ngram_lm import FILE, FOLDER, Model
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams

_BITS_IN_A_DIGIT = float(np.log2(10))


class Perplexity(Filter):
    """Measures how much a text surprises the model, by character; what it was trained on is the measure of good.

    A Chinese text has a higher perplexity than an English one as good, since there are more characters to choose from,
    and a language that no trusted source is written in has a very high one: give the operator a `when` by language or
    kind before it decides. A text without characters has the perplexity 1.

    Source: after CCNet (Wenzek et al. 2019, arXiv:1911.00359, section 4), with characters in the place of its words.
    """

    name = "perplexity"
    version = "1"
    writes: ClassVar[Mapping[str, pa.DataType]] = {"value": pa.float64(), "bits_per_char": pa.float64()}

    class Params(BaseParams):
        model: str = Field(
            f"{FOLDER}/{FILE}", min_length=1, description="File of the model, relative to the project; `train_lm` writes it."
        )
        max_perplexity: float | None = Field(
            None, gt=1, description="Perplexity by character above which a document is dropped; null drops none."
        )

    def files(self) -> list[Path]:
        """The model.

        Raises:
            ModelMissing: It is not there.
        """
        path = Path(self.params.model)
        if not path.is_file():
            raise ModelMissing(
                f"the model {path} does not exist",
                where=f"operator {self.name!r}",
                fix="train it with `dvc repro train_lm`, or take perplexity out of clean.pipeline in params.yaml",
            )
        return [path]

    def open(self) -> None:
        """Loads the model."""
        (path,) = self.files()
        self._model = Model.load(path)

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Perplexity and bits per character of each text."""
        log_probs, counts = self._model.score(batch.column("text"))
        digits = -log_probs / np.maximum(counts, 1)
        return {"value": pa.array(10.0**digits), "bits_per_char": pa.array(digits * _BITS_IN_A_DIGIT + 0.0)}

    def rules(self) -> Mapping[str, str]:
        """Drops what is more surprising than `max_perplexity`."""
        limit = self.params.max_perplexity
        return {} if limit is None else {"too_surprising": f"perplexity.value > {limit}"}
