"""Finds given word n-grams in texts, whatever white space, punctuation, case or width they are written with.

Texts are folded to letters and numbers alone (`unicode.fold_letters`), so an n-gram is a run of letters that starts and
ends with words of the item it comes from; in a scanned text it may start anywhere. A rolling hash of its first letters is
looked up at each letter, and what it finds is compared letter by letter: no n-gram is missed, none is found by chance.

Source: Karp and Rabin 1987, "Efficient randomized pattern-matching algorithms".
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.unicode import BOUNDS, CJK, FOLDS, I32, I64, OCTETS, U8, classes, fold_letters, fold_table, text_buffers

U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

# An n-gram is looked up by as many of its first letters as it has of these; one that is shorter than all by its least number.
# Long prefixes are rare in other texts, and few n-grams are short.
PREFIX_LETTERS = (24, 14)
_CHUNK_LETTERS = 1 << 20  # of a text that are looked at together, beside the longest n-gram
_BITS_PER_PREFIX = 32  # of the bitmap that turns away nearly all letters; one in 32 passes by chance
_PAIRS_ROOM = 1 << 16

_BASE = np.uint64(0x9E3779B185EBCA87)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True)
class Grams:
    """Distinct n-grams, ready to be looked for.

    Attributes:
        letters: int32, folded letters of all passages one after another
        places: int64 [g], first letter of each n-gram
        lengths: int32 [g], its letters
        prefixes: int64 [tiers], letters that are looked up, from many to few, the last no more than the shortest n-gram has.
        keys: uint64 [capacity], hash table of whole n-grams
        grams: int32 [capacity], n-gram of each key
        prefix_keys: uint64 [capacity], hash table of prefixes
        prefix_ranges: int32 [capacity, 2], where the lengths of n-grams with this prefix lie in `prefix_lengths`
        prefix_lengths: int32
        bitmap: uint8, bits set for the prefixes
    """

    letters: I32
    places: I64
    lengths: I32
    prefixes: I64
    keys: U64
    grams: I32
    prefix_keys: U64
    prefix_ranges: I32
    prefix_lengths: I32
    bitmap: U8


def folded(text: str) -> tuple[I32, Bools, int]:
    """One text's letters, whether a word starts at each, and how many words are CJK characters."""
    data, offsets = text_buffers(pa.array([text], pa.large_string()))
    letters, starts = np.empty(len(data), np.int32), np.empty(len(data), np.bool_)
    n, _ = fold_letters(data, offsets[0], offsets[1], fold_table(), classes(), letters, starts)
    cjk = int(np.count_nonzero(classes()[letters[:n]] & CJK))
    return letters[:n], starts[:n], cjk


def letter_places(text: str) -> tuple[I32, I64]:
    """One text's letters, and the code point that each is: int32 [n], int64 [n]."""
    folds = fold_table()[np.frombuffer(text.encode("utf-32-le"), np.uint32)]
    places = np.flatnonzero(folds > 0)
    return folds[places], places


