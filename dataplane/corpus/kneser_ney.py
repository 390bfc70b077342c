"""Interpolated modified Kneser-Ney estimation over arrays: counts of n-grams, discounts, probabilities, back-off weights.

Source: Chen and Goodman 1998 (TR-10-98, Harvard), section 3; Heafield et al. 2013 (ACL P13-2121), sections 3.2 to 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dataplane.kernels.ngram_lm import BOS

Mask = npt.NDArray[np.bool_]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# Discounts for counts 1, 2 and 3 or more where a small corpus has too few counts of counts. Source: KenLM's lmplz.
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
_PRUNED_FROM = 3  # characters; shorter n-grams are all kept


@dataclass
class Order:
    """All n-grams of one length, sorted by (prefix, token); `g` of them.

    Attributes:
        prefix: Place of the n-gram without its last character among those one shorter, int64 [g].
        suffix: The same without its first character, int64 [g].
        token: Its last character, int64 [g].
        count: Occurrences, int64 [g].
        adjusted: Occurrences (longest n-grams and those at the start of a text), or else how many different
            characters come before it, int64 [g].
        kept: Whether it is in the model, bool [g].
        prob: p(token | prefix), float64 [g].
        backoff: Weight of shorter n-grams behind it, float64 [g].
    """

    prefix: I64
    suffix: I64
    token: I64
    count: I64
    starts_text: Mask
    adjusted: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    kept: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    prob: F64 = field(default_factory=lambda: np.zeros(0))
    backoff: F64 = field(default_factory=lambda: np.zeros(0))


def count_orders(ids: I32, places: I32, size: int, order: int) -> list[Order]:
    """Counts all n-grams up to `order` characters.

    Args:
        ids: Characters of all texts, BOS before each, int32 [t].
        places: Place of each in its text, int32 [t].
        size: Of the vocabulary.
    """
    tokens = np.arange(size, dtype=np.int64)
    nothing = np.zeros(size, np.int64)
    orders = [Order(nothing, nothing, tokens, np.bincount(ids, minlength=size), tokens == BOS)]
    ends = ids.astype(np.int64)  # by position: place, among those of its length, of the n-gram that ends there
    for n in range(2, order + 1):
        valid = np.flatnonzero(places >= n - 1)
        keys, first, inverse, count = np.unique(
            ends[valid - 1] * size + ids[valid], return_index=True, return_inverse=True, return_counts=True
        )
        prefix = keys // size
        orders.append(Order(prefix, ends[valid[first]], keys % size, count, orders[-1].starts_text[prefix]))
        longer = np.full(len(ids), -1, np.int64)
        longer[valid] = inverse
        ends = longer
    return orders


def estimate(orders: list[Order], prune_below: int) -> None:
    """Fills in `adjusted`, `kept`, `prob` and `backoff` of every order."""
    for n, order in enumerate(orders, start=1):
        order.adjusted = order.count if n == len(orders) else _adjusted(order, orders[n])
        order.kept = order.count >= prune_below if n >= _PRUNED_FROM else np.ones(len(order.count), np.bool_)
    orders[0].adjusted = np.where(orders[0].token == BOS, 0, orders[0].adjusted)  # BOS is given, never predicted
    for n, order in enumerate(orders, start=1):
        share, left = _discounted(order, 1 if n == 1 else len(orders[n - 2].count))
        if n == 1:
            uniform = np.where(order.token == BOS, 0.0, 1 / (len(order.token) - 1))
            order.prob = share + left[0] * uniform
        else:
            orders[n - 2].backoff = left
            order.prob = share + left[order.prefix] * orders[n - 2].prob[order.suffix]
        order.backoff = np.ones(len(order.count))


def _adjusted(order: Order, longer: Order) -> I64:
    """How many different characters come before each n-gram; at the start of a text, occurrences."""
    before = np.bincount(longer.suffix, minlength=len(order.count))
    return np.where(order.starts_text, order.count, before)


def _discounted(order: Order, n_contexts: int) -> tuple[F64, F64]:
    """Discounted share of each n-gram in its context, float64 [g], and what is left over in each, float64 [contexts]."""
    total = np.bincount(order.prefix, weights=order.adjusted, minlength=n_contexts)
    taken = discounts(order.adjusted)[np.minimum(order.adjusted, 3)]
    share = np.where(order.kept, (order.adjusted - taken) / np.maximum(total[order.prefix], 1), 0.0)
    lost = np.where(order.kept, taken, order.adjusted)
    left = np.bincount(order.prefix, weights=lost, minlength=n_contexts)
    return share, np.where(total > 0, left / np.maximum(total, 1), 1.0)


def discounts(adjusted: I64) -> F64:
    """What is taken off a count of 0, 1, 2, and 3 or more: float64 [4]."""
    return from_counts_of_counts([int((adjusted == k).sum()) for k in range(5)])


def from_counts_of_counts(t: Sequence[int]) -> F64:
    """What is taken off a count of 0, 1, 2, and 3 or more: float64 [4].

    Source: Chen and Goodman 1998, equation 26. Like KenLM's lmplz, it falls back where a count of 1, 2 or 3 does not occur, or where a
    discount is out of range.

    Args:
        t: How many n-grams have the count 0, 1, 2, 3 and 4.
    """
    if min(t[1:4]) > 0:
        y = t[1] / (t[1] + 2 * t[2])
        found = [k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3)]
        if all(0 <= d <= k for k, d in zip((1, 2, 3), found, strict=True)):
            return np.array([0.0, *found])
    return np.array([0.0, *FALLBACK_DISCOUNTS])
