"""A vector for each text under a sentence embedding model on this machine, which `dedup.semantic` compares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.annotators.sentence_model import RunParams, SentenceModel, files_of
from dataplane.kernels.vectors import whole_numbers
from dataplane.operator import Annotator
from dataplane.params import Params as BaseParams


class Embedding(Annotator):
    """The direction of a text's vector, as whole numbers of 1/4000.

    A model is named by its folder, and the content of its files is part of the operator's identity; nothing is downloaded. The vector is
    the mean over the windows of the whole text, so that texts with the same beginning do not count as one. `share` is the part of the
    text that was read. A text without tokens has no vector. On one machine a text always has the same vector; another processor or
    library may round a component the other way.

    Source: Reimers, Gurevych 2019, arXiv:1908.10084, section 3; for deduplication Abbas et al. 2023, arXiv:2303.09540.
    """

    name, version = "embedding", "1"
    writes: ClassVar[Mapping[str, pa.DataType]] = {"vector": pa.list_(pa.int16()), "share": pa.float32()}

    class Params(BaseParams):
        """Params of the model."""

        model: str = Field(
            "models/embedding",
            min_length=1,
            description="Folder of the model, relative to the project, as sentence-transformers or transformers save it.",
        )
        prefix: str = Field("", description="Put before each text, for models that were trained with one, as `query: `.")
        run: RunParams = Field(RunParams.model_validate({}), description="How the model is run.")

    def files(self) -> list[Path]:
        """The model's files.

        Raises:
            ModelMissing: One is not there.
        """
        return files_of(Path(self.params.model))

    def open(self) -> None:
        """Loads the model."""
        self._model = SentenceModel(Path(self.params.model), self.params.run)

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Vector of each text, and how much of it was read."""
        texts = [text or "" for text in batch.column("text").to_pylist()]
        vectors, shares = self._model.encode([self.params.prefix + text if text.strip() else "" for text in texts])
        rows = [row if share else None for row, share in zip(whole_numbers(vectors), np.asarray(shares), strict=True)]
        return {"vector": pa.array(rows, self.writes["vector"]), "share": pa.array(shares, pa.float32())}
