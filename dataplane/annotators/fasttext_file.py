"""Reads a quantised fastText model file into the tables of `dataplane.kernels.fasttext`.

Source: the format of fastText 0.9.2 (version 12 of its files), as `FastText::loadModel` there reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dataplane.kernels.fasttext import EOS, Tables, huffman, kept_bits, word_slots

MAGIC, VERSION = 793712314, 12
_HIERARCHICAL, _SUPERVISED = 1, 3  # numbers of the loss and of the kind of model
_WORD = 0  # type of an entry; 1 is a label
_CENTROIDS = 256
_HEAD_BYTES = 64  # magic, version and what `_ARGS` and a float64 take
_ARGS = ("dim", "ws", "epoch", "min_count", "neg", "word_ngrams", "loss", "model", "bucket", "minn", "maxn", "rate")


class _Reader:
    """Values of a file, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def array(self, kind: str, n: int) -> Any:
        """n numbers of a type."""
        found = np.frombuffer(self._data, kind, n, self._at)
        self._at += found.nbytes
        return found

    def number(self, kind: str) -> Any:
        """One of them."""
        return self.array(kind, 1)[0].item()

    def text(self) -> bytes:
        """The bytes up to a NUL."""
        end = self._data.index(b"\0", self._at)
        found = self._data[self._at : end]
        self._at = end + 1
        return found


def read_tables(path: Path) -> tuple[Tables, list[str]] | None:
    """The model and the names of its labels; None where it is of a kind that only the library knows, or none at all.

    Read are supervised models with a hierarchical softmax whose rows are quantised and whose n-grams are pruned, as lid.176.ftz.
    """
    try:
        with path.open("rb") as file:
            start = file.read(_HEAD_BYTES)
            # Most models are of other kinds, some of gigabytes.
            return _tables(_Reader(start + file.read())) if _args(_Reader(start)) else None
    except (ValueError, IndexError):  # it ends too soon: the library says so too
        return None


def _args(file: _Reader) -> dict[str, int] | None:
    """How the model was trained; None where it is of a kind that is not read."""
    if (file.number("<i4"), file.number("<i4")) != (MAGIC, VERSION):
        return None
    args: dict[str, int] = dict(zip(_ARGS, file.array("<i4", len(_ARGS)).tolist(), strict=True))
    file.number("<f8")
    read = args["loss"] == _HIERARCHICAL and args["model"] == _SUPERVISED and args["word_ngrams"] == 1
    return args if read else None


def _tables(file: _Reader) -> tuple[Tables, list[str]] | None:
    args = _args(file)
    if args is None:
        return None
    words, labels, pruned = _dictionary(file)
    if pruned is None or not file.number("?"):
        return None
    rows = _quantised(file)
    if rows is None or file.number("?"):  # the output is quantised as well
        return None
    shape = file.array("<i8", 2).tolist()
    output = file.array("<f4", shape[0] * shape[1]).reshape(shape)
    bucket_rows = np.full(args["bucket"], -1, np.int32)
    bucket_rows[pruned[:, 0]] = pruned[:, 1]
    tables = Tables(
        rows=rows,
        words=np.frombuffer(b"".join(words), np.uint8),
        starts=np.cumsum([0, *map(len, words)], dtype=np.int64),
        slots=word_slots(words),
        kept=kept_bits(bucket_rows),
        bucket_rows=bucket_rows,
        shape=np.array([args["bucket"], args["minn"], args["maxn"]], np.int64),
        output=output[: len(labels) - 1].copy(),
        tree=huffman([count for _, count in labels]),
        end_of_line=words.index(EOS) if EOS in words else -1,
    )
    return tables, [name.decode() for name, _ in labels]


def _dictionary(file: _Reader) -> tuple[list[bytes], list[tuple[bytes, int]], Any]:
    """Words, labels with their counts, and int32 [m, 2] the rows of the n-grams that are kept, None where all are."""
    size, _, _ = file.array("<i4", 3).tolist()
    _, n_pruned = file.array("<i8", 2).tolist()
    words, labels = [], []
    for _ in range(size):
        name, count, kind = file.text(), file.number("<i8"), file.number("<i1")
        if kind == _WORD:
            words.append(name)
        else:
            labels.append((name, count))
    return words, labels, file.array("<i4", 2 * n_pruned).reshape(-1, 2) if n_pruned > 0 else None


def _quantised(file: _Reader) -> Any:
    """float32 [m, n] out of the codes of product quantisation, norms times directions where both are quantised."""
    with_norms = file.number("?")
    m, n = file.array("<i8", 2).tolist()
    codes = file.array("u1", file.number("<i4")).reshape(m, -1)
    directions = _unpacked(codes, *_centroids(file))
    if directions is None or directions.shape[1] != n:
        return None
    if not with_norms:
        return directions
    norms = _unpacked(file.array("u1", m).reshape(m, 1), *_centroids(file))
    return None if norms is None else np.ascontiguousarray(norms * directions)


def _centroids(file: _Reader) -> tuple[int, Any]:
    """How wide the last part is, and float32 [parts, centroids, width]."""
    dim, parts, width, last = file.array("<i4", 4).tolist()
    found = file.array("<f4", dim * _CENTROIDS)
    return last, found.reshape(parts, _CENTROIDS, width) if parts * width == dim else found.reshape(0, 0, 0)


def _unpacked(codes: Any, last: int, centroids: Any) -> Any:
    """The rows that the codes [m, parts] stand for; None where the parts are not of one width."""
    parts, _, width = centroids.shape
    if codes.shape[1] != parts or last != width:
        return None
    return centroids[np.arange(parts), codes].reshape(len(codes), -1)
