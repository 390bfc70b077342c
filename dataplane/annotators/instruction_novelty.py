"""How far an instruction is from the nearest of all others."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.annotators.instruction_text import exchange, words
from dataplane.errors import ModelMissing
from dataplane.kernels.instruction_pool import PLACES, Pool, vector
from dataplane.operator import Filter
from dataplane.params import Params as BaseParams


class InstructionNovelty(Filter):
    """Measures diversity: the cosine distance between an instruction and the nearest of a pool, by words and pairs of words.

    `dataplane fit-instruction-pool` makes the pool of the conversations in `raw`; a record is not held against itself. 0 is the same
    words (or their order, where no pair tells), 1 nothing in common. With `among: earlier` a record is held against those with smaller
    ids alone, so that a rule keeps one of each kind; but it may be dropped for one that is itself dropped. Few words share few, so
    that short instructions are far from all. What is no conversation, or asks without words, has no signals, and is kept.

    Source: the nearest neighbour's distance as diversity is after DEITA (Liu et al. 2024, arXiv:2312.15685, section 2.4), with hashed
    words in the place of a model's embeddings.
    """

    name, version = "instruction_novelty", "1"
    reads = {"text": pa.large_string(), "doc_id": pa.string()}
    writes = {"distance": pa.float64(), "nearest": pa.string()}

    class Params(BaseParams):
        """Params of the distance."""

        pool: str = Field(
            "models/instruction_pool.npz",
            min_length=1,
            description="File of the pool, from the project on; `fit-instruction-pool` writes it.",
        )
        among: Literal["others", "earlier"] = Field("others", description="earlier: of the pool, those with smaller ids alone.")
        min_distance: float | None = Field(
            None,
            ge=0,
            le=1,
            description="Distance below which a record is dropped; null drops none.",
            json_schema_extra={"unit": "cosine distance"},
        )

    def files(self) -> list[Path]:
        """The pool.

        Raises:
            ModelMissing: It is not there.
        """
        path = Path(self.params.pool).expanduser()
        if not path.is_file():
            fix = "make it with `dataplane fit-instruction-pool`, or take instruction_novelty out of clean.pipeline in params.yaml"
            raise ModelMissing(f"the pool {path} does not exist", where=f"operator {self.name!r}", fix=fix)
        return [path]

    def open(self) -> None:
        """Loads the pool.

        Raises:
            ModelMissing: It is damaged.
        """
        (path,) = self.files()
        try:
            self._pool = Pool.load(path)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            message = f"{path} cannot be read: {error}"
            raise ModelMissing(message, where=f"operator {self.name!r}", fix="make it with `dataplane fit-instruction-pool`") from None

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Distance, and the doc_id of the nearest."""
        asked = [words(found.instruction()) if (found := exchange(text)) else [] for text in batch.column("text").to_pylist()]
        rows = [i for i, tokens in enumerate(asked) if tokens]
        ids = batch.column("doc_id").to_pylist()
        vectors = np.stack([vector(asked[i]) for i in rows]) if rows else np.zeros((0, PLACES), np.int8)
        distances, names = self._pool.nearest(vectors, [ids[i] for i in rows], earlier=self.params.among == "earlier")
        distance: list[float | None] = [None] * len(batch)
        nearest: list[str | None] = [None] * len(batch)
        for i, value, name in zip(rows, distances.tolist(), names, strict=True):
            distance[i], nearest[i] = value, name
        return {"distance": pa.array(distance, pa.float64()), "nearest": pa.array(nearest, pa.string())}

    def rules(self) -> Mapping[str, str]:
        """too_near, where a limit is set."""
        limit = self.params.min_distance
        return {} if limit is None else {"too_near": f"instruction_novelty.distance < {limit!r}"}
