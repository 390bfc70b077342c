"""An n-gram model over tokens parted by white space, as ARPA files hold it: scoring of Arrow text.

A sentence is a line, or a whole text; it is scored from `<s>` to `</s>`, and one without tokens is left out. A word that the
model does not know is `<unk>`. The trie is that of `dataplane.kernels.ngram_lm`; words are found by a hash of 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import ModelMissing
from dataplane.kernels.hashing import xxh64
from dataplane.kernels.ngram_lm import BOS, F32, F64, I32, I64, UNKNOWN, advance
from dataplane.kernels.unicode import BOUNDS, FOLDS, OCTETS, text_buffers

U64 = npt.NDArray[np.uint64]

EOS = 2
SPECIAL = ("<s>", "<unk>", "</s>")  # of the ids from 0 on
_FLOATS = nb.types.Array(nb.float32, 1, "C", readonly=True)
_KEYS = nb.types.Array(nb.uint64, 1, "C", readonly=True)
_NEWLINE, _SPACE = 10, 32


@nb.njit(nb.boolean(nb.uint8), inline="always", cache=True, nogil=True)
def _is_space(byte):  # type: ignore[no-untyped-def]
    """The white space of ASCII: space, and tab to carriage return."""
    return byte == _SPACE or 9 <= byte <= 13


@nb.njit(nb.int64(_KEYS, FOLDS, nb.uint64), inline="always", cache=True, nogil=True)
def _find(keys, values, key):  # type: ignore[no-untyped-def]
    """Value of a key in a table of open addressing whose size is a power of two; UNKNOWN where it is not there."""
    mask = nb.uint64(len(keys) - 1)
    slot = key & mask
    while keys[slot] != key:
        if keys[slot] == 0:
            return nb.int64(UNKNOWN)
        slot = (slot + nb.uint64(1)) & mask
    return nb.int64(values[slot])


@nb.njit(nb.void(_KEYS, nb.uint64[::1], nb.int32[::1]), cache=True, nogil=True)
def _fill(hashes, keys, values):  # type: ignore[no-untyped-def]
    """Puts the i-th hash under the value i."""
    mask = nb.uint64(len(keys) - 1)
    for i in range(len(hashes)):
        slot = hashes[i] & mask
        while keys[slot] != 0:
            slot = (slot + nb.uint64(1)) & mask
        keys[slot], values[slot] = hashes[i], i


@nb.njit(
    nb.void(OCTETS, BOUNDS, nb.boolean, _KEYS, FOLDS, nb.int64, FOLDS, FOLDS, _FLOATS, _FLOATS, nb.float64[::1], nb.int64[::1]),
    cache=True, nogil=True,
)  # fmt: skip
def score(data, offsets, by_line, keys, values, order, starts, tokens, log_probs, log_backoffs, totals, counts):  # type: ignore[no-untyped-def]
    """Log10 probability of each text into `totals` (float64 [n]) and its tokens, `</s>` included, into `counts` (int64 [n])."""
    before, now = np.empty(order + 1, np.int64), np.empty(order + 1, np.int64)
    for i in range(len(offsets) - 1):
        at, stop = offsets[i], offsets[i + 1]
        total, count, known = 0.0, 0, nb.int64(-1)  # -1 is outside a sentence
        while True:
            ends = at >= stop or (by_line and data[at] == _NEWLINE)
            if not ends and _is_space(data[at]):
                at += 1
                continue
            if ends and known < 0:
                if at >= stop:
                    break
                at += 1
                continue
            if known < 0:
                before[1], known = BOS, min(1, order - 1)
            token = nb.int64(EOS)
            if not ends:
                start = at
                while at < stop and not _is_space(data[at]):
                    at += 1
                token = _find(keys, values, max(xxh64(data, start, at, nb.uint64(0)), nb.uint64(1)))
            length, found = advance(before, now, known, token, starts, tokens)
            total += log_probs[found]
            for n in range(length, known + 1):
                total += log_backoffs[before[n]]
            known = nb.int64(-1) if ends else min(length, order - 1)
            before, now = now, before
            count += 1
        totals[i], counts[i] = total, count


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
        object.__setattr__(self, "_table", _table(self.words))

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
        keys, values = self._table  # type: ignore[attr-defined]  # set in __post_init__ of a frozen class
        trie = (self.order, self.starts, self.tokens, self.log_probs, self.log_backoffs)
        score(data, offsets, by_line, keys, values, *trie, totals, counts)
        return totals, counts


def _table(words: pa.Array) -> tuple[U64, I32]:
    """Hash table of the ids of words; the special ones stand under hashes of their own names with a space, which no word has."""
    named = pa.concat_arrays([pa.array([f"{name} " for name in SPECIAL], pa.large_string()), words.slice(len(SPECIAL))])
    data, offsets = text_buffers(named)
    hashes = _hash_all(data, offsets)
    if len(np.unique(hashes)) != len(hashes):
        raise ModelMissing("two words have one hash, or a word is there twice", where="n-gram model", fix="train it again")
    size = 1 << max(4, int(2 * len(hashes)).bit_length())
    keys, values = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    _fill(hashes, keys, values)
    return keys, values


@nb.njit(nb.uint64[::1](OCTETS, BOUNDS), cache=True, nogil=True)
def _hash_all(data, offsets):  # type: ignore[no-untyped-def]
    """Hash of each word, uint64 [n]; 0 marks an empty place of the table, so 1 stands for it."""
    out = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(out)):
        out[i] = max(xxh64(data, offsets[i], offsets[i + 1], nb.uint64(0)), nb.uint64(1))
    return out
