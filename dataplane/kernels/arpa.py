"""ARPA files of n-gram models, plain or gzipped: read into arrays, from whatever tool wrote them.

An n-gram whose first or last words are no n-gram of the file (SRILM prunes so) has them put in, with the probability that
backing off gives them and the back-off weight 1: no probability changes. Words of the file named `<UNK>` are `<unk>`.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa

from dataplane.errors import ModelMissing
from dataplane.kernels.ngram_lm import F64, I64, MAX_ORDER
from dataplane.kernels.token_lm import SPECIAL, TokenModel

_CHUNK_LINES = 200_000
_ABSENT_LOG_PROB = -100.0  # of a special word that the file lacks, as KenLM takes it


@dataclass
class _Order:
    """All n-grams of one length.

    Attributes:
        words: Ids, int64 [g, n].
        log_probs: float64 [g]; NaN where the n-gram was put in.
        log_backoffs: float64 [g]
    """

    words: I64
    log_probs: F64
    log_backoffs: F64

    def sorted(self) -> _Order:
        at = np.lexsort(self.words.T[::-1])
        return _Order(self.words[at], self.log_probs[at], self.log_backoffs[at])


def read_arpa(path: Path) -> TokenModel:
    """Reads a model.

    Raises:
        ModelMissing: It is not there, or it is damaged.
    """
    try:
        with _opened(path) as stream:
            words, orders = _read(stream)
    except FileNotFoundError:
        raise ModelMissing(f"{path} does not exist", where="n-gram model", fix="train it with `dataplane train-lm`") from None
    except (OSError, EOFError, ValueError, KeyError, IndexError) as error:
        fix = "copy it again, or train it with `dataplane train-lm`"
        raise ModelMissing(f"{path} is no ARPA file: {error}", where="n-gram model", fix=fix) from error
    return _assembled(words, _closed(orders, len(words)))


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")


def _read(stream: TextIO) -> tuple[list[str], list[_Order]]:
    announced = _header(stream)
    ids = {word: i for i, word in enumerate(SPECIAL)}
    orders = []
    for n, size in enumerate(announced, start=1):
        _seek(stream, f"\\{n}-grams:")
        parts = [_chunk(lines, n, ids) for lines in _chunks(stream, size)]
        joined = [np.concatenate([part[k] for part in parts]) if parts else np.zeros((0, n) if not k else 0) for k in range(3)]
        orders.append(_Order(joined[0].astype(np.int64), joined[1], joined[2]))
    orders[0] = _all_words(orders[0], len(ids))
    return list(ids), orders


def _header(stream: TextIO) -> list[int]:
    """How many n-grams of each length there are."""
    _seek(stream, "\\data\\")
    sizes = []
    for line in stream:
        if not line.startswith("ngram "):
            break
        sizes.append(int(line.partition("=")[2]))
    if not 1 <= len(sizes) <= MAX_ORDER:
        raise ValueError(f"n-grams of {len(sizes)} lengths, of 1 to {MAX_ORDER}")
    return sizes


def _seek(stream: TextIO, marker: str) -> None:
    for line in stream:
        if line.strip() == marker:
            return
    raise ValueError(f"there is no line {marker}")


def _chunks(stream: TextIO, size: int) -> Iterator[list[str]]:
    while size > 0:
        lines = list(islice(stream, min(size, _CHUNK_LINES)))
        if not lines:
            raise ValueError("it is cut off")
        size -= len(lines)
        yield lines


def _chunk(lines: list[str], n: int, ids: dict[str, int]) -> tuple[I64, F64, F64]:
    """Ids int64 [g, n], log10 probabilities and back-off weights float64 [g] of lines of n-grams; words of unigrams become known."""
    fields = [line.rstrip("\r\n").split("\t") for line in lines]
    words = ["<unk>" if word == "<UNK>" else word for word in " ".join([row[1] for row in fields]).split(" ")]
    if n == 1:
        for word in words:
            ids.setdefault(word, len(ids))
    if len(words) != n * len(lines):
        raise ValueError(f"an n-gram among {lines[0]!r} and those behind it is not of {n} words")
    found = np.array([ids[word] for word in words], np.int64).reshape(len(lines), n)
    log_probs = np.array([row[0] for row in fields], np.float64)
    return found, log_probs, np.array([row[2] if len(row) > 2 else 0.0 for row in fields], np.float64)


def _all_words(unigrams: _Order, size: int) -> _Order:
    """One unigram for each word, by id."""
    if len(np.unique(unigrams.words)) != len(unigrams.words):
        raise ValueError("a word is there twice")
    log_probs, log_backoffs = np.full(size, _ABSENT_LOG_PROB), np.zeros(size)
    at = unigrams.words[:, 0]
    log_probs[at], log_backoffs[at] = unigrams.log_probs, unigrams.log_backoffs
    return _Order(np.arange(size, dtype=np.int64)[:, None], log_probs, log_backoffs)


def _closed(orders: list[_Order], size: int) -> list[_Order]:
    """The orders, each n-gram's first and last words among those one shorter, sorted."""
    closed = [order.sorted() for order in orders]
    for n in range(len(closed) - 1, 1, -1):
        longer, here = closed[n].words, closed[n - 1]
        parts = np.concatenate([longer[:, :-1], longer[:, 1:]])
        absent = np.unique(parts[~_member(parts, here.words, size)], axis=0)
        if len(absent):
            nothing = np.full(len(absent), np.nan)
            closed[n - 1] = _Order(
                np.concatenate([here.words, absent]),
                np.concatenate([here.log_probs, nothing]),
                np.concatenate([here.log_backoffs, np.zeros(len(absent))]),
            ).sorted()
    return closed


