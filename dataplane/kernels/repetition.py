"""What repeats itself in a text: lines, paragraphs, word n-grams.

Source: Rae et al. 2021 (arXiv:2112.11446), table A1, in the reading of datatrove 0.10.1: the most frequent n-gram
may come once, so that a text of a few words is a repetition of itself; the longest n-gram that comes twice tells such texts apart.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from dataplane.kernels.hashing import xxh64
from dataplane.kernels.pointers import I32P, U8P, U64P, pointer
from dataplane.kernels.unicode import OCTETS, count_chars, strip

_PRIME = np.uint64(0x9E3779B185EBCA87)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(32)
# Distinct lines of one document that are remembered; later ones can still be found to repeat an earlier one.
MAX_PIECES = 1 << 21

_ROUNDS = 10  # words of the longest n-gram
_LONGEST = 11  # column of the longest one that comes twice


@nb.njit(nb.int64(U64P, nb.int64, nb.uint64), cache=True, nogil=True, forceinline=True)
def _slot(keys, mask, key):  # type: ignore[no-untyped-def]
    """Where a key lies, or the empty place (0) where it would. The table's size is a power of two, and it is never full."""
    at = nb.int64(key >> np.uint64(20)) & mask
    while keys[at] != 0 and keys[at] != key:
        at = (at + 1) & mask
    return at


@nb.njit(nb.int64(nb.int64), cache=True, nogil=True)
def capacity(n):  # type: ignore[no-untyped-def]
    """Size of a hash table for n keys: a power of two, at least twice n."""
    size = 8
    while size < 2 * n:
        size *= 2
    return size


@nb.njit(nb.types.UniTuple(nb.int64, 4)(OCTETS, nb.int64, nb.int64, nb.int64, nb.int64, U8P, U64P), cache=True, nogil=True)
def _repeats(data, start, stop, newlines, most, table, keys):  # type: ignore[no-untyped-def]
    """Pieces between runs of at least `newlines` newlines (`most` at most); those that came before, their and filled ones' characters."""
    octets = pointer(data)
    size = capacity(min(most, MAX_PIECES))
    for i in range(size):
        keys[i] = 0
    known = pieces = repeats = chars = filled = 0
    at = piece = start
    while at <= stop:
        while at < stop and octets[at] != 0x0A:
            at += 1
        run = at
        while run < stop and octets[run] == 0x0A:
            run += 1
        if at < stop and run - at < newlines:
            at = run
            continue
        key = xxh64(data, piece, at, np.uint64(0)) | np.uint64(1)
        slot = _slot(keys, size - 1, key)
        if keys[slot] == key:
            repeats += 1
            length = count_chars(octets, piece, at)
            chars += length
            first, last = strip(octets, piece, at, table)
            filled += length if first < last else 0
        elif known < MAX_PIECES:
            keys[slot] = key
            known += 1
        pieces += 1
        piece = run
        at = run if run > at else at + 1
    return pieces, repeats, chars, filled


@nb.njit(nb.void(OCTETS, nb.int64, nb.int64, nb.int64, nb.int64, U8P, U64P, nb.float64[::1]), cache=True, nogil=True)
def scan_duplicates(data, start, stop, total, newlines, table, keys, row):  # type: ignore[no-untyped-def]
    """Fills ``row[0:5]``: share of lines that came before, of their characters, the same of paragraphs, and what FineWeb looks at:
    characters of filled lines that came before, of all but newlines.

    Lines lie between runs of newlines, paragraphs between runs of two or more in the text without white space around it.

    Args:
        data: uint8, UTF-8
        start: First byte.
        stop: Byte behind the last.
        total: Characters.
        newlines: Newlines.
        table: `unicode.classes()`
        keys: uint64, room for `capacity` of a line for each newline and one more
        row: float64, to be filled
    """
    pieces, repeats, chars, filled = _repeats(data, start, stop, 1, newlines + 1, table, keys)
    row[0] = repeats / pieces
    row[1] = chars / max(total, 1)
    row[4] = filled / max(total - newlines, 1)
    first, last = strip(pointer(data), start, stop, table)
    pieces, repeats, chars, _ = _repeats(data, first, last, 2, newlines + 1, table, keys)
    row[2] = repeats / pieces
    row[3] = chars / max(total, 1)


