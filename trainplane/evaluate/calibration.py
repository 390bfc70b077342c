"""How far a reward model's confidence can be believed: accuracy, reliability bins, expected calibration error, with intervals.

The probability that the first of two answers is better is sigmoid(first reward - second reward). The confidence of a pair is that of the
answer it puts first, between 1/2 and 1, and it is right where that answer is the chosen one.

Source: expected calibration error over equal bins, Guo et al. 2017, arXiv:1706.04599, section 2; Wilson's interval, Wilson 1927,
doi:10.1080/01621459.1927.10502953.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Z_95 = 1.959963984540054  # standard normal, two-sided 95 %


@dataclass(frozen=True)
class Bin:
    """Pairs of like confidence.

    Attributes:
        low: Least confidence.
        high: Highest confidence.
        n: Pairs.
        confidence: Their mean confidence; None without pairs.
        accuracy: Share of them that is right; None without pairs.
        accuracy_low: Lower end of its 95 % interval.
        accuracy_high: Upper end.
    """

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: float | None
    accuracy_low: float
    accuracy_high: float


def wilson(successes: int, n: int) -> tuple[float, float]:
    """95 % interval of a share; (0, 1) where nothing was seen."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = successes / n, Z_95**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def reliability(margins: Sequence[float], bins: int) -> list[Bin]:
    """Bins of equal width over the confidences from 1/2 to 1.

    Args:
        margins: Reward of the chosen answer less that of the rejected one, of each pair; a margin of 0 is wrong.
        bins: How many.
    """
    confidence, right = _confidence(np.asarray(margins, np.float64))
    place = _places(confidence, bins)
    edges = np.linspace(0.5, 1, bins + 1)
    return [_bin(float(edges[i]), float(edges[i + 1]), confidence[place == i], right[place == i]) for i in range(bins)]


def _bin(low: float, high: float, confidence: F64, right: F64) -> Bin:
    n, hits = len(right), int(right.sum())
    if not n:
        return Bin(low, high, 0, None, None, 0.0, 1.0)
    return Bin(low, high, n, float(confidence.mean()), hits / n, *wilson(hits, n))


def _confidence(margins: F64) -> tuple[F64, F64]:
    return 1 / (1 + np.exp(-np.abs(margins))), (margins > 0).astype(np.float64)


def _places(confidence: F64, bins: int) -> npt.NDArray[np.int64]:
    return np.minimum(((confidence - 0.5) * 2 * bins).astype(np.int64), bins - 1)


def calibration_error(margins: Sequence[float] | F64, bins: int) -> float:
    """Mean over the pairs of the distance between confidence and accuracy of their bin."""
    confidence, right = _confidence(np.asarray(margins, np.float64))
    gaps = np.bincount(_places(confidence, bins), weights=right - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(right))


def calibration(margins: Sequence[float], bins: int, *, seed: int, resamples: int = 2000) -> dict[str, Any]:
    """All figures of a reward model on pairs that it has not seen.

    Args:
        margins: As `reliability`; at least one.
        bins: How many.
        seed: Of the bootstrap of the calibration error.
        resamples: Of the bootstrap.
    """
    values, random = np.asarray(margins, np.float64), np.random.default_rng(seed)
    hits = int((values > 0).sum())
    drawn = [calibration_error(values[random.integers(0, len(values), len(values))], bins) for _ in range(resamples)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    accuracy_low, accuracy_high = wilson(hits, len(values))
    loss = float(np.logaddexp(0, -values).mean())
    return {
        "pairs": len(values), "accuracy": hits / len(values), "accuracy_low": accuracy_low, "accuracy_high": accuracy_high,
        "loss": loss, "calibration_error": calibration_error(values, bins), "calibration_error_low": float(low),
        "calibration_error_high": float(high), "reliability": [asdict(one) for one in reliability(margins, bins)],
    }  # fmt: skip
