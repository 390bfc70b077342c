"""How far annotators agree, beyond what chance would give: Cohen's and Fleiss' kappa, Krippendorff's alpha.

Source: Cohen 1960, doi:10.1177/001316446002000104; Cohen 1968, doi:10.1037/h0026256 (weighted); Fleiss, Cohen, Everitt 1969,
doi:10.1037/h0028106 (standard error); Fleiss 1971, doi:10.1037/h0031619; Krippendorff 2004, Content Analysis, 2nd edition, chapter 11.
A value that is not defined, because chance alone would give full agreement, is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dataplane.corpus.ratings import MISSING, Ratings

F64 = npt.NDArray[np.float64]
Weights = Literal["none", "linear", "quadratic"]
Level = Literal["nominal", "ordinal", "interval"]


def agreement(ratings: Ratings) -> dict[str, Any]:
    """Every measure that the labels allow.

    Weighted kappa and the ordinal alpha need labels in an order, the interval alpha labels that are numbers.

    Args:
        ratings: Who gave what which label.
    """
    n_labels = len(ratings.labels)
    counts = label_counts(ratings.codes, n_labels)
    pairs = [_pair(ratings, a, b) for a, b in combinations(range(len(ratings.annotators)), 2)]
    kappas = [pair["kappa"] for pair in pairs if pair["kappa"] is not None]
    return {
        "items": len(ratings.codes),
        "ratings": int(counts.sum()),
        "annotators": {name: int((column != MISSING).sum()) for name, column in zip(ratings.annotators, ratings.codes.T, strict=True)},
        "labels": {name: int(count) for name, count in zip(ratings.labels, counts.sum(axis=0), strict=True)},
        "pairs": pairs,
        "mean_kappa": float(np.mean(kappas)) if kappas else None,
        "fleiss": _fleiss_report(counts, ratings.labels),
        "krippendorff": {level: krippendorff_alpha(counts, level, ratings.values) for level in _levels(ratings)},
    }


def _levels(ratings: Ratings) -> list[Level]:
    levels: list[Level] = ["nominal"]
    return levels + (["ordinal"] if ratings.ordered else []) + (["interval"] if ratings.values is not None else [])


def label_counts(codes: npt.NDArray[np.int64], n_labels: int) -> F64:
    """How often each item got each label: float64 [items, n_labels], out of codes int64 [items, annotators]."""
    items = np.repeat(np.arange(len(codes)), codes.shape[1])
    flat = codes.ravel()
    counts = np.zeros((len(codes), n_labels))
    np.add.at(counts, (items[flat != MISSING], flat[flat != MISSING]), 1)
    return counts


def _pair(ratings: Ratings, a: int, b: int) -> dict[str, Any]:
    """Two annotators over the items that both have labelled."""
    table = crosstab(ratings.codes[:, a], ratings.codes[:, b], len(ratings.labels))
    kappa, error = cohen_kappa(table)
    n_items = int(table.sum())
    weighted = {weights: cohen_kappa(table, weights)[0] for weights in ("linear", "quadratic")} if ratings.ordered else {}
    return {
        "annotators": [ratings.annotators[a], ratings.annotators[b]],
        "items": n_items,
        "agreement": float(np.trace(table) / n_items) if n_items else None,
        "kappa": kappa,
        "standard_error": error,
        **weighted,
    }


def crosstab(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], n_labels: int) -> F64:
    """Items by the labels of both annotators: float64 [n_labels, n_labels], out of codes int64 [items] each."""
    both = (a != MISSING) & (b != MISSING)
    table = np.zeros((n_labels, n_labels))
    np.add.at(table, (a[both], b[both]), 1)
    return table


def cohen_kappa(table: F64, weights: Weights = "none") -> tuple[float | None, float | None]:
    """Cohen's kappa and its standard error.

    Args:
        table: Items by the labels of both annotators, float64 [labels, labels].
        weights: How disagreement counts: all alike, by distance of the labels, or by its square.
    """
    n = table.sum()
    if not n:
        return None, None
    p = table / n
    w = _agreement_weights(len(table), weights)
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    observed, expected = (w * p).sum(), rows @ w @ columns
    if np.isclose(expected, 1):
        return None, None
    kappa = (observed - expected) / (1 - expected)
    spread = w - (w @ columns)[:, None] * (1 - kappa) - (rows @ w)[None, :] * (1 - kappa)
    variance = ((p * spread**2).sum() - (kappa - expected * (1 - kappa)) ** 2) / (n * (1 - expected) ** 2)
    return float(kappa), float(np.sqrt(max(0.0, variance)))


def _agreement_weights(n_labels: int, weights: Weights) -> F64:
    places = np.arange(n_labels)
    distance = np.abs(places[:, None] - places[None, :]).astype(np.float64)
    share = np.minimum(distance, 1) if weights == "none" else distance / max(1, n_labels - 1)
    result: F64 = 1 - share ** (2 if weights == "quadratic" else 1)
    return result


def fleiss_kappa(counts: F64) -> float | None:
    """Fleiss' kappa.

    Args:
        counts: How often each item got each label, float64 [items, labels]; every item has as many ratings, two or more.
    """
    n = counts[0].sum() if len(counts) else 0
    if n < 2:
        return None
    observed = (((counts**2).sum(axis=1) - n) / (n * (n - 1))).mean()
    expected = ((counts.sum(axis=0) / counts.sum()) ** 2).sum()
    return None if np.isclose(expected, 1) else float((observed - expected) / (1 - expected))


def _fleiss_report(counts: F64, labels: Sequence[str]) -> dict[str, Any]:
    """Fleiss' kappa over the items with the most common number of ratings, all together and label against label."""
    per_item = counts.sum(axis=1)
    common = Counter(int(n) for n in per_item if n >= 2).most_common(1)
    if not common:
        return {"items": 0, "ratings_per_item": None, "kappa": None, "by_label": {}}
    usual = counts[per_item == common[0][0]]
    against_rest = (np.stack([usual[:, i], common[0][0] - usual[:, i]], axis=1) for i in range(len(labels)))
    return {
        "items": len(usual),
        "ratings_per_item": common[0][0],
        "kappa": fleiss_kappa(usual),
        "by_label": {label: fleiss_kappa(two) for label, two in zip(labels, against_rest, strict=True)},
    }


def krippendorff_alpha(counts: F64, level: Level = "nominal", values: Sequence[float] | None = None) -> float | None:
    """Krippendorff's alpha, for any number of ratings an item.

    Args:
        counts: How often each item got each label, float64 [items, labels].
        level: What the labels are: names, places in an order, or numbers.
        values: The numbers of an interval level.
    """
    usable = counts[counts.sum(axis=1) >= 2]
    if not len(usable):
        return None
    pairs = usable.sum(axis=1, keepdims=True) - 1
    coincidences = (usable / pairs).T @ usable - np.diag((usable / pairs).sum(axis=0))
    totals = coincidences.sum(axis=1)
    difference = _differences(totals, level, values)
    expected = totals @ difference @ totals
    if np.isclose(expected, 0):
        return None
    return float(1 - (totals.sum() - 1) * (coincidences * difference).sum() / expected)


def _differences(totals: F64, level: Level, values: Sequence[float] | None) -> F64:
    """Squared difference of each two labels: float64 [labels, labels]."""
    if level == "nominal":
        return 1 - np.eye(len(totals))
    # The place of a label in an order is the middle of the ratings that have it.
    places = np.cumsum(totals) - totals / 2 if level == "ordinal" else np.asarray(values, np.float64)
    result: F64 = (places[:, None] - places[None, :]) ** 2
    return result
