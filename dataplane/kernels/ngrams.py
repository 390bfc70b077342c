"""Finds given word n-grams in texts, whatever white space, punctuation, case or width they are written with.

Texts are folded to letters and numbers alone (`unicode.fold_letters`), so an n-gram is a run of letters that starts and
ends with words of the item it comes from; in a scanned text it may start anywhere. Of an n-gram of m letters or more, each run of
3m/4 letters that begins in its first m/4 is known, so a text is looked at only every m/4 letters, and closer where such a run is met:
there the hash of the first m letters is looked up at each letter, and what it finds is compared letter by letter. No n-gram is missed,
none is found by chance.

Source: Karp and Rabin 1987, "Efficient randomized pattern-matching algorithms"; looking at every few letters: Wu and Manber 1994, "A fast
algorithm for multi-pattern searching".
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

# An n-gram is looked up by as many of its first letters as the highest power of two that it has, this at most: long runs of letters are
# rare in other texts.
MOST_PREFIX_LETTERS = 32
_CHUNK_LETTERS = 1 << 20  # of a text that are looked at together, beside the longest n-gram
_BITS_PER_PREFIX = 32  # of the bitmap that turns away nearly all letters; one in 32 passes by chance
_BITS_PER_RUN = 4  # of the words that turn away most runs, two set for each: one in 20 passes by chance, and the words stay in a cache
_FEWEST_WORDS = 1 << 13  # of a tier, where bits cost nothing
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
        prefixes: int64 [tiers], letters that are looked up of n-grams of so many or more, from many to few
        runs: uint64, words with two bits set for each run of letters, tier after tier
        run_starts: int64 [tiers + 1], where the words of each tier begin; their number is a power of two
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
    runs: U64
    run_starts: I64
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
    sums, powers = np.empty(len(letters) + 1, np.uint64), _powers(int(lengths.max(initial=0)))
    _sum_letters(letters, len(letters), sums)
    whole = _span_hashes(sums, powers, places, lengths)
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    places, lengths, whole = places[first], lengths[first], whole[first]
    prefix_of = _prefix_letters(lengths)
    prefixes = np.unique(prefix_of)[::-1].copy()
    runs, run_starts = _run_words(sums, powers, places, prefix_of, prefixes)
    heads = _span_hashes(sums, powers, places, prefix_of.astype(np.int32))
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
    found = (prefix_keys, prefix_ranges, pairs[:, 1].astype(np.int32), bitmap)
    return Grams(letters, places, lengths, prefixes, runs, run_starts, keys, grams, *found), which.astype(np.int32)


def _prefix_letters(lengths: I32) -> I64:
    """Letters of each n-gram that are looked up: int64 [g]."""
    powers = 2 ** np.arange(MOST_PREFIX_LETTERS.bit_length(), dtype=np.int64)
    return powers[np.searchsorted(powers, lengths, side="right") - 1]


def _run_words(sums: U64, powers: U64, places: I64, prefix_of: I64, prefixes: I64) -> tuple[U64, I64]:
    """Bits for the runs of letters that n-grams are noticed by: words, and where those of each tier begin."""
    words, starts = [np.zeros(0, np.uint64)], [0]
    for prefix in prefixes.tolist():
        own = places[prefix_of == prefix]
        size = _FEWEST_WORDS
        while size * 64 < min(len(own) * _step(prefix), len(sums)) * _BITS_PER_RUN:
            size *= 2
        words.append(np.zeros(size, np.uint64))
        _mark_runs(sums, powers, own, prefix, words[-1])
        starts.append(starts[-1] + size)
    return np.concatenate(words), np.array(starts, np.int64)


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
            data, offsets, start, fold_table(), classes(), index.prefixes, index.runs, index.run_starts, index.letters,
            index.places, index.lengths, index.keys, index.grams, index.prefix_keys, index.prefix_ranges, index.prefix_lengths,
            index.bitmap, powers, room, stamps, pairs,
        )  # fmt: skip
        found.append(pairs[:n].copy())
    hits = np.concatenate(found)
    return hits[:, 0], hits[:, 1]


def _bit(hashes: U64, n_bytes: int) -> I64:
    """Which bit of the bitmap stands for a prefix."""
    return ((hashes >> np.uint64(13)) & np.uint64(8 * n_bytes - 1)).astype(np.int64)


@nb.njit(nb.void(FOLDS, nb.int64, nb.uint64[::1]), cache=True, nogil=True)
def _sum_letters(letters, n, sums):  # type: ignore[no-untyped-def]
    """Hash of the letters before each position, up to n, so that the hash of any span is one subtraction away."""
    h = np.uint64(0)
    sums[0] = h
    for i in range(n):
        h = h * _BASE + np.uint64(letters[i])
        sums[i + 1] = h


@nb.njit(nb.uint64[::1](nb.int64), cache=True, nogil=True)
def _powers(longest):  # type: ignore[no-untyped-def]
    """The base to the power of 0 to `longest`."""
    out = np.empty(max(longest, MOST_PREFIX_LETTERS) + 1, np.uint64)
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


@nb.njit(nb.int64(nb.int64), cache=True, nogil=True)
def _step(prefix):  # type: ignore[no-untyped-def]
    """Every how many letters a text is looked at for n-grams of `prefix` letters or more."""
    return max(1, prefix // 4)


@nb.njit(nb.int64(nb.int64), cache=True, nogil=True)
def _run(prefix):  # type: ignore[no-untyped-def]
    """How many letters are looked at there: with `_step` - 1 before them, they lie within the first `prefix` of such an n-gram."""
    return max(1, 3 * prefix // 4)


@nb.njit(nb.uint64(nb.uint64), cache=True, nogil=True)
def _two_bits(h):  # type: ignore[no-untyped-def]
    return (np.uint64(1) << (h & np.uint64(63))) | (np.uint64(1) << ((h >> np.uint64(6)) & np.uint64(63)))


@nb.njit(nb.void(nb.uint64[::1], nb.uint64[::1], nb.int64[::1], nb.int64, nb.uint64[::1]), cache=True, nogil=True)
def _mark_runs(sums, powers, places, prefix, words):  # type: ignore[no-untyped-def]
    """Sets the bits of the runs that begin in the first `_step` letters of n-grams."""
    run, mask = _run(prefix), np.uint64(len(words) - 1)
    for place in places:
        for at in range(place, place + _step(prefix)):
            h = _span_hash(sums[at], sums[at + run], powers[run], run)
            words[(h >> np.uint64(12)) & mask] |= _two_bits(h)


@nb.njit(nb.int64(nb.uint64[::1], nb.int64, nb.int64, nb.uint64[::1], _READ_U64, nb.int32[::1]), cache=True, nogil=True)
def _notice(sums, filled, prefix, powers, words, noticed):  # type: ignore[no-untyped-def]
    """Fills `noticed` with the places, ascending, where a run of letters begins that is probably one of an n-gram; returns how many."""
    step, run = _step(prefix), _run(prefix)
    power, mask = powers[run], np.uint64(len(words) - 1)
    n = 0
    for at in range(0, filled - run + 1, step):
        h = _span_hash(sums[at], sums[at + run], power, run)
        bits = _two_bits(h)
        noticed[n] = at
        n += words[(h >> np.uint64(12)) & mask] & bits == bits
    return n


@nb.njit(
    nb.int64(
        nb.int32[::1], nb.uint64[::1], nb.int64, nb.int64, nb.int32[::1], FOLDS, _READ_I64, FOLDS, _READ_U64, FOLDS, _READ_U64, _READ_PAIRS,
        FOLDS, OCTETS, nb.uint64[::1], nb.int64, nb.int32[::1], nb.int32[:, ::1], nb.int64,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def _match(  # type: ignore[no-untyped-def]
    buffer, sums, filled, prefix, noticed, letters, places, lengths, keys, grams, prefix_keys, prefix_ranges,
    prefix_lengths, bitmap, powers, doc, stamps, pairs, used,
):  # fmt: skip
    """Adds to `pairs` the n-grams of a tier that begin less than a step before the places that were noticed; returns how many there are."""
    mask = np.uint64(8 * len(bitmap) - 1)
    step = _step(prefix)
    for near in noticed:
        for i in range(max(0, near - step + 1), min(near, filled - prefix) + 1):
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
                gram = grams[_slot(keys, _span_hash(sums[i], sums[i + length], powers[length], length))]
                fresh = gram >= 0 and stamps[gram] != doc and lengths[gram] == length
                if fresh and _same(letters, places[gram], buffer, i, length):
                    stamps[gram] = doc
                    pairs[used, 0], pairs[used, 1] = doc, gram
                    used += 1
    return used


@nb.njit(
    nb.types.UniTuple(nb.int64, 2)(
        OCTETS, BOUNDS, nb.int64, FOLDS, OCTETS, _READ_I64, _READ_U64, _READ_I64, FOLDS, _READ_I64, FOLDS, _READ_U64, FOLDS,
        _READ_U64, _READ_PAIRS, FOLDS, OCTETS, nb.uint64[::1], nb.int64, nb.int32[::1], nb.int32[:, ::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def _scan(  # type: ignore[no-untyped-def]
    data, offsets, doc, folds, table, prefixes, runs, run_starts, letters, places, lengths, keys, grams,
    prefix_keys, prefix_ranges, prefix_lengths, bitmap, powers, room, stamps, pairs,
):  # fmt: skip
    """Fills `pairs` with (text, n-gram) from text `doc` on; returns how many, and the text to go on from."""
    longest = len(powers) - 1
    buffer, marks, noticed = np.empty(room, np.int32), np.empty(room, np.bool_), np.empty(room + 1, np.int32)
    sums = np.zeros(room + 1, np.uint64)
    used = 0
    while doc < len(offsets) - 1 and used + len(places) <= len(pairs):
        at, kept = offsets[doc], 0
        while True:
            filled, at = fold_letters(data, at, offsets[doc + 1], folds, table, buffer[kept:], marks[kept:])
            filled += kept
            _sum_letters(buffer, filled, sums)
            for tier in range(len(prefixes)):
                n = _notice(sums, filled, prefixes[tier], powers, runs[run_starts[tier] : run_starts[tier + 1]], noticed)
                used = _match(
                    buffer, sums, filled, prefixes[tier], noticed[:n], letters, places, lengths, keys, grams, prefix_keys, prefix_ranges,
                    prefix_lengths, bitmap, powers, doc, stamps, pairs, used,
                )  # fmt: skip
            if at >= offsets[doc + 1]:
                break
            kept = min(filled, longest - 1)  # what an n-gram may have begun in
            buffer[:kept] = buffer[filled - kept : filled].copy()
        doc += 1
    return used, doc
