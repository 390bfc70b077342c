"""Bins of the kernels against the plain algorithms, and what holds for every packing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.kernels.packing import best_fit_decreasing, cut, decreasing, first_fit_decreasing, group

LENGTHS = st.integers(1, 40).flatmap(lambda c: st.tuples(st.just(c), st.lists(st.integers(1, c), max_size=80)))


def best_fit_by_definition(lengths: list[int], capacity: int) -> list[int]:
    """Longest first, into the least room that is enough; of equal rooms into the bin touched last."""
    bins, room, touched = [-1] * len(lengths), [], []
    for turn, item in enumerate(sorted(range(len(lengths)), key=lambda i: -lengths[i])):
        fits = [b for b in range(len(room)) if room[b] >= lengths[item]]
        if not fits:
            room.append(capacity)
            touched.append(turn)
            fits = [len(room) - 1]
        chosen = min(fits, key=lambda b: (room[b], -touched[b]))
        bins[item] = chosen
        room[chosen] -= lengths[item]
        touched[chosen] = turn
    return bins


def first_fit_by_definition(lengths: list[int], capacity: int) -> list[int]:
    bins, room = [-1] * len(lengths), []
    for item in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        chosen = next((b for b in range(len(room)) if room[b] >= lengths[item]), len(room))
        if chosen == len(room):
            room.append(capacity)
        bins[item] = chosen
        room[chosen] -= lengths[item]
    return bins


@given(LENGTHS)
def test_best_fit_gives_the_bins_of_the_plain_algorithm(case: tuple[int, list[int]]) -> None:
    capacity, lengths = case
    bins, n_bins = best_fit_decreasing(np.array(lengths, np.int64), capacity)
    expected = best_fit_by_definition(lengths, capacity)
    assert (bins.tolist(), n_bins) == (expected, max(expected, default=-1) + 1)


@given(LENGTHS)
def test_first_fit_gives_the_bins_of_the_plain_algorithm(case: tuple[int, list[int]]) -> None:
    capacity, lengths = case
    bins, n_bins = first_fit_decreasing(np.array(lengths, np.int64), capacity)
    expected = first_fit_by_definition(lengths, capacity)
    assert (bins.tolist(), n_bins) == (expected, max(expected, default=-1) + 1)


@given(LENGTHS)
def test_decreasing_is_a_stable_sort(case: tuple[int, list[int]]) -> None:
    capacity, lengths = case
    assert decreasing(np.array(lengths, np.int64), capacity).tolist() == sorted(range(len(lengths)), key=lambda i: -lengths[i])


@given(st.lists(st.integers(1, 100), max_size=30), st.integers(2, 20))
def test_cut_gives_full_pieces_and_a_remainder(lengths: list[int], capacity: int) -> None:
    pieces = [array.tolist() for array in cut(np.array(lengths, np.int64), capacity)]
    expected = [(i, at, min(capacity, n - at)) for i, n in enumerate(lengths) for at in range(0, n, capacity)]
    assert list(zip(*pieces, strict=True)) == expected


@given(st.lists(st.integers(0, 9), max_size=50))
def test_group_lists_items_by_bin(bins: list[int]) -> None:
    order, bounds = group(np.array(bins, np.int64), 10)
    assert [order[bounds[b] : bounds[b + 1]].tolist() for b in range(10)] == [[i for i, x in enumerate(bins) if x == b] for b in range(10)]


@pytest.mark.parametrize("pack", [best_fit_decreasing, first_fit_decreasing])
def test_a_million_documents_leave_under_a_thousandth_of_padding(pack: object) -> None:
    lengths = np.minimum(np.random.default_rng(0).lognormal(5, 1, 1_000_000).astype(np.int64) + 1, 2048)
    _, n_bins = pack(lengths, 2048)  # type: ignore[operator]
    assert 0 <= 1 - lengths.sum() / (n_bins * 2048) < 0.001