@nb.njit(nb.int64(nb.int64, nb.int64, nb.int64, nb.int64, U64P, U64P, I32P, I32P, U64P, I32P), cache=True, nogil=True)
def _count_grams(n, left, size, mask, grams, hashes, places, slots, keys, counts):  # type: ignore[no-untyped-def]
    """Lengthens the n-grams at `places` by a word and counts them; keeps the places of those found more than once, and returns how many."""
    for i in range(mask + 1):
        keys[i] = 0
        counts[i] = 0
    for k in range(left):
        at = places[k]
        if at + size > n:
            continue
        h = (grams[at] ^ (grams[at] >> _SHIFT)) * _PRIME + hashes[at + size - 1]
        grams[at] = h
        key = (h ^ (h >> np.uint64(29))) * _MIX | np.uint64(1)
        slot = _slot(keys, mask, key)
        keys[slot] = key
        counts[slot] += 1
        slots[at] = slot
    kept = 0
    for k in range(left):
        at = places[k]
        if at + size <= n and counts[slots[at]] > 1:
            places[kept] = at
            kept += 1
    return kept


@nb.njit(nb.int64(nb.int64, nb.int64, I32P, I32P, I32P, I32P, I32P), cache=True, nogil=True)
def _top_chars(size, left, places, slots, counts, chars, joined):  # type: ignore[no-untyped-def]
    """Characters of the most frequent n-gram (the first of equals), spaces between its words included, times its count."""
    if left == 0:
        return 0
    best, where = 0, 0
    for k in range(left):
        at = places[k]
        if counts[slots[at]] > best:
            best, where = counts[slots[at]], at
    gap = (joined[where + 1] - joined[where]) - (chars[where + 1] - chars[where])
    return best * (joined[where + size] - joined[where] - gap)


@nb.njit(nb.int64(nb.int64, nb.int64, I32P, I32P, I32P, I32P), cache=True, nogil=True)
def _duplicate_chars(size, left, places, slots, counts, chars):  # type: ignore[no-untyped-def]
    """Characters of n-grams that came before; the window jumps over each one found."""
    total = free = 0
    for k in range(left):
        at = places[k]
        if at < free:
            continue
        if counts[slots[at]] < 0:
            total += chars[at + size] - chars[at]
            free = at + size
        else:
            counts[slots[at]] = -1
    return total


@nb.njit(nb.void(nb.int64, nb.int64, I32P, nb.float64[::1]), cache=True, nogil=True)
def _spread(n, size, counts, row):  # type: ignore[no-untyped-def]
    """Fills ``row[0:2]``: share of distinct words, and their entropy in nats."""
    distinct, known = 0, 0.0
    for slot in range(size):
        distinct += counts[slot] > 0
        if counts[slot] > 1:
            known += counts[slot] * math.log(counts[slot])
    row[0] = distinct / n
    row[1] = max(math.log(n) - known / n, 0.0)


@nb.njit(
    nb.void(nb.int64, nb.int64, U64P, I32P, I32P, U64P, I32P, I32P, U64P, I32P, nb.float64[::1]), cache=True, nogil=True
)  # fmt: skip
def scan_grams(n, total, hashes, chars, joined, grams, places, slots, keys, counts, row):  # type: ignore[no-untyped-def]
    """Fills ``row[0:12]``: share of distinct words, their entropy, share of the most frequent 2- to 4-gram, of duplicated 5- to 10-grams,
    and words of the longest n-gram that comes twice, up to 10.

    Args:
        n: Words, at least 1.
        total: Characters that the shares are of.
        hashes: uint64 [n], hash of each word
        chars: int32 [n + 1], characters of the words before each
        joined: int32 [n + 1], the same with the spaces between words
        grams: uint64, room for n
        places: int32, room for n
        slots: int32, room for n
        keys: uint64, room for `capacity(n)`
        counts: int32, room for `capacity(n)`
        row: float64, to be filled

    An n-gram can only repeat where its first n - 1 words do, so each round looks at fewer.
    """
    for i in range(n):
        grams[i] = 0
        places[i] = i
    left = n
    for size in range(1, _ROUNDS + 1):
        mask = capacity(left) - 1
        left = _count_grams(n, left, size, mask, grams, hashes, places, slots, keys, counts)
        if size == 1:
            _spread(n, mask + 1, counts, row)
        elif size <= 4:
            found = _top_chars(size, left, places, slots, counts, chars, joined)
            if left == 0 and n >= size:
                found = joined[size] - joined[0]
            row[size] = min(found / total, 1.0)
        else:
            row[size] = min(_duplicate_chars(size, left, places, slots, counts, chars) / total, 1.0)
        if left:
            row[_LONGEST] = size
        elif size > 4:
            return
