"""A linear classifier over hashed character n-grams and words as it is used: text to features to probabilities, and its file.

Text is folded first (case, width, accents; digits read as "0", runs of white space as one space; invisible characters are
left out), so that what a model learnt in one spelling counts in the others. Features are the n-grams of one to `char_n`
characters, white space and punctuation among them, and the words and pairs of words of scripts that have spaces. Each is
hashed into one of 2^bits buckets, counts once in a document, and weighs 1 / sqrt(features of the document), so that
long texts weigh no more than short ones.

Source: Weinberger et al. 2009, "Feature hashing for large scale multitask learning" (arXiv:0902.2206).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import ModelMissing
from dataplane.kernels.unicode import BOUNDS, CJK, DIGIT, FOLDS, I32, I64, OCTETS, WORD, classes, decode, fold_table, text_buffers
from dataplane.kernels.unicode import SPACE as WHITE

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

FORMAT = 1  # of the file; a file of another format is trained again
_TYPES = {"header": "uint8", "weights": "float32", "biases": "float64", "slopes": "float64", "offsets": "float64"}

_SPACE = ord(" ")
_PRIME = np.uint64(0x9E3779B185EBCA87)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_OF_WORDS = np.uint64(0x165667B19E3779F9)  # start of a word's hash: a word is not the n-gram of the same letters
_WEIGHTS = nb.types.Array(nb.float32, 2, "C", readonly=True)


@dataclass(frozen=True)
class Features:
    """How text becomes features; part of a model.

    Attributes:
        bits: Base-2 logarithm of the number of buckets.
        char_n: Characters of the longest n-gram.
        word_n: Words of the longest word n-gram: 0, 1 or 2.
        max_chars: Characters of a document that are read.
    """

    bits: int = 20
    char_n: int = 4
    word_n: int = 2
    max_chars: int = 10_000

    def faults(self) -> list[str]:
        """What is out of range."""
        bounds = {"bits": (8, 26), "char_n": (1, 8), "word_n": (0, 2), "max_chars": (1, 1 << 30)}
        return [f"{name} is not within {low} and {high}" for name, (low, high) in bounds.items() if not low <= getattr(self, name) <= high]


@lru_cache
def letters_table() -> I32:
    """What each code point is read as: int32 [0x110000], -1 where it is left out."""
    kinds, table = classes(), fold_table().copy()
    separators = np.flatnonzero(table == 0).astype(np.int32)
    wide = (separators > 0xFF00) & (separators < 0xFF5F)
    table[separators] = np.where(wide, separators - 0xFEE0, separators)
    table[(kinds & WHITE) != 0] = _SPACE
    table[(kinds & DIGIT) != 0] = ord("0")
    table.flags.writeable = False
    return table


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, FOLDS, nb.int32[::1]), cache=True, nogil=True)
def _read(data, start, stop, folds, letters):  # type: ignore[no-untyped-def]
    """Folds ``data[start:stop]`` into `letters`, a space before and behind; returns how many there are."""
    letters[0] = _SPACE
    n = 1
    at = start
    while at < stop and n < len(letters) - 1:
        code, at = decode(data, at, stop)
        folded = folds[code]
        if folded < 0 or (folded == _SPACE and letters[n - 1] == _SPACE):
            continue
        letters[n] = folded
        n += 1
    if letters[n - 1] != _SPACE:
        letters[n] = _SPACE
        n += 1
    return n


@nb.njit(nb.uint64(nb.uint64, nb.int32), inline="always", cache=True, nogil=True)
def _step(h, code):  # type: ignore[no-untyped-def]
    h = (h ^ np.uint64(code)) * _PRIME
    return h ^ (h >> np.uint64(32))


@nb.njit(nb.int64(nb.int32[::1], nb.int64, OCTETS, nb.int64, nb.int64, nb.int64, nb.uint32[::1], nb.int64[:, ::1]), cache=True, nogil=True)
def _emit(letters, n, table, bits, char_n, word_n, buckets, places):  # type: ignore[no-untyped-def]
    """The features of ``letters[:n]``, repeated as they occur.

    Args:
        letters, n: Folded characters.
        table: `classes()`
        bits, char_n, word_n: As in `Features`.
        buckets: Filled with the bucket of each.
        places: int64 [room, 2], filled with the first letter of each and the one after its last; of no length to leave it.

    Returns:
        How many there are.
    """
    shift = np.uint64(64 - bits)
    told = len(places) > 0
    k = 0
    word, before = _OF_WORDS, np.uint64(0)
    begun, begun_before = nb.int64(-1), nb.int64(0)
    for i in range(n):
        h = _PRIME
        for m in range(min(char_n, n - i)):
            h = _step(h, letters[i + m])
            buckets[k] = (h * _MIX) >> shift
            if told:
                places[k, 0], places[k, 1] = i, i + m + 1
            k += 1
        kind = table[letters[i]]
        if kind & WORD and not kind & CJK:
            if begun < 0:
                begun, word = i, _OF_WORDS
            word = _step(word, letters[i])
            continue
        if begun >= 0 and word_n > 0:
            buckets[k] = (word * _MIX) >> shift
            if told:
                places[k, 0], places[k, 1] = begun, i
            k += 1
            if word_n > 1 and before != 0:
                buckets[k] = ((before * _PRIME ^ word) * _MIX) >> shift
                if told:
                    places[k, 0], places[k, 1] = begun_before, i
                k += 1
            before, begun_before = word, begun
        if kind & CJK:
            before = np.uint64(0)
        begun = nb.int64(-1)
    return k


@nb.njit(nb.int64(nb.uint32[::1], nb.int64, nb.int32[::1], nb.int32), cache=True, nogil=True)
def _distinct(buckets, n, stamps, stamp):  # type: ignore[no-untyped-def]
    """Moves the first of each bucket to the front; `stamps` (int32 [2^bits]) marks what this document has."""
    k = 0
    for i in range(n):
        bucket = buckets[i]
        if stamps[bucket] != stamp:
            stamps[bucket] = stamp
            buckets[k] = bucket
            k += 1
    return k


@nb.njit(
    nb.void(OCTETS, BOUNDS, FOLDS, OCTETS, nb.int64, nb.int64, nb.int64, nb.int64, _WEIGHTS, nb.float64[:, ::1]), cache=True, nogil=True
)  # fmt: skip
def _score(data, offsets, folds, table, bits, char_n, word_n, room, weights, out):  # type: ignore[no-untyped-def]
    """Adds the weighted features of each text to ``out`` (float64 [n, labels])."""
    letters = np.empty(room + 2, np.int32)
    buckets = np.empty((room + 2) * (char_n + 2), np.uint32)
    stamps = np.zeros(1 << bits, np.int32)
    nowhere = np.empty((0, 2), np.int64)
    for i in range(len(offsets) - 1):
        n = _read(data, offsets[i], offsets[i + 1], folds, letters)
        k = _distinct(buckets, _emit(letters, n, table, bits, char_n, word_n, buckets, nowhere), stamps, np.int32(i + 1))
        scale = 1.0 / np.sqrt(k)
        for label in range(weights.shape[1]):
            total = 0.0
            for j in range(k):
                total += weights[buckets[j], label]
            out[i, label] += total * scale


@nb.njit(
    nb.types.Tuple((nb.uint32[::1], nb.int64[::1]))(OCTETS, BOUNDS, FOLDS, OCTETS, nb.int64, nb.int64, nb.int64, nb.int64),
    cache=True, nogil=True,
)  # fmt: skip
def _matrix(data, offsets, folds, table, bits, char_n, word_n, room):  # type: ignore[no-untyped-def]
    letters = np.empty(room + 2, np.int32)
    buckets = np.empty((room + 2) * (char_n + 2), np.uint32)
    stamps = np.zeros(1 << bits, np.int32)
    nowhere = np.empty((0, 2), np.int64)
    out = np.empty(1 << 16, np.uint32)
    bounds = np.zeros(len(offsets), np.int64)
    for i in range(len(offsets) - 1):
        n = _read(data, offsets[i], offsets[i + 1], folds, letters)
        k = _distinct(buckets, _emit(letters, n, table, bits, char_n, word_n, buckets, nowhere), stamps, np.int32(i + 1))
        filled = bounds[i]
        if filled + k > len(out):
            grown = np.empty(2 * (filled + k), np.uint32)
            grown[:filled] = out[:filled]
            out = grown
        out[filled : filled + k] = buckets[:k]
        bounds[i + 1] = filled + k
    return out[: bounds[-1]].copy(), bounds


def matrix(text: pa.Array, features: Features) -> tuple[npt.NDArray[np.uint32], I64]:
    """The features of each text.

    Args:
        text: string or large_string [n]; null reads as empty.
        features: How to read it.

    Returns:
        uint32 [total] buckets, distinct within each text, and int64 [n + 1] where each text's lie.
    """
    data, offsets = text_buffers(text)
    return _matrix(data, offsets, letters_table(), classes(), *_sizes(features, offsets))  # type: ignore[no-any-return]


def spelled(text: str, features: Features) -> tuple[npt.NDArray[np.uint32], list[str]]:
    """The bucket and the folded spelling of every feature of one text, repeated as they occur."""
    data, offsets = text_buffers(pa.array([text], pa.large_string()))
    bits, char_n, word_n, room = _sizes(features, offsets)
    letters = np.empty(room + 2, np.int32)
    buckets = np.empty((room + 2) * (char_n + 2), np.uint32)
    places = np.empty((len(buckets), 2), np.int64)
    n = _read(data, 0, len(data), letters_table(), letters)
    k = _emit(letters, n, classes(), bits, char_n, word_n, buckets, places)
    read = "".join(map(chr, letters[:n]))
    return buckets[:k], [read[start:stop] for start, stop in places[:k].tolist()]


def _sizes(features: Features, offsets: I64) -> tuple[int, int, int, int]:
    room = min(features.max_chars, int(np.diff(offsets).max(initial=0)))
    return features.bits, features.char_n, features.word_n, room


@dataclass(frozen=True)
class Model:
    """A trained model: one binary classifier for each label, over the same features.

    Attributes:
        features: How text is read.
        labels: What each classifier tells from the rest.
        weights: float32 [2^bits, labels]
        biases: float64 [labels]
        slopes, offsets: float64 [labels], calibration: probability = 1 / (1 + exp(-(slope * margin + offset))).
    """

    features: Features
    labels: tuple[str, ...]
    weights: F32
    biases: F64
    slopes: F64
    offsets: F64

    def margins(self, text: pa.Array) -> F64:
        """Decision values, float64 [n, labels]; those above 0 are more probable than not before calibration."""
        data, offsets = text_buffers(text)
        out = np.tile(self.biases, (len(offsets) - 1, 1))
        _score(data, offsets, letters_table(), classes(), *_sizes(self.features, offsets), self.weights, out)
        return out

    def probabilities(self, text: pa.Array) -> F64:
        """Calibrated probability of each label, float64 [n, labels].

        Args:
            text: string or large_string [n]; null reads as empty.
        """
        return probability(self.margins(text) * self.slopes + self.offsets)

    def save(self, path: Path) -> None:
        """Writes arrays only, no pickles: equal models give equal bytes."""
        header = json.dumps({"format": FORMAT, "labels": self.labels, "features": asdict(self.features)}).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            np.savez_compressed(
                stream,
                header=np.frombuffer(header, np.uint8),
                weights=self.weights,
                biases=self.biases,
                slopes=self.slopes,
                offsets=self.offsets,
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
            header = json.loads(found.pop("header").tobytes())
            features = Features(**header["features"])
            labels = tuple(header["labels"])
        except FileNotFoundError:
            raise ModelMissing(f"{path} does not exist", where="linear model", fix=_FIX) from None
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise _damaged(path, str(error)) from error
        faults = _faults(header, features, labels, found)
        if faults:
            raise _damaged(path, ", ".join(faults))
        return cls(features, labels, **found)


_FIX = "train it with `dataplane train-quality` or `dataplane train-toxicity`"


def probability(logit: F64) -> F64:
    """The logistic function, without overflow."""
    small = np.exp(-np.abs(logit))
    return np.asarray(np.where(logit >= 0, 1.0, small) / (1.0 + small))


def _damaged(path: Path, why: str) -> ModelMissing:
    return ModelMissing(f"{path} is no linear model of this version: {why}", where="linear model", fix=_FIX)


def _faults(header: Mapping[str, Any], features: Features, labels: tuple[str, ...], arrays: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """What is wrong with a file's content, which the kernels read without looking."""
    faults = [] if header["format"] == FORMAT else ["another format"]
    faults += features.faults()
    shapes = {name: (len(labels),) for name in arrays} | {"weights": (1 << min(features.bits, 26), len(labels))}
    for name, array in arrays.items():
        if array.dtype != _TYPES[name] or array.shape != shapes[name]:
            faults.append(f"{name} is {array.dtype} {array.shape}, expected {_TYPES[name]} {shapes[name]}")
        elif not np.isfinite(array).all():
            faults.append(f"{name} holds what is no number")
    return faults
