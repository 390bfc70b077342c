"""Tokens of documents: counted where `tokens` knows the document, else estimated from the bytes of those that it knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.lake.sql import private_connection
from dataplane.lake.store import Data
from dataplane.lineage.alignment import Follower
from dataplane.lineage.signals import PLACE, stream

MEASURED_DOCUMENTS = 1 << 16  # documents, evenly spread, from which bytes per token are told
JOIN_MEMORY = "512MB"
UNKNOWN = -1

I64 = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]
Row = Mapping[str, Any]


def sampling_step(rows: int) -> int:
    """Every how-manieth document is measured."""
    return max(rows // MEASURED_DOCUMENTS, 1)


class TokenCounts(Follower):
    """Notes each document's number of tokens.

    Args:
        tokens: The table of that name.
        rows: Number of documents.

    Attributes:
        counts: int32 [rows], UNKNOWN where `tokens` does not know the document.
    """

    def __init__(self, tokens: Data, rows: int) -> None:
        self._tokens = tokens
        self.counts: Counts = np.full(rows, UNKNOWN, np.int32)
        super().__init__(tokens, ["n_tokens"], self._note)

    def _note(self, batch: pa.RecordBatch, places: I64) -> None:
        self.counts[places] = batch.column("n_tokens").to_numpy()

    def join(self, documents: Data) -> None:
        """Finds all documents by their ids: for a table that was written from other documents, and does not follow these."""
        connection = private_connection(JOIN_MEMORY)
        connection.register("documents", stream(documents, ["doc_id"], place=True))
        connection.register("tokens", stream(self._tokens, ["doc_id", "n_tokens"]))
        found = connection.sql(f"SELECT {PLACE}, n_tokens FROM documents JOIN tokens USING (doc_id)").to_arrow_table()
        self.counts[found.column(PLACE).to_numpy()] = found.column("n_tokens").to_numpy()


class BytesPerToken:
    """Bytes per token of a source and kind; where none was measured, of the kind; else of all.

    Args:
        measured: Rows with source, kind, known_bytes and known_tokens.
    """

    def __init__(self, measured: Iterable[Row]) -> None:
        sums: dict[tuple[Any, ...], list[int]] = {}
        for row in measured:
            for group in _groups(row):
                total = sums.setdefault(group, [0, 0])
                total[0] += row["known_bytes"]
                total[1] += row["known_tokens"]
        self._ratios = {group: n_bytes / n_tokens for group, (n_bytes, n_tokens) in sums.items() if n_bytes and n_tokens}

    def tokens(self, row: Row, n_bytes: int) -> float | None:
        """About how many tokens so many bytes of the row's source and kind are; None where nothing was measured."""
        ratio = next((self._ratios[group] for group in _groups(row) if group in self._ratios), None)
        return None if ratio is None else n_bytes / ratio


def _groups(row: Row) -> list[tuple[Any, ...]]:
    """The groups that a row belongs to, narrowest first."""
    return [(row["source"], row["kind"]), (row["kind"],), ()]
