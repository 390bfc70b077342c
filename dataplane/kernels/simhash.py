"""SimHash fingerprints: 64 bits, of which two similar texts share most.

Version 1 of the definition, which stored fingerprints depend on and which therefore never changes: bit b is 1 where more than half of a
text's shingles, repeated ones included, have bit b set. Shingles are those of `kernels.minhash`. A text without words has all bits set.

Source: Charikar 2002, "Similarity estimation techniques from rounding algorithms"; Manku, Jain, Das Sarma 2007, "Detecting near-duplicates
for web crawling".
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.minhash import shingles_of
from dataplane.kernels.unicode import BOUNDS, FOLDS, OCTETS, classes, fold_table, hash_words, text_buffers, words_room

U64 = npt.NDArray[np.uint64]

VERSION = 1
BITS = 64
NO_SHINGLE = 0xFFFFFFFFFFFFFFFF

_PLANES = 40  # binary digits of the counters: more shingles than a text has bytes


def fingerprints(text: pa.Array, *, words: int) -> U64:
    """The fingerprint of each document.

    Args:
        text: string or large_string [d]; null reads as empty.
        words: Words in a shingle.

    Returns:
        uint64 [d]
    """
    data, offsets = text_buffers(text)
    out = np.full(len(offsets) - 1, NO_SHINGLE, np.uint64)
    _fingerprints(data, offsets, fold_table(), classes(), words, words_room(offsets), out)
    return out


@nb.njit(nb.void(nb.uint64[::1], nb.int64, nb.uint64[::1]), cache=True, nogil=True)
def _count_bits(shingles, n, planes):  # type: ignore[no-untyped-def]
    """Adds each shingle to 64 counters at once: `planes[p]` holds the binary digit p of each."""
    planes[:] = 0
    for i in range(n):
        carry = shingles[i]
        p = 0
        while carry:
            planes[p], carry = planes[p] ^ carry, planes[p] & carry
            p += 1


@nb.njit(nb.uint64(nb.uint64[::1], nb.int64), cache=True, nogil=True)
def _majority(planes, n):  # type: ignore[no-untyped-def]
    found = np.uint64(0)
    for b in range(BITS):
        count = 0
        for p in range(len(planes)):
            count += nb.int64((planes[p] >> np.uint64(b)) & np.uint64(1)) << p
        if 2 * count > n:
            found |= np.uint64(1) << np.uint64(b)
    return found


@nb.njit(nb.void(OCTETS, BOUNDS, FOLDS, OCTETS, nb.int64, nb.int64, nb.uint64[::1]), cache=True, nogil=True)
def _fingerprints(data, offsets, folds, table, words, room, out):  # type: ignore[no-untyped-def]
    hashes, shingles = np.empty(room, np.uint64), np.empty(room, np.uint64)
    planes = np.empty(_PLANES, np.uint64)
    for d in range(len(offsets) - 1):
        count = hash_words(data, offsets[d], offsets[d + 1], folds, table, hashes)
        n = shingles_of(hashes, count, words, shingles)
        if n:
            _count_bits(shingles, n, planes)
            out[d] = _majority(planes, n)
