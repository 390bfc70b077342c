"""Places in sorted 64-bit keys."""

from __future__ import annotations

import numba as nb

KEYS = nb.types.Array(nb.uint64, 1, "C", readonly=True)


@nb.njit(nb.int64(KEYS, nb.uint64), cache=True, nogil=True)
def first_from(keys, key):  # type: ignore[no-untyped-def]
    """The place of the first of the ascending keys that is `key` or above it; their number where none is."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low
