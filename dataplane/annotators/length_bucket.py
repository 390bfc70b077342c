"""Which of some ranges of length a document falls into."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from dataplane.operator import Annotator
from dataplane.params import Params as BaseParams


class LengthBucket(Annotator):
    """Writes the length and its bucket: `index` counts from 0, `name` is its range, as "1000-3999" or "64000-".

    Words are counted as everywhere here: a CJK character is one.

    Source: a choice of ours, for tables and mixtures by length.
    """

    name, version = "length_bucket", "1"
    reads = {"text": pa.large_string()}
    writes = {"length": pa.int64(), "index": pa.int32(), "name": pa.string()}

    class Params(BaseParams):
        """The buckets."""

        unit: Literal["characters", "bytes", "words"] = Field("words", description="What length counts; characters are code points.")
        bounds: tuple[Annotated[int, Field(ge=1)], ...] = Field(
            (100, 500, 2000, 8000, 32000), description="Where each bucket but the first begins, rising."
        )

        @field_validator("bounds")
        @classmethod
        def _rising(cls, bounds: tuple[int, ...]) -> tuple[int, ...]:
            if any(a >= b for a, b in pairwise(bounds)):
                raise ValueError("bounds have to rise")
            return bounds

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Length of each document, and its bucket."""
        length = self._length(batch.column("text"))
        index = np.searchsorted(np.array(self.params.bounds, np.int64), length.to_numpy(zero_copy_only=False), side="right")
        places = pa.array(index, pa.int32())
        return {"length": length, "index": places, "name": pa.array(self._names(), pa.string()).take(places)}

    def _length(self, text: pa.Array) -> pa.Array:
        if self.params.unit == "words":
            from dataplane.kernels.line_edits import SOLID_WORDS, cut

            lines = cut(text)
            return lines.sums(lines.counts()[:, SOLID_WORDS]).cast(pa.int64())
        count = pc.utf8_length if self.params.unit == "characters" else pc.binary_length
        return pc.fill_null(count(text), 0).cast(pa.int64())

    def _names(self) -> list[str]:
        starts = [0, *self.params.bounds]
        return [*(f"{start}-{stop - 1}" for start, stop in pairwise(starts)), f"{starts[-1]}-"]
