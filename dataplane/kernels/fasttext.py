"""Best label of lines under a fastText model: words and character n-grams to rows, their mean, the tree of the hierarchical softmax.

The library hashes every n-gram anew and looks each up in a map of its own allocations; here the hash grows with the n-gram, a bit for
each bucket says that nothing was learnt of it, and rows lie unpacked. Sums are float32 and in the library's order, so that the scores
are the library's.

Source: Joulin et al. 2016, arXiv:1612.03651; Joulin et al. 2016, arXiv:1607.01759, 2.1 (hierarchical softmax); the format is that of
fastText 0.9.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt

from dataplane.kernels.pointers import I32P, I64P, U8P, U64P, pointer
from dataplane.kernels.unicode import BOUNDS, I32, I64, OCTETS, U8

F32 = npt.NDArray[np.float32]

EOS, LABEL = b"</s>", b"__label__"
_OFFSET, _FNV_PRIME = np.uint32(2166136261), np.uint32(16777619)
_BEGIN, _END = np.uint8(0x3C), np.uint8(0x3E)  # "<" and ">" stand around a word
_LEAST = -11.512925  # log(1e-5): the library goes down no branch that is less likely
_BITS = 6  # of a place in a word of 64 bits

_LABEL, _EOS = np.frombuffer(LABEL, np.uint8), np.frombuffer(EOS, np.uint8)
_F32P = nb.types.CPointer(nb.float32)
_MATRIX, _I32S, _U64S = nb.float32[:, ::1], nb.int32[::1], nb.uint64[::1]


@dataclass(frozen=True)
class Tables:
    """A supervised model with a hierarchical softmax, as `best_labels` reads it.

    Attributes:
        rows: float32 [words + n-grams kept, dim], what was learnt of each
        words: uint8, the words one after another; `starts` int64 [words + 1] where they begin
        slots: int32 [power of two], open addressing by hash: places of words, -1 where there is none
        kept: uint64 [buckets / 64 + 1], a bit for each bucket that has a row
        bucket_rows: int32 [buckets], that row
        shape: int64 [3]: buckets, shortest and longest n-gram in characters
        output: float32 [labels - 1, dim], one for each inner node of the tree
        tree: int32 [2 * labels - 1, 2], left and right child of each node, -1 for the leaves, which come first; the last is the root
        end_of_line: Place of the word that ends every line, -1 where the model has none.
    """

    rows: F32
    words: U8
    starts: I64
    slots: I32
    kept: npt.NDArray[np.uint64]
    bucket_rows: I32
    shape: I64
    output: F32
    tree: I32
    end_of_line: int


def word_slots(words: Sequence[bytes]) -> I32:
    """`Tables.slots` of these words."""
    slots = np.full(1 << max(4, (2 * len(words)).bit_length()), -1, np.int32)
    for place, word in enumerate(words):
        at = _hash_of(word) & (len(slots) - 1)
        while slots[at] >= 0:
            at = (at + 1) & (len(slots) - 1)
        slots[at] = place
    return slots


def _hash_of(word: bytes) -> int:
    h = int(_OFFSET)
    for octet in word:
        h = ((h ^ (octet if octet < 0x80 else octet | 0xFFFFFF00)) * int(_FNV_PRIME)) & 0xFFFFFFFF
    return h


def kept_bits(bucket_rows: I32) -> npt.NDArray[np.uint64]:
    """`Tables.kept` of these rows."""
    bits = np.zeros((len(bucket_rows) >> _BITS << _BITS) + (1 << _BITS), np.uint8)
    bits[: len(bucket_rows)] = bucket_rows >= 0
    return np.packbits(bits, bitorder="little").view(np.uint64)


def huffman(counts: Sequence[int]) -> I32:
    """The tree that fastText builds over labels with these counts, most frequent first.

    Returns:
        int32 [2 * labels - 1, 2]
    """
    n = len(counts)
    weights = [*counts, *([10**15] * (n - 1))]
    tree = np.full((2 * n - 1, 2), -1, np.int32)
    leaf, node = n - 1, n
    for i in range(n, 2 * n - 1):
        for side in (0, 1):
            if leaf >= 0 and weights[leaf] < weights[node]:
                tree[i, side], leaf = leaf, leaf - 1
            else:
                tree[i, side], node = node, node + 1
        weights[i] = weights[tree[i, 0]] + weights[tree[i, 1]]
    return tree


@nb.njit(nb.uint32(nb.uint32, nb.uint8), cache=True, nogil=True, forceinline=True)
def _mixed(h, octet):  # type: ignore[no-untyped-def]  # numba infers the types of what it compiles
    """FNV-1a, with the library's reading of bytes as signed."""
    return (h ^ nb.uint32(nb.int32(nb.int8(octet)))) * _FNV_PRIME


