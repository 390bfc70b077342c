"""An n-gram model over tokens parted by white space, as ARPA files hold it: scoring of Arrow text.

A sentence is a line, or a whole text; it is scored from `<s>` to `</s>`, and one without tokens is left out. A word that the
model does not know is `<unk>`. Words are found by a hash of 64 bits, n-grams by the one that is a word shorter and the last word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import ModelMissing
from dataplane.kernels.ngram_lm import BOS, F32, F64, I32, I64, UNKNOWN
from dataplane.kernels.unicode import BOUNDS, FOLDS, OCTETS, text_buffers

U64 = npt.NDArray[np.uint64]

EOS = 2
SPECIAL = ("<s>", "<unk>", "</s>")  # of the ids from 0 on
_FLOATS = nb.types.Array(nb.float32, 1, "C", readonly=True)
_TABLE = nb.types.Array(nb.uint64, 2, "C", readonly=True)
_IDS = nb.types.Array(nb.int32, 1, "C")
_NEWLINE, _SPACE = 10, 32
_BLOCK = 1 << 13  # tokens that are scored together


@nb.njit(nb.boolean(nb.uint8), inline="always", cache=True, nogil=True)
def _is_space(byte):  # type: ignore[no-untyped-def]
    """The white space of ASCII: space, and tab to carriage return."""
    return byte == _SPACE or 9 <= byte <= 13


@nb.njit(nb.uint64(OCTETS, nb.int64, nb.int64), inline="always", cache=True, nogil=True)
def _hash(data, start, stop):  # type: ignore[no-untyped-def]
    """FNV-1a of bytes with a last round that mixes the high bits in; never 0, which marks an empty place."""
    h = nb.uint64(0xCBF29CE484222325)
    for at in range(start, stop):
        h = (h ^ nb.uint64(data[at])) * nb.uint64(0x100000001B3)
    h ^= h >> nb.uint64(32)
    return h if h != 0 else nb.uint64(1)


@nb.njit(nb.int64(_TABLE, nb.uint64, nb.uint64), inline="always", cache=True, nogil=True)
def _find(table, key, slot):  # type: ignore[no-untyped-def]
    """Value of a key in a table of open addressing whose size is a power of two; -1 where it is not there."""
    mask = nb.uint64(len(table) - 1)
    slot &= mask
    while table[slot, 0] != key:
        if table[slot, 0] == 0:
            return nb.int64(-1)
        slot = (slot + nb.uint64(1)) & mask
    return nb.int64(table[slot, 1])


@nb.njit(nb.void(nb.uint64[:, ::1], nb.uint64, nb.uint64, nb.int64), inline="always", cache=True, nogil=True)
def _put(table, key, slot, value):  # type: ignore[no-untyped-def]
    mask = nb.uint64(len(table) - 1)
    slot &= mask
    while table[slot, 0] != 0:
        slot = (slot + nb.uint64(1)) & mask
    table[slot, 0], table[slot, 1] = key, nb.uint64(value)


@nb.njit(nb.types.UniTuple(nb.uint64, 2)(nb.int64, nb.int64), inline="always", cache=True, nogil=True)
def _child(parent, token):  # type: ignore[no-untyped-def]
    """Key of the n-gram that is `parent` and `token`, which is never 0, and where to look for it."""
    key = (nb.uint64(parent + 1) << nb.uint64(32)) | nb.uint64(token)
    mixed = key * nb.uint64(0x9E3779B97F4A7C15)
    return key, mixed ^ (mixed >> nb.uint64(32))


@nb.njit(nb.uint64[:, ::1](OCTETS, BOUNDS, nb.int64), cache=True, nogil=True)
def _word_table(data, offsets, size):  # type: ignore[no-untyped-def]
    """Ids of words by their hash: uint64 [size, 2]."""
    table = np.zeros((size, 2), np.uint64)
    for i in range(len(offsets) - 1):
        h = _hash(data, offsets[i], offsets[i + 1])
        _put(table, h, h, i)
    return table


@nb.njit(nb.uint64[:, ::1](FOLDS, FOLDS, nb.int64), cache=True, nogil=True)
def _child_table(starts, tokens, size):  # type: ignore[no-untyped-def]
    """Ids of n-grams by that of their first words and their last word: uint64 [size, 2]."""
    table = np.zeros((size, 2), np.uint64)
    for parent in range(len(tokens)):
        for child in range(starts[parent], starts[parent + 1]):
            key, slot = _child(nb.int64(parent), nb.int64(tokens[child]))
            _put(table, key, slot, child)
    return table


@nb.njit(nb.float64(_IDS, nb.int64, nb.int64, _TABLE, _FLOATS, _FLOATS, _IDS, _IDS, _IDS, _IDS), cache=True, nogil=True)
def _score_block(tokens, size, order, children, log_probs, log_backoffs, carried, here, longer, last):  # type: ignore[no-untyped-def]
    """Log10 probability of ``tokens[1 : size + 1]``, which go on from the block before.

    All n-grams of one length are looked up before any of the next: no look-up waits for another one's memory.

    Args:
        tokens: Ids, BOS at the start of each sentence.
        carried: At n: the n-gram that ends at the last token of the block before, or -1; left as the next block needs it.
        here, longer, last: Room, of the size of `tokens`.
    """
    total = 0.0
    here[: size + 1] = tokens[: size + 1]
    last[: size + 1] = tokens[: size + 1]
    for n in range(1, order):
        here[0] = carried[n]
        for t in range(1, size + 1):
            found = nb.int64(-1)
            if tokens[t] != BOS and here[t - 1] >= 0:
                if here[t] >= 0:
                    key, slot = _child(nb.int64(here[t - 1]), nb.int64(tokens[t]))
                    found = _find(children, key, slot)
                if found >= 0:
                    last[t] = found
                else:
                    total += log_backoffs[here[t - 1]]
            longer[t] = found
        carried[n] = here[size]
        here, longer = longer, here
    for t in range(1, size + 1):
        if tokens[t] != BOS:
            total += log_probs[last[t]]
    return total


@nb.njit(
    nb.void(OCTETS, BOUNDS, nb.boolean, _TABLE, _TABLE, nb.int64, _FLOATS, _FLOATS, nb.float64[::1], nb.int64[::1]),
    cache=True, nogil=True,
)  # fmt: skip
def score(data, offsets, by_line, words, children, order, log_probs, log_backoffs, totals, counts):  # type: ignore[no-untyped-def]
    """Log10 probability of each text into `totals` (float64 [n]) and its tokens, `</s>` included, into `counts` (int64 [n])."""
    tokens, last = np.empty(_BLOCK + 3, np.int32), np.empty(_BLOCK + 3, np.int32)
    here, longer = np.empty(_BLOCK + 3, np.int32), np.empty(_BLOCK + 3, np.int32)
    carried = np.empty(order + 1, np.int32)
    for i in range(len(offsets) - 1):
        at, stop = offsets[i], offsets[i + 1]
        total, count, size, inside = 0.0, 0, 0, False
        carried[:] = -1
        while at < stop or inside:
            ends = at >= stop or (by_line and data[at] == _NEWLINE)
            if (ends and not inside) or (not ends and _is_space(data[at])):
                at += 1
                continue
            if not inside:
                size += 1
                tokens[size] = BOS
            inside = not ends
            token = nb.int64(EOS)
            if not ends:
                start = at
                while at < stop and not _is_space(data[at]):
                    at += 1
                h = _hash(data, start, at)
                token = max(_find(words, h, h), nb.int64(UNKNOWN))
            size += 1
            tokens[size] = token
            count += 1
            if size >= _BLOCK:
                total += _score_block(tokens, size, order, children, log_probs, log_backoffs, carried, here, longer, last)
                size = 0
        totals[i] = total + _score_block(tokens, size, order, children, log_probs, log_backoffs, carried, here, longer, last)
        counts[i] = count


@dataclass(frozen=True)
class TokenModel:
    """A model that was read.

    Attributes:
        order: Tokens of the longest n-gram.
        words: large_string [v], by id; the first three are SPECIAL, which no word of a text stands for.
        starts: First of the n-grams that go on from each n-gram, int32 [g + 1].
        tokens: Id of the last word of each n-gram, int32 [g]; n-grams by length, then by the words before the last.
        log_probs: log10 p(last word | the others), float32 [g].
        log_backoffs: log10 weight of shorter n-grams behind each n-gram, float32 [g].
    """

    order: int
    words: pa.Array
    starts: I32
    tokens: I32
    log_probs: F32
    log_backoffs: F32

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tables", (_words(self.words), _child_table(self.starts, self.tokens, _room(len(self.tokens)))))

    def score(self, text: pa.Array, by_line: bool = True) -> tuple[F64, I64]:
        """How probable each text is.

        Args:
            text: string or large_string [n], tokens parted by white space of ASCII; null reads as empty.
            by_line: Whether each line is a sentence; otherwise the whole text is one.

        Returns:
            log10 probability of each text, float64 [n], and the tokens it is over, one for each end of a sentence among them, int64 [n].
        """
        data, offsets = text_buffers(text)
        totals, counts = np.zeros(len(offsets) - 1), np.zeros(len(offsets) - 1, np.int64)
        words, children = self._tables  # type: ignore[attr-defined]  # set in __post_init__ of a frozen class
        score(data, offsets, by_line, words, children, self.order, self.log_probs, self.log_backoffs, totals, counts)
        return totals, counts


def _words(words: pa.Array) -> U64:
    """Hash table of the ids of words; the special ones stand there with a space behind them, as no word does."""
    named = pa.concat_arrays([pa.array([f"{name} " for name in SPECIAL], pa.large_string()), words.slice(len(SPECIAL))])
    table: U64 = _word_table(*text_buffers(named), _room(len(named)))
    hashes = table[:, 0]
    if len(np.unique(hashes[hashes > 0])) != len(named):
        raise ModelMissing("two words have one hash, or a word is there twice", where="n-gram model", fix="train it again")
    return table


def _room(n: int) -> int:
    """Size of a hash table: a power of two, at most half full."""
    return 1 << max(4, (2 * n - 1).bit_length())
