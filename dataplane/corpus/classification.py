"""How good probabilities are that a document has a label: ranking, decisions, calibration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

CALIBRATION_BINS = 10


def measure(probabilities: F64, positive: Bools) -> dict[str, float]:
    """The measurements that reports carry.

    Args:
        probabilities: float64 [n]
        positive: bool [n]

    Returns:
        auc; precision, recall, f1 and accuracy at probability 0.5; best_f1 and best_threshold; brier and calibration_error
    """
    threshold, best = best_f1(probabilities, positive)
    measured = {
        "auc": auc(probabilities, positive),
        **decisions(probabilities >= 0.5, positive),
        "best_f1": best,
        "best_threshold": threshold,
        "brier": float(np.mean((probabilities - positive) ** 2)),
        "calibration_error": calibration_error(probabilities, positive),
    }
    return {name: round(value, 4) for name, value in measured.items()}


def auc(scores: F64, positive: Bools) -> float:
    """Probability that a positive document scores above a negative one, ties counting half."""
    order, counts = np.unique(scores, return_inverse=True, return_counts=True)[1:]
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[order]
    n = int(positive.sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2) / max(1, n * (len(positive) - n)))


def decisions(decided: Bools, positive: Bools) -> dict[str, float]:
    """Precision, recall, f1 and accuracy of yes-or-no decisions; 0 where nothing is divided by nothing."""
    hits = int((decided & positive).sum())
    precision = hits / max(1, int(decided.sum()))
    recall = hits / max(1, int(positive.sum()))
    f1 = 2 * hits / max(1, int(decided.sum()) + int(positive.sum()))
    return {"precision": precision, "recall": recall, "f1": f1, "accuracy": float(np.mean(decided == positive))}


def best_f1(scores: F64, positive: Bools) -> tuple[float, float]:
    """The threshold with the highest F1, and that F1."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(positive[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + positive.sum())
    # A threshold cannot part equal scores.
    f1[:-1][scores[order][1:] == scores[order][:-1]] = -1.0
    at = int(np.argmax(f1))
    return float(scores[order][at]), float(f1[at])


def calibration_error(probabilities: F64, positive: Bools) -> float:
    """Expected calibration error: mean gap between probability and frequency over equal-width bins, by their documents."""
    bins = np.minimum((probabilities * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, probabilities - positive, CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(positive))
