"""Two lists of ids in the same order: where the members of one stand in the other, in one walk down both."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.schema import DOC_ID_HEX_CHARS

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

WORD_BYTES = 8
WORDS = DOC_ID_HEX_CHARS // WORD_BYTES


def id_words(ids: pa.StringArray) -> U64 | None:
    """The ids as numbers that are equal where the ids are.

    Args:
        ids: string [n]

    Returns:
        uint64 [n, 4]; None where one of them has not the length of a doc_id.
    """
    _, offsets, data = ids.buffers()
    bounds = np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1]
    if (np.diff(bounds) != DOC_ID_HEX_CHARS).any():
        return None
    octets = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    aligned = octets if octets.ctypes.data % WORD_BYTES == 0 else octets.copy()
    return aligned.view(np.uint64).reshape(-1, WORDS)


@nb.njit(cache=True, nogil=True)
def follow(ids: U64, first_id: int, rows: U64, first_row: int, start: int, places: I64) -> tuple[int, int]:
    """Walks down `ids`, and down `rows` wherever it holds the same id, until one of them ends.

    Args:
        ids: uint64 [n, 4], each id once.
        first_id: Where to begin in it.
        rows: uint64 [m, 4], ids in the order of `ids`, each as often as it likes.
        first_row: Where to begin in it.
        start: Place of the first of `ids`.
        places: int64 [m]; takes the place of each row's id.

    Returns:
        Where both have come to: an id that the rows behind these may still have, and the first row without a place.
    """
    row = first_row
    for i in range(first_id, len(ids)):
        while row < len(rows) and (
            ids[i, 0] == rows[row, 0] and ids[i, 1] == rows[row, 1] and ids[i, 2] == rows[row, 2] and ids[i, 3] == rows[row, 3]
        ):
            places[row] = start + i
            row += 1
        if row == len(rows):
            return i, row
    return len(ids), row
