"""Packed sequences from the flat files of `dataplane export packed --to flat`, mapped into memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from dataplane.errors import DataError
from trainplane.data.packed import I64, Batch, batch_of_spans, places_in


class FlatPacked:
    """Random access to the sequences of a folder; as `Packed` over the table that it was exported from.

    Args:
        folder: The export.

    Raises:
        DataError: A file is not there, cut short, or does not belong to the others.
    """

    def __init__(self, folder: Path) -> None:
        self._ids, self._bounds, self._spans = (_mapped(folder / f"{name}.npy") for name in ("input_ids", "span_bounds", "spans"))
        self.n_sequences, self.sequence_length = self._ids.shape
        if len(self._bounds) != self.n_sequences + 1 or self._bounds[-1] != len(self._spans):
            raise DataError("the files do not belong together", where=str(folder), fix="export them again")

    def batch(self, seq_ids: I64) -> Batch:
        """The sequences with these ids; a sequence's id is its row."""
        starts = self._bounds[seq_ids]
        counts = self._bounds[seq_ids + 1] - starts
        spans = self._spans[np.repeat(starts, counts) + places_in(counts)]
        return batch_of_spans(seq_ids, self._ids[seq_ids].astype(np.int64), counts, spans[:, 0], spans[:, 2])


def _mapped(path: Path) -> npt.NDArray[np.int64]:
    try:
        found: npt.NDArray[np.int64] = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"cannot be read: {error}", where=str(path), fix="dataplane export packed --to flat --out FOLDER") from None
    return found
