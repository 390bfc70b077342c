"""Training of the linear classifier that quality and toxicity are scored with: cross-validation, calibration, the final fit.

Each label has a classifier of its own, so that a document may have several. Documents are put into folds by the hash of
their letters: copies of one text never stand on both sides. The margins that the folds' models give to documents they have not
seen are what the measurements are made on, and what the calibration is fitted to.

Source of the calibration: Platt 1999, "Probabilistic outputs for support vector machines", with its smoothed targets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.corpus.classification import measure
from dataplane.errors import DataError
from dataplane.kernels.linear_model import F64, Features, Model, matrix, probability, spelled
from dataplane.kernels.logistic import Sparse, fit
from dataplane.kernels.unicode import I64, letter_hashes
from dataplane.params import Params

Bools = npt.NDArray[np.bool_]

MIN_EXAMPLES = 10  # of each side of a label
REPORTED_FEATURES = 25  # each way
SPELLED_TEXTS = 2_000  # that are searched for the spelling of a bucket, of each side
PLATT_STEPS = 50


class TrainParams(Params):
    """How a classifier is trained."""

    bits: int = Field(20, ge=8, le=26, description="Base-2 logarithm of the number of buckets that features are hashed into.")
    char_n: int = Field(4, ge=1, le=8, description="Characters of the longest n-gram.")
    word_n: int = Field(2, ge=0, le=2, description="Words of the longest word n-gram; 0 takes none.")
    max_chars: int = Field(10_000, ge=1, le=1 << 30, description="Characters of a document that are read.")
    c: float = Field(8.0, gt=0, description="What fitting the documents counts against small weights.")
    folds: int = Field(5, ge=2, le=20, description="Parts of the cross-validation.")

    def features(self) -> Features:
        """The part that is kept in the model."""
        return Features(self.bits, self.char_n, self.word_n, self.max_chars)


@dataclass(frozen=True)
class Labelled:
    """Documents and what is known of them.

    Attributes:
        text: large_string [n]
        labels: What there is to tell.
        has: bool [n, labels]
    """

    text: pa.Array
    labels: tuple[str, ...]
    has: Bools


def train(data: Labelled, params: TrainParams) -> tuple[Model, dict[str, Any]]:
    """Trains a model and says how good it is.

    Returns:
        The model, and a report: documents, params, and for each label the cross-validated measurements and the features with the
        largest weights.

    Raises:
        DataError: A label has too few documents on a side.
    """
    check(data)
    features = params.features()
    documents = Sparse(*matrix(data.text, features), 1 << features.bits)
    folds = fold_of(data.text, params.folds)
    fitted = [_label(documents, data.has[:, i], folds, params.c) for i in range(len(data.labels))]
    weights = np.stack([one.weights[:-1] for one in fitted], axis=1).astype(np.float32)
    biases, slopes, offsets = (np.array(column) for column in zip(*[(f.weights[-1], f.slope, f.offset) for f in fitted], strict=True))
    model = Model(features, data.labels, np.ascontiguousarray(weights), biases, slopes, offsets)
    return model, _report(data, params, model, [one.measured for one in fitted])


def fold_of(text: pa.Array, folds: int) -> I64:
    """The fold of each document, int64 [n]: equal texts, and those that differ by case or punctuation, share one."""
    return np.asarray(letter_hashes(text)[:, 0] % np.uint64(folds), np.int64)


@dataclass(frozen=True)
class _Fitted:
    weights: F64
    slope: float
    offset: float
    measured: dict[str, Any]


def _label(documents: Sparse, positive: Bools, folds: I64, c: float) -> _Fitted:
    margins = out_of_fold(documents, positive, folds, c)
    slope, offset = platt(margins, positive)
    return _Fitted(fit(documents, positive, c), slope, offset, measure(probability(slope * margins + offset), positive))


def out_of_fold(documents: Sparse, positive: Bools, folds: I64, c: float) -> F64:
    """The margin of each document under a model that has not seen its fold: float64 [n]."""
    margins = np.zeros(len(documents))
    for fold in np.unique(folds):
        inside = folds == fold
        weights = fit(documents.take(np.flatnonzero(~inside)), positive[~inside], c)
        margins[inside] = documents.take(np.flatnonzero(inside)).times(weights)
    return margins


def platt(margins: F64, positive: Bools) -> tuple[float, float]:
    """Slope and offset that make a probability of a margin, by Newton's method on the likelihood of smoothed targets."""
    n = int(positive.sum())
    targets = np.where(positive, (n + 1) / (n + 2), 1 / (len(positive) - n + 2))
    design = np.stack([margins, np.ones_like(margins)], axis=1)
    at = np.zeros(2)
    for _ in range(PLATT_STEPS):
        p = probability(design @ at)
        hessian = design.T @ (design * np.maximum(p * (1 - p), 1e-12)[:, None]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, design.T @ (p - targets))
        # A full step may overshoot where the sides lie far apart.
        at -= step * min(1.0, 5.0 / max(1e-12, float(np.abs(step).max())))
        if np.abs(step).max() < 1e-9:
            break
    return float(at[0]), float(at[1])