def index_grams(letters: I32, places: I64, lengths: I32) -> tuple[Grams, I32]:
    """Makes n-grams ready to be looked for.

    Args:
        letters: int32, folded letters of all passages one after another
        places: int64 [m], first letter of each n-gram
        lengths: int32 [m], its letters, at least 1

    Returns:
        The distinct n-grams, and int32 [m], which of them each given one is
    """
    prefixes = _prefix_letters(lengths)
    sums, powers = _prefix_sums(letters), _powers(int(lengths.max(initial=0)))
    whole = _span_hashes(sums, powers, places, lengths)
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    places, lengths, whole = places[first], lengths[first], whole[first]
    tiers = np.argmax(lengths[:, None] >= prefixes[None, :], axis=1)
    heads = _span_hashes(sums, powers, places, prefixes[tiers].astype(np.int32))
    order = np.lexsort((lengths, heads))
    pairs = np.stack([heads[order], lengths[order].astype(np.uint64)], axis=1)
    pairs = pairs[np.r_[True, (pairs[1:] != pairs[:-1]).any(axis=1)]] if len(pairs) else pairs
    distinct, starts = np.unique(pairs[:, 0], return_index=True)
    ranges = np.stack([starts, np.r_[starts[1:], len(pairs)]], axis=1).astype(np.int32) if len(starts) else np.zeros((0, 2), np.int32)
    keys, slots = _hash_table(whole)
    grams = np.full(len(keys), -1, np.int32)
    grams[slots] = np.arange(len(whole), dtype=np.int32)
    prefix_keys, prefix_slots = _hash_table(distinct)
    prefix_ranges = np.zeros((len(prefix_keys), 2), np.int32)
    prefix_ranges[prefix_slots] = ranges
    bitmap = np.zeros(max(len(prefix_keys) * _BITS_PER_PREFIX // 16, 8), np.uint8)  # of the keys' room, a half at most is taken
    bits = _bit(distinct, len(bitmap))
    np.bitwise_or.at(bitmap, bits >> 3, (1 << (bits & 7)).astype(np.uint8))
    index = Grams(letters, places, lengths, prefixes, keys, grams, prefix_keys, prefix_ranges, pairs[:, 1].astype(np.int32), bitmap)
    return index, which.astype(np.int32)


def _prefix_letters(lengths: I32) -> I64:
    """Letters that are looked up, from many to few: int64 [tiers]."""
    shortest = int(lengths.min(initial=PREFIX_LETTERS[0]))
    return np.array([n for n in PREFIX_LETTERS if n > shortest] + [min(shortest, PREFIX_LETTERS[0])], np.int64)


def find_grams(text: pa.Array, index: Grams) -> tuple[I32, I32]:
    """The n-grams that each text holds.

    Args:
        text: string or large_string [d]
        index: What to look for.

    Returns:
        int32 [hits] texts and int32 [hits] n-grams, each pair once, by text
    """
    data, offsets = text_buffers(text)
    n_grams = len(index.places)
    if not n_grams or len(offsets) == 1:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    longest = int(index.lengths.max())
    powers = _powers(longest)
    stamps = np.full(n_grams, -1, np.int32)
    pairs = np.empty((max(_PAIRS_ROOM, n_grams), 2), np.int32)
    room = min(int(np.diff(offsets).max()), _CHUNK_LETTERS) + len(powers)  # the longest n-gram, and a letter to go on with
    found, start = [], 0
    while start < len(offsets) - 1:
        n, start = _scan(
            data, offsets, start, fold_table(), classes(), index.letters, index.places, index.lengths, index.prefixes, index.keys,
            index.grams, index.prefix_keys, index.prefix_ranges, index.prefix_lengths, index.bitmap, powers, room, stamps, pairs,
        )  # fmt: skip
        found.append(pairs[:n].copy())
    hits = np.concatenate(found)
    return hits[:, 0], hits[:, 1]


def _bit(hashes: U64, n_bytes: int) -> I64:
    """Which bit of the bitmap stands for a prefix."""
    return ((hashes >> np.uint64(13)) & np.uint64(8 * n_bytes - 1)).astype(np.int64)


@nb.njit(nb.uint64[::1](nb.types.Array(nb.int32, 1, "C", readonly=True)), cache=True, nogil=True)
def _prefix_sums(letters):  # type: ignore[no-untyped-def]
    """Hash of the letters before each position, so that the hash of any span is one subtraction away."""
    sums = np.empty(len(letters) + 1, np.uint64)
    sums[0] = 0
    for i in range(len(letters)):
        sums[i + 1] = sums[i] * _BASE + np.uint64(letters[i])
    return sums


@nb.njit(nb.uint64[::1](nb.int64), cache=True, nogil=True)
def _powers(longest):  # type: ignore[no-untyped-def]
    """The base to the power of 0 to `longest`."""
    out = np.empty(max(longest, PREFIX_LETTERS[0]) + 1, np.uint64)
    out[0] = 1
    for i in range(1, len(out)):
        out[i] = out[i - 1] * _BASE
    return out


@nb.njit(nb.uint64(nb.uint64, nb.uint64, nb.uint64, nb.int64), cache=True, nogil=True)
def _span_hash(before, after, power, length):  # type: ignore[no-untyped-def]
    """Hash of a span of `length` letters, never 0."""
    h = after - before * power + np.uint64(length)
    h = (h ^ (h >> np.uint64(32))) * _MIX
    return (h ^ (h >> np.uint64(29))) | np.uint64(1)


@nb.njit(
    nb.uint64[::1](
        nb.uint64[::1], nb.uint64[::1], nb.types.Array(nb.int64, 1, "C", readonly=True), nb.types.Array(nb.int32, 1, "C", readonly=True)
    ),
    cache=True,
    nogil=True,
)
def _span_hashes(sums, powers, places, lengths):  # type: ignore[no-untyped-def]
    out = np.empty(len(places), np.uint64)
    for i in range(len(places)):
        first, length = places[i], lengths[i]
        out[i] = _span_hash(sums[first], sums[first + length], powers[length], length)
    return out


@nb.njit(nb.int64(nb.types.Array(nb.uint64, 1, "C", readonly=True), nb.uint64), cache=True, nogil=True)
def _slot(keys, key):  # type: ignore[no-untyped-def]
    """Where a key lies, or the empty place (0) where it would. The table's size is a power of two, and it is never full."""
    mask = len(keys) - 1
    at = nb.int64(key >> np.uint64(20)) & mask
    while keys[at] != 0 and keys[at] != key:
        at = (at + 1) & mask
    return at


@nb.njit(nb.types.Tuple((nb.uint64[::1], nb.int64[::1]))(nb.uint64[::1]), cache=True, nogil=True)
def _hash_table(distinct):  # type: ignore[no-untyped-def]
    """A table of these keys and the slot of each."""
    size = 16
    while size < 2 * len(distinct):
        size *= 2
    keys, slots = np.zeros(size, np.uint64), np.empty(len(distinct), np.int64)
    for i in range(len(distinct)):
        slots[i] = _slot(keys, distinct[i])
        keys[slots[i]] = distinct[i]
    return keys, slots


@nb.njit(nb.boolean(FOLDS, nb.int64, nb.int32[::1], nb.int64, nb.int64), cache=True, nogil=True)
def _same(left, i, right, j, length):  # type: ignore[no-untyped-def]
    for k in range(length):  # noqa: SIM110 - numba has no generators
        if left[i + k] != right[j + k]:
            return False
    return True


_READ_I64 = nb.types.Array(nb.int64, 1, "C", readonly=True)
_READ_U64 = nb.types.Array(nb.uint64, 1, "C", readonly=True)
_READ_PAIRS = nb.types.Array(nb.int32, 2, "C", readonly=True)


@nb.njit(
    nb.types.UniTuple(nb.int64, 2)(
        OCTETS, BOUNDS, nb.int64, FOLDS, OCTETS, FOLDS, _READ_I64, FOLDS, _READ_I64, _READ_U64, FOLDS, _READ_U64, _READ_PAIRS, FOLDS,
        OCTETS, nb.uint64[::1], nb.int64, nb.int32[::1], nb.int32[:, ::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def _scan(  # type: ignore[no-untyped-def]
    data, offsets, doc, folds, table, letters, places, lengths, prefixes, keys, grams, prefix_keys, prefix_ranges, prefix_lengths,
    bitmap, powers, room, stamps, pairs,
):  # fmt: skip
    """Fills `pairs` with (text, n-gram) from text `doc` on; returns how many, and the text to go on from."""
    longest, shortest = len(powers) - 1, prefixes[-1]
    buffer, marks = np.empty(room, np.int32), np.empty(room, np.bool_)
    sums = np.empty(room + 1, np.uint64)
    mask = np.uint64(8 * len(bitmap) - 1)
    used = 0
    while doc < len(offsets) - 1 and used + len(places) <= len(pairs):
        at, stop = offsets[doc], offsets[doc + 1]
        kept = 0
        while True:
            filled, at = fold_letters(data, at, stop, folds, table, buffer[kept:], marks[kept:])
            filled += kept
            sums[0] = 0
            for i in range(filled):
                sums[i + 1] = sums[i] * _BASE + np.uint64(buffer[i])
            last = at >= stop
            i = 0
            while i + shortest <= filled and (last or i + longest <= filled):
                for tier in range(len(prefixes)):
                    prefix = prefixes[tier]
                    if i + prefix > filled:
                        continue
                    key = _span_hash(sums[i], sums[i + prefix], powers[prefix], prefix)
                    bit = (key >> np.uint64(13)) & mask
                    if not bitmap[bit >> np.uint64(3)] >> (bit & np.uint64(7)) & 1:
                        continue
                    slot = _slot(prefix_keys, key)
                    if prefix_keys[slot] != key:
                        continue
                    for k in range(prefix_ranges[slot, 0], prefix_ranges[slot, 1]):
                        length = prefix_lengths[k]
                        if i + length > filled:
                            break
                        whole = _slot(keys, _span_hash(sums[i], sums[i + length], powers[length], length))
                        gram = grams[whole]
                        fresh = gram >= 0 and stamps[gram] != doc and lengths[gram] == length
                        if fresh and _same(letters, places[gram], buffer, i, length):
                            stamps[gram] = doc
                            pairs[used, 0], pairs[used, 1] = doc, gram
                            used += 1
                i += 1
            if last:
                break
            kept = filled - i
            buffer[:kept] = buffer[i:filled].copy()
        doc += 1
    return used, doc
