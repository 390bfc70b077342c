"""What repeats itself in a text: lines, paragraphs, word n-grams.

Source: Rae et al. 2021 (arXiv:2112.11446), table A1, in the reading of datatrove 0.10.1, with one difference: an n-gram that
comes once is not the most frequent one, so a text of a few words does not count as a repetition of itself.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dataplane.kernels.hashing import xxh64
from dataplane.kernels.unicode import OCTETS, count_chars, strip

_PRIME = np.uint64(0x9E3779B185EBCA87)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(32)
# Distinct lines of one document that are remembered; later ones can still be found to repeat an earlier one.
MAX_PIECES = 1 << 21

_U64S, _I32S = nb.uint64[::1], nb.int32[::1]


@nb.njit(nb.int64(_U64S, nb.uint64), cache=True, nogil=True)
def _slot(keys, key):  # type: ignore[no-untyped-def]
    """Where a key lies, or the empty place (0) where it would. The table's size is a power of two, and it is never full."""
    mask = len(keys) - 1
    at = nb.int64(key >> np.uint64(20)) & mask
    while keys[at] != 0 and keys[at] != key:
        at = (at + 1) & mask
    return at


@nb.njit(nb.int64(nb.int64), cache=True, nogil=True)
def _capacity(n):  # type: ignore[no-untyped-def]
    """Size of a hash table for n keys: a power of two, at least twice n."""
    size = 8
    while size < 2 * n:
        size *= 2
    return size


@nb.njit(nb.types.UniTuple(nb.int64, 4)(OCTETS, nb.int64, nb.int64, nb.int64, OCTETS), cache=True, nogil=True)
def _repeats(data, start, stop, newlines, table):  # type: ignore[no-untyped-def]
    """Pieces between runs of at least `newlines` newlines; those that came before, their characters, those of filled ones."""
    pieces = 1
    for i in range(start + 1, stop):
        pieces += data[i] == 0x0A and data[i - 1] != 0x0A
    keys = np.zeros(_capacity(min(pieces, MAX_PIECES)), np.uint64)
    known = 0
    pieces = repeats = chars = filled = 0
    at = piece = start
    while at <= stop:
        while at < stop and data[at] != 0x0A:
            at += 1
        run = at
        while run < stop and data[run] == 0x0A:
            run += 1
        if at < stop and run - at < newlines:
            at = run
            continue
        key = xxh64(data, piece, at, np.uint64(0)) | np.uint64(1)
        slot = _slot(keys, key)
        if keys[slot] == key:
            repeats += 1
            size = count_chars(data, piece, at)
            chars += size
            first, last = strip(data, piece, at, table)
            filled += size if first < last else 0
        elif known < MAX_PIECES:
            keys[slot] = key
            known += 1
        pieces += 1
        piece = run
        at = run if run > at else at + 1
    return pieces, repeats, chars, filled


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def _newlines(data, start, stop):  # type: ignore[no-untyped-def]
    total = 0
    for i in range(start, stop):
        total += data[i] == 0x0A
    return total


@nb.njit(nb.void(OCTETS, nb.int64, nb.int64, OCTETS, nb.float64[::1]), cache=True, nogil=True)
def scan_duplicates(data, start, stop, table, row):  # type: ignore[no-untyped-def]
    """Fills ``row[0:5]``: share of lines that came before, of their characters, the same of paragraphs, and what FineWeb looks at:
    characters of filled lines that came before, of all but newlines.

    Lines lie between runs of newlines, paragraphs between runs of two or more in the text without white space around it.
    """
    total = max(count_chars(data, start, stop), 1)
    pieces, repeats, chars, filled = _repeats(data, start, stop, 1, table)
    row[0] = repeats / pieces
    row[1] = chars / total
    first, last = strip(data, start, stop, table)
    pieces, repeats, chars, _ = _repeats(data, first, last, 2, table)
    row[2] = repeats / pieces
    row[3] = chars / total
    row[4] = filled / max(total - _newlines(data, start, stop), 1)


@nb.njit(_I32S(nb.int64, nb.int64, _U64S, _U64S, _I32S, _I32S, _U64S, _I32S), cache=True, nogil=True)
def _count_grams(n, size, grams, hashes, places, slots, keys, counts):  # type: ignore[no-untyped-def]
    """Lengthens the n-grams at `places` by a word and counts them; returns the places of those found more than once."""
    room = _capacity(len(places))
    keys = keys[:room]
    keys[:] = 0
    counts[:room] = 0
    for at in places:
        if at + size > n:
            continue
        h = (grams[at] ^ (grams[at] >> _SHIFT)) * _PRIME + hashes[at + size - 1]
        grams[at] = h
        key = (h ^ (h >> np.uint64(29))) * _MIX | np.uint64(1)
        slot = _slot(keys, key)
        keys[slot] = key
        counts[slot] += 1
        slots[at] = slot
    kept = 0
    again = np.empty(len(places), np.int32)
    for at in places:
        if at + size <= n and counts[slots[at]] > 1:
            again[kept] = at
            kept += 1
    return again[:kept]


@nb.njit(nb.int64(nb.int64, _I32S, _I32S, _I32S, _I32S, _I32S), cache=True, nogil=True)
def _top_chars(size, places, slots, counts, chars, joined):  # type: ignore[no-untyped-def]
    """Characters of the most frequent n-gram (the first of equals), spaces between its words included, times its count."""
    best, where = 0, 0
    for at in places:
        if counts[slots[at]] > best:
            best, where = counts[slots[at]], at
    gap = (joined[where + 1] - joined[where]) - (chars[where + 1] - chars[where])
    return best * (joined[where + size] - joined[where] - gap)


@nb.njit(nb.int64(nb.int64, _I32S, _I32S, _I32S, _I32S), cache=True, nogil=True)
def _duplicate_chars(size, places, slots, counts, chars):  # type: ignore[no-untyped-def]
    """Characters of n-grams that came before; the window jumps over each one found."""
    total = free = 0
    for at in places:
        if at < free:
            continue
        if counts[slots[at]] < 0:
            total += chars[at + size] - chars[at]
            free = at + size
        else:
            counts[slots[at]] = -1
    return total


@nb.njit(nb.void(nb.int64, nb.int64, _U64S, _I32S, _I32S, nb.float64[::1]), cache=True, nogil=True)
def scan_grams(n, total, hashes, chars, joined, row):  # type: ignore[no-untyped-def]
    """Fills ``row[0:9]``: share of the most frequent 2-, 3- and 4-gram, and of duplicated 5- to 10-grams.

    Args:
        n: Words.
        total: Characters that the shares are of.
        hashes: uint64 [n], hash of each word
        chars: int32 [n + 1], characters of the words before each
        joined: int32 [n + 1], the same with the spaces between words
        row: float64, to be filled

    An n-gram can only repeat where its first n - 1 words do, so each round looks at fewer.
    """
    grams = hashes[:n].copy()
    places = np.arange(n).astype(np.int32)
    slots = np.empty(n, np.int32)
    keys = np.empty(_capacity(n), np.uint64)
    counts = np.empty(len(keys), np.int32)
    for size in range(2, 11):
        places = _count_grams(n, size, grams, hashes, places, slots, keys, counts)
        if len(places) == 0:
            return
        if size <= 4:
            found = _top_chars(size, places, slots, counts, chars, joined)
        else:
            found = _duplicate_chars(size, places, slots, counts, chars)
        row[size - 2] = min(found / total, 1.0)
