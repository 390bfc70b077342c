"""The n-gram language model as it is used: text to character ids, scoring by longest match, and the file it is kept in.

Characters are read through a table that folds them (case, width, digits) into ids; runs of white space count as one space,
and white space around a document does not count.

N-grams are numbered by length, then by their first n-1 characters, then by the last one, so that those that go on from one
n-gram lie side by side: a trie in two arrays, with nothing hashed. While a text is read, the ids of the n-grams that end at
one character lead to those that end at the next, so that a character costs at most `order - 1` look-ups.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import ModelMissing
from dataplane.kernels.unicode import BOUNDS, FOLDS, N_CODE_POINTS, OCTETS, decode, text_buffers

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

FOLDER = "models/ngram_lm"
FILE = "model.npz"
FORMAT = 1  # of the file; a file of another format is trained again

BOS, UNKNOWN, SPACE = 0, 1, 2  # first ids of every vocabulary
FIRST_CHARACTER = 3

_TYPES = {
    "header": "int64",
    "codes": "int32",
    "ids": "int32",
    "starts": "int32",
    "tokens": "int32",
    "log_probs": "float32",
    "log_backoffs": "float32",
}
MAX_ORDER = 8
_FLOATS = nb.types.Array(nb.float32, 1, "C", readonly=True)


@nb.njit(nb.int64[::1](OCTETS, BOUNDS), cache=True, nogil=True)
def count_code_points(data, offsets):  # type: ignore[no-untyped-def]
    """How often each code point occurs: int64 [0x110000]."""
    counts = np.zeros(N_CODE_POINTS, np.int64)
    for i in range(len(offsets) - 1):
        at, stop = offsets[i], offsets[i + 1]
        while at < stop:
            code, at = decode(data, at, stop)
            counts[code] += 1
    return counts


@nb.njit(nb.types.Tuple((nb.int32[::1], nb.int32[::1]))(OCTETS, BOUNDS, FOLDS), cache=True, nogil=True)
def encode(data, offsets, table):  # type: ignore[no-untyped-def]
    """Character ids of all texts one behind the other, BOS before each.

    Args:
        data, offsets: UTF-8 bytes uint8 and where each text lies in them, int64 [n + 1].
        table: int32 [0x110000], id of each code point.

    Returns:
        ids int32 [t] and the place of each in its text (0 is BOS), int32 [t].
    """
    n = len(offsets) - 1
    room = offsets[n] - offsets[0] + n
    ids, places = np.empty(room, np.int32), np.empty(room, np.int32)
    k = 0
    for i in range(n):
        at, stop = offsets[i], offsets[i + 1]
        ids[k], places[k] = BOS, 0
        place = 1
        k += 1
        pending = False
        while at < stop:
            code, at = decode(data, at, stop)
            token = table[code]
            if token == SPACE:
                pending = place > 1
                continue
            if pending:
                ids[k], places[k] = SPACE, place
                place += 1
                k += 1
                pending = False
            ids[k], places[k] = token, place
            place += 1
            k += 1
    return ids[:k].copy(), places[:k].copy()


@nb.njit(nb.int64(FOLDS, FOLDS, nb.int64, nb.int64), inline="always", cache=True, nogil=True)
def _child(starts, tokens, parent, token):  # type: ignore[no-untyped-def]
    """Id of the n-gram that is `parent` and `token`, or -1: a binary search without branches among the parent's children."""
    low = nb.int64(starts[parent])
    n = nb.int64(starts[parent + 1]) - low
    if n == 0:
        return nb.int64(-1)
    while n > 1:
        half = n >> 1
        low += half if tokens[low + half] <= token else 0
        n -= half
    return low if tokens[low] == token else nb.int64(-1)


@nb.njit(
    nb.types.UniTuple(nb.int64, 2)(nb.int64[::1], nb.int64[::1], nb.int64, nb.int64, FOLDS, FOLDS),
    inline="always", cache=True, nogil=True,
)  # fmt: skip
def advance(before, now, known, token, starts, tokens):  # type: ignore[no-untyped-def]
    """Finds the n-grams that end at `token` (their ids go to `now[1:]`), given those that end before it.

    Args:
        known: Length of the longest n-gram in `before`, below `order`.

    Returns:
        Length and id of the longest one found.
    """
    found = nb.int64(token)
    now[1] = found
    length = 1
    while length <= known:
        longer = _child(starts, tokens, before[length], token)
        if longer < 0:
            break
        length += 1
        now[length] = found = longer
    return length, found