@nb.njit(nb.boolean(U8P, nb.int64, nb.int64, OCTETS, nb.boolean), cache=True, nogil=True)
def _begins(data, start, stop, with_, whole):  # type: ignore[no-untyped-def]
    """Whether a word begins with some bytes, or is them."""
    if stop - start < len(with_) or (whole and stop - start != len(with_)):
        return False
    for i in range(len(with_)):  # noqa: SIM110  # numba compiles no generators
        if data[start + i] != with_[i]:
            return False
    return True


@nb.njit(nb.int64(U8P, nb.int64, nb.int64, U8P, I64P, I32P, nb.int64), cache=True, nogil=True)
def _place(data, start, stop, words, starts, slots, mask):  # type: ignore[no-untyped-def]
    """Place of a word in the dictionary, -1 where it is not in there."""
    h = _OFFSET
    for i in range(start, stop):
        h = _mixed(h, data[i])
    at = nb.int64(h) & mask
    while slots[at] >= 0:
        first = starts[slots[at]]
        same = starts[slots[at] + 1] - first == stop - start
        i = 0
        while same and i < stop - start:
            same = words[first + i] == data[start + i]
            i += 1
        if same:
            return nb.int64(slots[at])
        at = (at + 1) & mask
    return nb.int64(-1)


@nb.njit(nb.void(_F32P, nb.int64, nb.int64, _F32P), cache=True, nogil=True, forceinline=True)
def _add(rows, row, dim, hidden):  # type: ignore[no-untyped-def]
    first = row * dim
    for j in range(dim):
        hidden[j] += rows[first + j]


@nb.njit(nb.int64(U8P, nb.int64, _F32P, U64P, I32P, I64P, nb.int64, nb.int64, _F32P), cache=True, nogil=True)
def _add_grams(word, size, rows, kept, bucket_rows, shape, n_words, dim, hidden):  # type: ignore[no-untyped-def]
    """Adds the rows of a word's n-grams, its two borders among the characters; returns how many."""
    buckets, least, most = nb.uint32(shape[0]), shape[1], shape[2]
    found = 0
    for i in range(size):
        if word[i] & 0xC0 == 0x80:  # inside a character
            continue
        h, j, n = _OFFSET, i, 1
        while j < size and n <= most:
            h = _mixed(h, word[j])
            j += 1
            while j < size and word[j] & 0xC0 == 0x80:
                h = _mixed(h, word[j])
                j += 1
            if n >= least and not (n == 1 and (i == 0 or j == size)):
                bucket = nb.int64(h % buckets)
                if (kept[bucket >> _BITS] >> nb.uint64(bucket & 63)) & nb.uint64(1):
                    _add(rows, n_words + bucket_rows[bucket], dim, hidden)
                    found += 1
            n += 1
    return found


@nb.njit(nb.boolean(nb.uint8), cache=True, nogil=True, forceinline=True)
def _separates(octet):  # type: ignore[no-untyped-def]
    return octet == 0x20 or octet == 0 or 0x09 <= octet <= 0x0D


