"""The annotator behind the Gopher, FineWeb and C4 rules: words, symbols, lines and repetitions of each document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from dataplane.kernels.text_signals import COUNTS, F64, SIGNALS, measure
from dataplane.operator import Annotator
from dataplane.params import Params as BaseParams


class TextSignals(Annotator):
    """Measures what the rule sets gopher_quality, gopher_repetition, fineweb and c4 decide on.

    Characters are code points. A word counts where it has a letter or a number; ratios over words count every run, of
    punctuation too. A Chinese or Japanese character is one word. `cjk_share` is by letter, the other shares are by what
    their names say. Shares over nothing are 0.

    Sources: Rae et al. 2021 (arXiv:2112.11446), A1.1 and table A1; Penedo et al. 2024 (arXiv:2406.17557), 3.6; Raffel et al. 2020
    (arXiv:1910.10683), 2.2.
    """

    name = "text_signals"
    version = "2"
    reads: ClassVar[Mapping[str, pa.DataType]] = {"text": pa.large_string()}
    writes: ClassVar[Mapping[str, pa.DataType]] = {name: pa.int64() if name in COUNTS else pa.float64() for name in SIGNALS}

    class Params(BaseParams):
        words: Literal["reference", "paper"] = Field(
            "reference",
            description="reference: words are runs of word characters and runs of punctuation, near what datatrove counts; "
            "paper: runs of what is not white space, as Gopher was published.",
        )

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """The signals of each document."""
        values = measure(batch.column("text"), paper=self.params.words == "paper")
        return {name: _column(values[:, i], kind) for i, (name, kind) in enumerate(self.writes.items())}


def _column(values: F64, kind: pa.DataType) -> pa.Array:
    return pa.array(values.astype(np.int64) if kind == pa.int64() else np.ascontiguousarray(values), kind)
