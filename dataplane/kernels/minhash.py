"""MinHash signatures and shingle sets, from UTF-8 bytes to numbers in one pass.

Version 1 of the definition, which stored signatures depend on and which therefore never changes. The first n hash functions are the same
whatever their number, so a longer signature begins with the shorter one:

1. Words are those of `unicode.hash_words`: text folded (compatibility forms, accents, case; marks left out), split at
   white space, punctuation and symbols. A Chinese or Japanese character is a word, so that a 5-word shingle is a
   5-character shingle there. Numbers are kept: "3 + 4" and "5 + 2" are different texts.
2. A shingle is k words in a row, hashed to ``s = fmix64(sum of w[i] * B^(k-1-i))`` modulo 2^64, with
   B = 0xC2B2AE3D27D4EB4F and fmix64 the finaliser of MurmurHash3. A text of fewer than k words has one shingle: all of
   them. A text without words has none, and its signature is 0xFFFFFFFF throughout.
3. ``signature[j] = min over s of ((s mod 2^32) xor c[j]) * a[j] modulo 2^32``, where a[j] (made odd) and c[j] are the low
   halves of outputs 2j and 2j + 1 of SplitMix64 started at the seed.

Source: Broder 1997, "On the resemblance and containment of documents".
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.unicode import BOUNDS, FOLDS, I64, OCTETS, classes, fold_table, hash_words, text_buffers, words_room

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

VERSION = 1  # of the definition; another one would be another kernel, and signatures of the two are never compared
NO_SHINGLE = 0xFFFFFFFF

_BASE = np.uint64(0xC2B2AE3D27D4EB4F)
_BLOCK = 512  # shingles that are hashed before the next word is read: 2 KB, at home in the first cache


def permutations(n: int, seed: int) -> tuple[U32, U32]:
    """The hash functions' constants.

    Args:
        n: Hash functions.
        seed: Start of the generator.

    Returns:
        a and c, uint32 [n] each
    """
    draws = _splitmix64(2 * n, seed)
    return (draws[0::2] | np.uint64(1)).astype(np.uint32), draws[1::2].astype(np.uint32)


def _splitmix64(n: int, seed: int) -> U64:
    """The first n outputs. Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def signatures(text: pa.Array, *, n: int, words: int, seed: int) -> U32:
    """The MinHash signature of each document.

    Args:
        text: string or large_string [d]; null reads as empty.
        n: Hash functions.
        words: Words in a shingle.
        seed: Start of the hash functions.

    Returns:
        uint32 [d, n]
    """
    data, offsets = text_buffers(text)
    out = np.full((len(offsets) - 1, n), NO_SHINGLE, np.uint32)
    a, c = permutations(n, seed)
    _signatures(data, offsets, fold_table(), classes(), words, words_room(offsets), a, c, out)
    return out


def shingle_sets(text: pa.Array, *, words: int) -> tuple[U64, I64]:
    """The shingle set of each document, by hash.

    Args:
        text: string or large_string [d]; null reads as empty.
        words: Words in a shingle.

    Returns:
        uint64 [total], sorted and distinct within each document, and int64 [d + 1] offsets into it
    """
    data, offsets = text_buffers(text)
    room = words_room(offsets)
    bounds = np.zeros(len(offsets), np.int64)
    sets = []
    hashes, shingles = np.empty(room, np.uint64), np.empty(room, np.uint64)
    for i in range(len(offsets) - 1):
        count = hash_words(data, offsets[i], offsets[i + 1], fold_table(), classes(), hashes)
        distinct = _distinct(shingles[: shingles_of(hashes, count, words, shingles)])
        bounds[i + 1] = bounds[i] + len(distinct)
        sets.append(distinct)
    return np.concatenate([np.zeros(0, np.uint64), *sets]), bounds


def _distinct(values: U64) -> U64:
    """The distinct values, sorted: np.unique puts them into a table first, which takes three times as long."""
    values.sort()
    fresh = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return values[fresh]