@nb.njit(
    nb.int64(
        U8P, nb.int64, nb.int64, _F32P, U8P, I64P, I32P, nb.int64, U64P, I32P, I64P, nb.int64, nb.int64, nb.int64, U8P, _F32P
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def _add_line(  # type: ignore[no-untyped-def]
    data, start, stop, rows, words, starts, slots, mask, kept, bucket_rows, shape, n_words, dim, end_of_line, word, hidden
):  # fmt: skip
    """Adds the rows of a line's words and n-grams, and of its end; returns how many."""
    found, at = 0, start
    word[0] = _BEGIN
    while at < stop:
        if _separates(data[at]):
            at += 1
            continue
        first = at
        while at < stop and not _separates(data[at]):
            word[1 + at - first] = data[at]
            at += 1
        if _begins(data, first, at, _EOS, True):  # the library ends the line here
            break
        if _begins(data, first, at, _LABEL, False):
            continue
        place = _place(data, first, at, words, starts, slots, mask)
        if place >= 0:
            _add(rows, place, dim, hidden)
            found += 1
        word[1 + at - first] = _END
        found += _add_grams(word, at - first + 2, rows, kept, bucket_rows, shape, n_words, dim, hidden)
    if end_of_line >= 0:
        _add(rows, end_of_line, dim, hidden)
        found += 1
    return found


@nb.njit(nb.float32(nb.float64), cache=True, nogil=True, forceinline=True)
def _log(x):  # type: ignore[no-untyped-def]
    return nb.float32(math.log(x + 1e-5))


@nb.njit(nb.types.Tuple((nb.int64, nb.float32))(_F32P, _MATRIX, nb.int32[:, ::1], _I32S, nb.float32[::1]), cache=True, nogil=True)
def _likeliest(hidden, output, tree, nodes, scores):  # type: ignore[no-untyped-def]
    """The label with the highest probability and its logarithm; the left branch first, as the library goes."""
    labels, dim = len(output) + 1, output.shape[1]
    best, highest = nb.int64(-1), nb.float32(-np.inf)
    nodes[0], scores[0], waiting = len(tree) - 1, 0.0, 1
    while waiting:
        waiting -= 1
        node, score = nodes[waiting], scores[waiting]
        if score < nb.float32(_LEAST) or (best >= 0 and score < highest):
            continue
        if tree[node, 0] < 0:
            # Of two with one score the library keeps the node of the higher number.
            if best < 0 or score > highest or (score == highest and node > best):
                best, highest = nb.int64(node), score
            continue
        dot = nb.float32(0.0)
        for j in range(dim):
            dot += output[node - labels, j] * hidden[j]
        share = nb.float32(nb.float64(1.0) / nb.float64(nb.float32(1.0) + nb.float32(math.exp(-dot))))
        nodes[waiting], scores[waiting] = tree[node, 1], score + _log(nb.float64(share))
        rest = nb.float32(nb.float64(1.0) - nb.float64(share))
        nodes[waiting + 1], scores[waiting + 1] = tree[node, 0], score + _log(nb.float64(rest))
        waiting += 2
    return best, highest


@nb.njit(
    nb.void(
        OCTETS, BOUNDS, _MATRIX, OCTETS, BOUNDS, _I32S, _U64S, _I32S, BOUNDS, _MATRIX, nb.int32[:, ::1], nb.int64, nb.uint8[::1],
        _I32S, nb.float32[::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def _best_labels(  # type: ignore[no-untyped-def]
    data, offsets, rows, words, starts, slots, kept, bucket_rows, shape, output, tree, end_of_line, word, labels, scores
):  # fmt: skip
    dim = rows.shape[1]
    hidden = np.empty(dim, np.float32)
    nodes, waiting = np.empty(len(tree) + 1, np.int32), np.empty(len(tree) + 1, np.float32)
    flat = rows.reshape(rows.size)
    for i in range(len(offsets) - 1):
        hidden[:] = 0
        n = _add_line(
            pointer(data), offsets[i], offsets[i + 1], pointer(flat), pointer(words), pointer(starts), pointer(slots), len(slots) - 1,
            pointer(kept), pointer(bucket_rows), pointer(shape), len(starts) - 1, dim, end_of_line, pointer(word), pointer(hidden),
        )  # fmt: skip
        labels[i], scores[i] = -1, 0.0
        if n:
            scale = nb.float32(1.0 / n)
            for j in range(dim):
                hidden[j] *= scale
            best, score = _likeliest(pointer(hidden), output, tree, nodes, waiting)
            labels[i], scores[i] = best, nb.float32(math.exp(score))


def best_labels(data: U8, offsets: I64, tables: Tables) -> tuple[I32, F32]:
    """The likeliest label of each line.

    Args:
        data: uint8, UTF-8 of the lines one after another; a line end or NUL inside a line reads as a space.
        offsets: int64 [n + 1], where they begin.
        tables: The model.

    Returns:
        int32 [n] which label, -1 where the model knows nothing of the line; float32 [n] its probability, a hair above 1 at times
    """
    n = len(offsets) - 1
    labels, scores = np.full(n, -1, np.int32), np.zeros(n, np.float32)
    if n:
        t = tables
        word = np.empty(int(np.diff(offsets).max()) + 2, np.uint8)
        _best_labels(
            data, offsets, t.rows, t.words, t.starts, t.slots, t.kept, t.bucket_rows, t.shape, t.output, t.tree, t.end_of_line, word,
            labels, scores,
        )  # fmt: skip
    return labels, scores
