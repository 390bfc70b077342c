"""How far a score may be off: standard errors, and whether one model is better than another on the same items."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
MAX_GROUPS = 50


def mean(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error; NaN for one value."""
    n, middle = len(values), math.fsum(values) / len(values)
    if n < 2:
        return middle, math.nan
    return middle, math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (n - 1) / n)


def jackknife(n: int, measure: Callable[[list[int]], float]) -> float:
    """Standard error of any measure of a corpus: leaves out one group of items at a time, each item where there are few.

    Args:
        n: Items; NaN for one.
        measure: The value over the places it is given.

    Source: Efron 1982, The Jackknife, the Bootstrap and Other Resampling Plans, section 3.
    """
    m = min(n, MAX_GROUPS)
    if m < 2:
        return math.nan
    values = [measure([place for place in range(n) if place % m != left_out]) for left_out in range(m)]
    middle = math.fsum(values) / m
    return math.sqrt((m - 1) / m * math.fsum((value - middle) ** 2 for value in values))


@dataclass(frozen=True)
class Difference:
    """Of two models on the same items, second less first.

    Attributes:
        value: Difference of the means.
        standard_error: Standard deviation over the resamples.
        low: 2.5 % of the resamples are below.
        high: 2.5 % are above.
        p_value: Of no difference, two-sided.
    """

    value: float
    standard_error: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Superiority:
    """The chance that a value of one group is above one of the other.

    Attributes:
        value: 1/2 where the groups do not differ; ties count half. It is the area under the ROC curve.
        low: 2.5 % of the resamples are below.
        high: 2.5 % are above.
    """

    value: float
    low: float
    high: float


def superiority(better: Sequence[float], worse: Sequence[float], *, seed: int, resamples: int = 10_000) -> Superiority:
    """Draws each group's values with replacement.

    Args:
        better: Values of the group that should be above.
        worse: Of the other.
        seed: Of the drawing.
        resamples: How many.

    Source: Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747 (the area as a probability); bootstrap as in `paired_bootstrap`.
    """
    above = np.sign(np.subtract.outer(np.asarray(better, np.float64), np.asarray(worse, np.float64))) / 2 + 0.5
    random, (n, m) = np.random.default_rng(seed), above.shape
    rows, columns = random.multinomial(n, np.full(n, 1 / n), resamples), random.multinomial(m, np.full(m, 1 / m), resamples)
    drawn = ((rows @ above) * columns).sum(axis=1) / (n * m)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Superiority(float(above.mean()), float(low), float(high))


def paired_bootstrap(first: Sequence[float], second: Sequence[float], *, seed: int, resamples: int = 10_000) -> Difference:
    """Draws items with both models' values, so that what makes an item hard for both does not count.

    Args:
        first: Value of each item.
        second: The same items, by the other model.
        seed: Of the drawing.
        resamples: How many.

    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap; the p-value centres the resamples on 0, their section 16.4.
    """
    gains = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    return paired_ratio_bootstrap(gains * 0, gains, np.ones(len(gains)), seed=seed, resamples=resamples)


def paired_ratio_bootstrap(
    first: Sequence[float] | F64, second: Sequence[float] | F64, weights: Sequence[float] | F64, *, seed: int, resamples: int = 10_000
) -> Difference:
    """As `paired_bootstrap`, of means in which items weigh unalike: the loss a token, over answers of so many tokens.

    Args:
        first: Sum of each item.
        second: The same items, by the other model.
        weights: Of each item; the mean is the sum of the values over the sum of the weights.
        seed: Of the drawing.
        resamples: How many.
    """
    gains, weight = np.asarray(second, np.float64) - np.asarray(first, np.float64), np.asarray(weights, np.float64)
    random, n = np.random.default_rng(seed), len(gains)
    drawn = (random.integers(0, n, n) for _ in range(resamples))
    means = np.array([gains[places].sum() / weight[places].sum() for places in drawn])
    value = float(gains.sum() / weight.sum())
    beyond = int((np.abs(means - value) >= abs(value) - 1e-12).sum())
    low, high = np.percentile(means, [2.5, 97.5])
    return Difference(value, float(means.std(ddof=1)), float(low), float(high), (beyond + 1) / (resamples + 1))