@nb.njit(nb.uint64(nb.uint64), cache=True, nogil=True)
def _fmix64(h):  # type: ignore[no-untyped-def]
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@nb.njit(nb.int64(nb.uint64[::1], nb.int64, nb.int64, nb.uint64[::1]), cache=True, nogil=True)
def shingles_of(hashes, count, words, out):  # type: ignore[no-untyped-def]
    """Fills `out` with the shingles of `count` word hashes, repeated ones included; returns how many."""
    if count == 0:
        return 0
    width = min(words, count)
    leading = np.uint64(1)
    for _ in range(width):
        leading *= _BASE
    total = np.uint64(0)
    for i in range(count):
        total = total * _BASE + hashes[i]
        if i >= width:
            total -= leading * hashes[i - width]
        if i >= width - 1:
            out[i - width + 1] = _fmix64(total)
    return count - width + 1


@nb.njit(nb.void(nb.uint32[::1], nb.int64, nb.uint32[::1], nb.uint32[::1], nb.uint32[::1]), cache=True, nogil=True, error_model="numpy")
def _lower(block, count, a, c, row):  # type: ignore[no-untyped-def]
    """Lowers a signature by a block of shingles; one hash function at a time, so that the inner loop runs in vectors."""
    for j in range(len(row)):
        least, factor, flip = row[j], a[j], c[j]
        for i in range(count):
            least = min(least, np.uint32((block[i] ^ flip) * factor))
        row[j] = least


@nb.njit(
    nb.void(OCTETS, BOUNDS, FOLDS, OCTETS, nb.int64, nb.int64, nb.uint32[::1], nb.uint32[::1], nb.uint32[:, ::1]), cache=True, nogil=True
)
def _signatures(data, offsets, folds, table, words, room, a, c, out):  # type: ignore[no-untyped-def]
    hashes, shingles = np.empty(room, np.uint64), np.empty(room, np.uint64)
    block = np.empty(_BLOCK, np.uint32)
    for d in range(len(offsets) - 1):
        count = hash_words(data, offsets[d], offsets[d + 1], folds, table, hashes)
        n = shingles_of(hashes, count, words, shingles)
        for start in range(0, n, _BLOCK):
            size = min(_BLOCK, n - start)
            for i in range(size):
                block[i] = np.uint32(shingles[start + i])
            _lower(block, size, a, c, out[d])


@nb.njit(nb.int64(nb.uint64[::1], nb.uint64[::1]), cache=True, nogil=True)
def shared(left, right):  # type: ignore[no-untyped-def]
    """Members that two sorted sets (uint64) have in common."""
    i = j = total = 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            total += 1
            i += 1
            j += 1
        elif left[i] < right[j]:
            i += 1
        else:
            j += 1
    return total


def jaccard(left: U64, right: U64) -> float:
    """Exact Jaccard similarity of two sorted sets; 0 where both are empty."""
    common = int(shared(left, right))
    union = len(left) + len(right) - common
    return common / union if union else 0.0


@nb.njit(nb.void(nb.uint32[:, ::1], nb.int64, nb.int64, nb.uint64[::1]), cache=True, nogil=True)
def _band_keys(signatures, first, rows, out):  # type: ignore[no-untyped-def]
    for d in range(len(signatures)):
        h = np.uint64(0)
        for j in range(first, first + rows):
            h = _fmix64(h * _BASE + np.uint64(signatures[d, j]) + np.uint64(1))
        out[d] = h


def band_keys(signatures: U32, band: int, rows: int) -> U64:
    """Hash of one band of each signature.

    Args:
        signatures: uint32 [d, n]
        band: Which band, from 0.
        rows: Hash functions in a band.

    Returns:
        uint64 [d]
    """
    out = np.empty(len(signatures), np.uint64)
    _band_keys(np.ascontiguousarray(signatures), band * rows, rows, out)
    return out


def mixed(keys: U64, groups: U64) -> U64:
    """Keys (uint64 [d]) that differ between groups (uint64 [d])."""
    with np.errstate(over="ignore"):
        return keys ^ (groups * _BASE)


@nb.njit(nb.types.UniTuple(nb.uint64, 2)(nb.types.Array(nb.uint64, 2, "C", readonly=True), nb.int64, nb.int64), cache=True, nogil=True)
def pair_key(texts, left, right):  # type: ignore[no-untyped-def]
    """128 bits that name two texts, whichever comes first; `texts` holds the hash of each (uint64 [d, 2])."""
    a, b = left, right
    if texts[a, 0] > texts[b, 0] or (texts[a, 0] == texts[b, 0] and texts[a, 1] > texts[b, 1]):
        a, b = b, a
    return _fmix64(texts[a, 0] * _BASE + texts[b, 0]), _fmix64(texts[a, 1] * _BASE + texts[b, 1])