def _member(rows: I64, among: I64, size: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each row (int64 [r, n]) is one of others (int64 [g, n]): bool [r]."""
    found = _ranks(np.concatenate([among, rows]), size)
    return np.isin(found[len(among) :], found[: len(among)])


def _ranks(rows: I64, size: int) -> I64:
    """A number for each row, equal for equal rows and in their order: int64 [r]."""
    ranks = rows[:, 0]
    for column in rows.T[1:]:
        ranks = np.unique(ranks * size + column, return_inverse=True)[1]
    return ranks


def _assembled(words: list[str], orders: list[_Order]) -> TokenModel:
    """One numbering for all n-grams, and probabilities for those that were put in."""
    size = len(words)
    keys = [orders[0].words[:, 0]]  # of each order: number of the prefix among its own, times size, plus the last word; ascending
    parents = []
    firsts = np.concatenate([[0], np.cumsum([len(order.words) for order in orders])])
    for n, order in enumerate(orders[1:], start=2):
        prefix, suffix = _numbers(order.words[:, :-1], keys, size), _numbers(order.words[:, 1:], keys, size)
        keys.append(prefix * size + order.words[:, -1])
        parents.append(firsts[n - 2] + prefix)
        lower, put_in = orders[n - 2], np.isnan(order.log_probs)
        order.log_probs[put_in] = lower.log_backoffs[prefix[put_in]] + lower.log_probs[suffix[put_in]]
    parent = np.concatenate([np.zeros(0, np.int64), *parents])
    return TokenModel(
        order=len(orders),
        words=pa.array(words, pa.large_string()),
        starts=(size + np.searchsorted(parent, np.arange(firsts[-1] + 1))).astype(np.int32),
        tokens=np.concatenate([order.words[:, -1] for order in orders]).astype(np.int32),
        log_probs=np.concatenate([order.log_probs for order in orders]).astype(np.float32),
        log_backoffs=np.concatenate([order.log_backoffs for order in orders]).astype(np.float32),
    )


def _numbers(rows: I64, keys: list[I64], size: int) -> I64:
    """Number of each n-gram (int64 [r, n]) among those of its length: int64 [r]. All are there."""
    found = rows[:, 0]
    for known, column in zip(keys[1:], rows.T[1:], strict=False):
        found = np.searchsorted(known, found * size + column)
    return found
