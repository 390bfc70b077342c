"""Packed sequences from the flat files of `dataplane export packed --to flat`, mapped into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dataplane.errors import DataError
from trainplane.data.packed import I64, Batch, batch_of_spans, places_in


class FlatPacked:
    """Random access to the sequences of a folder; as `Packed` over the table that it was exported from.

    Args:
        folder: The export.

    Attributes:
        n_sequences: How many there are.
        sequence_length: Tokens of each.
        n_spans: Spans of all of them.

    Raises:
        DataError: A file is not there, cut short, or does not belong to the others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ids, self._bounds, self._spans, self._doc_ids = (
            _mapped(folder / f"{name}.npy") for name in ("input_ids", "span_bounds", "spans", "doc_ids")
        )
        self.n_sequences, self.sequence_length = self._ids.shape
        self.n_spans = len(self._spans)
        if len(self._bounds) != self.n_sequences + 1 or {int(self._bounds[-1]), len(self._doc_ids)} != {self.n_spans}:
            raise DataError("the files do not belong together", where=str(folder), fix="export them again")

    def batch(self, seq_ids: I64) -> Batch:
        """The sequences with these ids; a sequence's id is its row."""
        rows, counts = self.span_rows(seq_ids)
        spans = self._spans[rows]
        return batch_of_spans(seq_ids, self._ids[seq_ids].astype(np.int64), counts, spans[:, 0], spans[:, 2])

    def span_rows(self, seq_ids: I64) -> tuple[I64, I64]:
        """Rows of the sequences' spans in the files of spans, int64 [s], and how many each sequence has, int64 [b]."""
        starts = self._bounds[seq_ids]
        counts = self._bounds[seq_ids + 1] - starts
        return np.repeat(starts, counts) + places_in(counts), counts

    def span_lengths(self, rows: I64) -> I64:
        """Tokens of these spans, int64 [s]."""
        lengths: I64 = self._spans[rows, 2]
        return lengths

    def doc_keys(self, rows: slice) -> npt.NDArray[np.bytes_]:
        """The ids of these spans' documents, 16 bytes each."""
        return np.ascontiguousarray(self._doc_ids[rows]).view("S16").reshape(-1)

    def spans(self, seq_ids: I64) -> list[list[dict[str, Any]]]:
        """The spans of these sequences: doc_id, seq_start, doc_start, length."""
        rows, counts = self.span_rows(seq_ids)
        found = [
            {"doc_id": bytes(doc_id).hex(), "seq_start": start, "doc_start": doc_start, "length": length}
            for doc_id, (start, doc_start, length) in zip(self._doc_ids[rows], self._spans[rows].tolist(), strict=True)
        ]
        ends = np.cumsum(counts).tolist()
        return [found[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]


def _mapped(path: Path) -> npt.NDArray[np.int64]:
    try:
        found: npt.NDArray[np.int64] = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"cannot be read: {error}", where=str(path), fix="dataplane export packed --to flat --out FOLDER") from None
    return found
