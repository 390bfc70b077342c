"""L2-regularised logistic regression over binary sparse features, by Newton's method with conjugate gradients.

The objective is ``|w|^2 / 2 + C * sum log(1 + exp(-y (x w + b)))`` (the bias is not penalised), which has one minimum: the
result depends on neither a seed nor the order of the documents, but for rounding. scikit-learn's `LogisticRegression` has the
same minimum, which the tests hold this against; it is not used because a stage that trains must run where the package is
installed, and it would be the package's heaviest dependency for these lines.

Source: Lin, Weng and Keerthi 2008, "Trust region Newton method for large-scale logistic regression", with a line search in
the place of the trust region.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt

from dataplane.kernels.linear_model import F64, probability
from dataplane.kernels.unicode import BOUNDS, I64

U32 = npt.NDArray[np.uint32]

_BUCKETS = nb.types.Array(nb.uint32, 1, "C", readonly=True)
_VALUES = nb.types.Array(nb.float64, 1, "C", readonly=True)

MAX_NEWTON_STEPS = 30
MAX_CG_STEPS = 30
TOLERANCE = 1e-3  # of the gradient's length, relative to that at the start
CG_TOLERANCE = 0.1
SUFFICIENT_DECREASE = 1e-4
MAX_HALVINGS = 20


@dataclass(frozen=True)
class Sparse:
    """Documents by features; every feature of a document has the value 1 / sqrt(features of the document).

    Attributes:
        buckets: uint32 [total], features of all documents, distinct within each.
        bounds: int64 [n + 1], where each document's lie.
        width: Number of features there can be.
    """

    buckets: U32
    bounds: I64
    width: int

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def take(self, rows: I64) -> Sparse:
        """The named documents, in that order."""
        lengths = np.diff(self.bounds)[rows]
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        index = np.repeat(self.bounds[rows] - bounds[:-1], lengths) + np.arange(bounds[-1])
        return Sparse(self.buckets[index], bounds, self.width)

    def times(self, weights: F64) -> F64:
        """float64 [n]: the documents times float64 [width] weights and a bias in `weights[width]`."""
        out = np.empty(len(self))
        _times(self.buckets, self.bounds, weights, out)
        return out

    def transposed_times(self, values: F64) -> F64:
        """float64 [width + 1]: features times float64 [n] values of documents; the last is the bias's, their sum."""
        out = np.zeros(self.width + 1)
        _transposed_times(self.buckets, self.bounds, values, out)
        return out


@nb.njit(nb.void(_BUCKETS, BOUNDS, _VALUES, nb.float64[::1]), cache=True, nogil=True)
def _times(buckets, bounds, weights, out):  # type: ignore[no-untyped-def]
    for i in range(len(bounds) - 1):
        total = 0.0
        for k in range(bounds[i], bounds[i + 1]):
            total += weights[buckets[k]]
        out[i] = total / np.sqrt(max(1, bounds[i + 1] - bounds[i])) + weights[-1]


@nb.njit(nb.void(_BUCKETS, BOUNDS, _VALUES, nb.float64[::1]), cache=True, nogil=True)
def _transposed_times(buckets, bounds, values, out):  # type: ignore[no-untyped-def]
    for i in range(len(bounds) - 1):
        value = values[i] / np.sqrt(max(1, bounds[i + 1] - bounds[i]))
        for k in range(bounds[i], bounds[i + 1]):
            out[buckets[k]] += value
        out[-1] += values[i]


def fit(documents: Sparse, positive: npt.NDArray[np.bool_], c: float) -> F64:
    """The weights of the minimum.

    Args:
        documents: [n]
        positive: bool [n]
        c: What a document counts against the penalty.

    Returns:
        float64 [width + 1], the bias last
    """
    weights = np.zeros(documents.width + 1)
    logits = documents.times(weights)
    limit = 0.0
    for step in range(MAX_NEWTON_STEPS):
        p = probability(logits)
        gradient = _penalised(weights) + c * documents.transposed_times(p - positive)
        length = float(np.linalg.norm(gradient))
        limit = TOLERANCE * length if step == 0 else limit
        if length <= limit:
            break
        direction = _solve(documents, c * np.maximum(p * (1 - p), 1e-12), gradient)
        moved = documents.times(direction)
        size = _line_search(weights, direction, logits, moved, positive, c, float(gradient @ direction))
        if size == 0:
            break
        weights += size * direction
        logits += size * moved
    return weights


def _penalised(weights: F64) -> F64:
    out = weights.copy()
    out[-1] = 0.0
    return out


def _solve(documents: Sparse, curvature: F64, gradient: F64) -> F64:
    """Newton's direction: conjugate gradients on the Hessian ``I + X' D X``, `curvature` being D's diagonal."""
    direction = np.zeros_like(gradient)
    residual = -gradient
    search = residual.copy()
    square = float(residual @ residual)
    goal = CG_TOLERANCE**2 * square
    for _ in range(MAX_CG_STEPS):
        bent = _penalised(search) + documents.transposed_times(curvature * documents.times(search))
        size = square / float(search @ bent)
        direction += size * search
        residual -= size * bent
        before, square = square, float(residual @ residual)
        if square <= goal:
            break
        search = residual + (square / before) * search
    return direction


def _line_search(
    weights: F64, direction: F64, logits: F64, moved: F64, positive: npt.NDArray[np.bool_], c: float, slope: float
) -> float:  # fmt: skip
    """A step that lowers the objective enough, 0 where none does."""
    start = _objective(weights, logits, positive, c)
    size = 1.0
    for _ in range(MAX_HALVINGS):
        if _objective(weights + size * direction, logits + size * moved, positive, c) <= start + SUFFICIENT_DECREASE * size * slope:
            return size
        size /= 2
    return 0.0


def _objective(weights: F64, logits: F64, positive: npt.NDArray[np.bool_], c: float) -> float:
    signed = np.where(positive, logits, -logits)
    return float(weights[:-1] @ weights[:-1]) / 2 + c * float(np.logaddexp(0.0, -signed).sum())