def check(data: Labelled) -> None:
    """That there is enough to learn from.

    Raises:
        DataError: A label has too few documents on a side.
    """
    faults = []
    for i, label in enumerate(data.labels):
        n = int(data.has[:, i].sum())
        if min(n, len(data.has) - n) < MIN_EXAMPLES:
            faults.append(f"label {label!r} has {n} documents of {len(data.has)}")
    if faults or not data.labels:
        message = "; ".join(faults) or "there is no label"
        fix = f"give at least {MIN_EXAMPLES} documents that have each label and as many that do not"
        raise DataError(message, where="training of a linear model", fix=fix)


def _report(data: Labelled, params: TrainParams, model: Model, measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rows = {
        label: {"documents": int(data.has[:, i].sum()), "cross_validated": measured[i], **top_features(data, model, i)}
        for i, label in enumerate(model.labels)
    }
    return {"documents": len(data.has), "params": params.model_dump(mode="json"), "labels": rows}


def top_features(data: Labelled, model: Model, label: int) -> dict[str, list[dict[str, Any]]]:
    """The features with the largest weights for and against a label, by the spelling that is most frequent in the documents.

    Args:
        data: What the model was trained on; its first documents of each side are searched.
        model: The model.
        label: Which of its labels.
    """
    weights = model.weights[:, label]
    order = np.argsort(weights, kind="stable")
    sides = {"for": order[::-1][: 4 * REPORTED_FEATURES], "against": order[: 4 * REPORTED_FEATURES]}
    spellings = {
        "for": _spellings(data, data.has[:, label], model, sides["for"]),
        "against": _spellings(data, ~data.has[:, label], model, sides["against"]),
    }
    return {side: _listed(weights, buckets, spellings[side]) for side, buckets in sides.items()}


def _spellings(data: Labelled, rows: Bools, model: Model, buckets: I64) -> dict[int, Counter[str]]:
    wanted = np.zeros(len(model.weights), np.bool_)
    wanted[buckets] = True
    found: dict[int, Counter[str]] = {}
    for text in data.text.take(pa.array(np.flatnonzero(rows)[:SPELLED_TEXTS])).to_pylist():
        read, names = spelled(text or "", model.features)
        for i in np.flatnonzero(wanted[read]).tolist():
            found.setdefault(int(read[i]), Counter())[names[i]] += 1
    return found


def _listed(weights: npt.NDArray[np.float32], buckets: I64, spellings: dict[int, Counter[str]]) -> list[dict[str, Any]]:
    rows = [
        {"feature": spellings[bucket].most_common(1)[0][0], "weight": round(float(weights[bucket]), 4)}
        for bucket in buckets.tolist()
        if bucket in spellings
    ]
    return rows[:REPORTED_FEATURES]
