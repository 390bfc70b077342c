"""A set of values that batch after batch is held against.

Arrow's `is_in` hashes the whole set for each batch, so that a table of n rows costs n²; here the set is sorted once.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.hashing import U64, hash128
from dataplane.kernels.sorted_keys import KEYS, first_from

Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


class Members:
    """A set of values, known by their 128-bit hashes: 24 bytes for each.

    Args:
        hashes: uint64 [n, 2]; repeats are counted once.
    """

    def __init__(self, hashes: U64) -> None:
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))
        whole = hashes[order]
        first = np.ones(len(whole), np.bool_)
        first[1:] = (whole[1:] != whole[:-1]).any(axis=1)
        self._order = order[first]
        self._first, self._second = np.ascontiguousarray(whole[first, 0]), np.ascontiguousarray(whole[first, 1])

    @classmethod
    def of(cls, *values: Any) -> Members:
        """The values of Arrow arrays, chunked or not."""
        return cls(np.concatenate([np.zeros((0, 2), np.uint64), *map(hash128, values)]))

    def __len__(self) -> int:
        return len(self._first)

    def among(self, hashes: U64) -> Bools:
        """bool [m]: whether each hash [m, 2] is one of the set's."""
        return self._look_up(hashes) >= 0

    def hold(self, values: Any) -> Bools:
        """bool [m]: whether each value of an Arrow array is in the set."""
        return self.among(hash128(values))

    def places(self, values: Any) -> I64:
        """int64 [m]: where each value of an Arrow array came first in what the set was made of; -1 where it is not in it."""
        found = self._look_up(hash128(values))
        return np.append(self._order, -1)[found]

    def rows(self, batch: pa.RecordBatch, column: str = "doc_id") -> pa.RecordBatch:
        """The rows of a batch whose value is in the set."""
        held = self.hold(batch.column(column))
        return batch if held.all() else batch.filter(pa.array(held))

    def _look_up(self, hashes: U64) -> I64:
        found = np.empty(len(hashes), np.int64)
        _look_up(self._first, self._second, np.ascontiguousarray(hashes[:, 0]), np.ascontiguousarray(hashes[:, 1]), found)
        return found


@nb.njit(nb.void(KEYS, KEYS, KEYS, KEYS, nb.int64[::1]), cache=True, nogil=True)
def _look_up(first, second, wanted_first, wanted_second, found):  # type: ignore[no-untyped-def]
    """Where each wanted pair is among the pairs, which ascend by their first word; -1 where it is not."""
    for i in range(len(wanted_first)):
        at = first_from(first, wanted_first[i])
        while at < len(first) and first[at] == wanted_first[i] and second[at] != wanted_second[i]:
            at += 1
        found[i] = at if at < len(first) and first[at] == wanted_first[i] else -1
