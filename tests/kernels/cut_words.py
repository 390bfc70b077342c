"""Words of one run of characters, by the kernel."""

import itertools

import numba as nb
import numpy as np

from dataplane.kernels.pointers import pointer
from dataplane.kernels.tokens import cut
from dataplane.kernels.unicode import classes
from dataplane.kernels.word_tables import word_tables


@nb.njit
def _cut(codes, ends, kinds, table, keys, cuts, units, shapes):  # type: ignore[no-untyped-def]
    cut(
        pointer(codes), len(codes), pointer(ends), pointer(kinds), pointer(table), pointer(keys), pointer(cuts), pointer(units),
        pointer(shapes),
    )  # fmt: skip


def cut_words(run: str) -> list[str]:
    codes, ends = np.array([ord(char) for char in run], np.int32), np.zeros(len(run) + 1, np.uint8)
    tables = word_tables()
    _cut(codes, ends, tables.kinds, classes(), tables.keys, tables.cuts, tables.units, tables.shapes)
    places = np.flatnonzero(ends)
    return [run[start:stop] for start, stop in itertools.pairwise(places)]