@nb.njit(nb.void(OCTETS, BOUNDS, FOLDS, nb.int64, FOLDS, FOLDS, _FLOATS, _FLOATS, nb.float64[::1], nb.int64[::1]), cache=True, nogil=True)
def score(data, offsets, table, order, starts, tokens, log_probs, log_backoffs, totals, counts):  # type: ignore[no-untyped-def]
    """Log10 probability of each text into `totals` (float64 [n]) and its characters into `counts` (int64 [n])."""
    before, now = np.empty(order + 1, np.int64), np.empty(order + 1, np.int64)
    for i in range(len(offsets) - 1):
        at, stop = offsets[i], offsets[i + 1]
        total, count = 0.0, 0
        before[1], known = BOS, min(1, order - 1)
        held = nb.int64(-1)  # a character read behind white space, scored after the space
        pending = False
        while at < stop or held >= 0:
            if held >= 0:
                token, held = held, nb.int64(-1)
            else:
                code, at = decode(data, at, stop)
                token = nb.int64(table[code])
                if token == SPACE:
                    pending = count > 0
                    continue
                if pending:
                    held, token, pending = token, nb.int64(SPACE), False
            length, found = advance(before, now, known, token, starts, tokens)
            total += log_probs[found]
            for n in range(length, known + 1):
                total += log_backoffs[before[n]]
            known = min(length, order - 1)
            before, now = now, before
            count += 1
        totals[i], counts[i] = total, count


@dataclass(frozen=True)
class Model:
    """A trained model.

    Attributes:
        order: Characters of the longest n-gram.
        codes: Code points that are known, int32 [k], sorted; the others are UNKNOWN.
        ids: Id of each of them, int32 [k]; folded characters share one.
        starts: First of the n-grams that go on from each n-gram, int32 [g + 1]; they end where the next one's start.
        tokens: Id of the last character of each n-gram, int32 [g].
        log_probs: log10 p(last character | the others) of each n-gram, float32 [g]; the first v are the characters'.
        log_backoffs: log10 weight of what is left for shorter n-grams behind each n-gram, float32 [g].
        size: v, ids of characters, BOS and UNKNOWN included.
    """

    order: int
    codes: I32
    ids: I32
    starts: I32
    tokens: I32
    log_probs: F32
    log_backoffs: F32
    size: int

    def __post_init__(self) -> None:
        table = np.full(N_CODE_POINTS, UNKNOWN, np.int32)
        table[self.codes] = self.ids
        object.__setattr__(self, "_table", table)

    def score(self, text: pa.Array) -> tuple[F64, I64]:
        """How probable each text is.

        Args:
            text: string or large_string [n]; null reads as empty.

        Returns:
            log10 probability of each whole text, float64 [n], and the characters it is over, int64 [n]: white space
            around the text left out, and runs of it inside counted as one.
        """
        data, offsets = text_buffers(text)
        totals, counts = np.zeros(len(offsets) - 1), np.zeros(len(offsets) - 1, np.int64)
        table = self._table  # type: ignore[attr-defined]  # set in __post_init__ of a frozen class
        score(data, offsets, table, self.order, self.starts, self.tokens, self.log_probs, self.log_backoffs, totals, counts)
        return totals, counts

    def save(self, path: Path) -> None:
        """Writes arrays only, no pickles: equal models give equal bytes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(
            path,
            header=np.array([FORMAT, self.order, self.size], np.int64),
            codes=self.codes,
            ids=self.ids,
            starts=self.starts,
            tokens=self.tokens,
            log_probs=self.log_probs,
            log_backoffs=self.log_backoffs,
        )

    @classmethod
    def load(cls, path: Path) -> Model:
        """Reads a model.

        Raises:
            ModelMissing: There is none, it is damaged, or it is of another format.
        """
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                found = {name: arrays[name] for name in _TYPES}
        except FileNotFoundError:
            raise ModelMissing(f"{path} does not exist", where="ngram_lm", fix="dvc repro train_lm") from None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise _damaged(path, str(error)) from error
        fault = _fault(found)
        if fault:
            raise _damaged(path, fault)
        _, order, size = found.pop("header").tolist()
        return cls(order=order, size=size, **found)


def _damaged(path: Path, why: str) -> ModelMissing:
    return ModelMissing(f"{path} is no n-gram model of this version: {why}", where="ngram_lm", fix="dvc repro --force train_lm")


def _fault(arrays: dict[str, npt.NDArray[np.generic]]) -> str:
    """What is wrong with a file's arrays, which the kernels read without looking: "" where nothing is."""
    for name, kind in _TYPES.items():
        if arrays[name].dtype != kind or arrays[name].ndim != 1:
            return f"{name} is {arrays[name].dtype} of {arrays[name].ndim} dimensions"
    header, codes, ids, starts, tokens = (arrays[name].astype(np.int64) for name in ("header", "codes", "ids", "starts", "tokens"))
    if len(header) != 3 or header[0] != FORMAT:
        return "another format"
    order, size = int(header[1]), int(header[2])
    n_grams = len(tokens)
    checks = {
        "order": 1 <= order <= MAX_ORDER,
        "size": FIRST_CHARACTER <= size <= N_CODE_POINTS + FIRST_CHARACTER,
        "codes": bool(((codes >= 0) & (codes < N_CODE_POINTS)).all()) and len(codes) == len(ids),
        "ids": bool(((ids > BOS) & (ids < size)).all()),
        "tokens": n_grams >= size and bool((tokens >= 0).all() and (tokens < size).all()),
        "starts": len(starts) == n_grams + 1 and starts[0] == size and starts[-1] == n_grams and bool((np.diff(starts) >= 0).all()),
        "log_probs": len(arrays["log_probs"]) == n_grams,
        "log_backoffs": len(arrays["log_backoffs"]) == n_grams,
    }
    return ", ".join(f"{name} out of range" for name, right in checks.items() if not right)
