"""The order of training: a permutation each epoch, a pure function of (seed, step), the same however it is cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainplane.data.order import Batches, epoch_of_step, permute, permute_back, places_of, sequences_at, sequences_of_step


@settings(max_examples=40)
@given(st.integers(1, 3000), st.integers(0, 2**40), st.integers(0, 50))
def test_each_epoch_is_a_permutation(n: int, seed: int, epoch: int) -> None:
    got = permute(np.arange(n), n, seed, epoch)
    assert sorted(got.tolist()) == list(range(n))


@settings(max_examples=25)
@given(st.integers(1, 500), st.integers(1, 64), st.integers(0, 5), st.integers(1, 40))
def test_steps_cover_the_epochs_in_turn(n: int, batch: int, seed: int, steps: int) -> None:
    seen = np.concatenate([sequences_of_step(seed, step, batch, n) for step in range(1, steps + 1)]).tolist()
    for epoch in range(len(seen) // n):
        assert sorted(seen[epoch * n : (epoch + 1) * n]) == list(range(n))
    rest = seen[len(seen) // n * n :]
    assert len(set(rest)) == len(rest)


@settings(max_examples=25)
@given(st.integers(1, 500), st.integers(0, 5), st.integers(1, 20))
def test_the_order_does_not_depend_on_the_batch(n: int, seed: int, steps: int) -> None:
    one_by_one = [int(sequences_of_step(seed, step, 1, n)[0]) for step in range(1, 6 * steps + 1)]
    in_sixes = np.concatenate([sequences_of_step(seed, step, 6, n) for step in range(1, steps + 1)]).tolist()
    assert one_by_one == in_sixes


def test_epochs_and_seeds_differ_and_a_far_step_is_found_at_once() -> None:
    orders = {tuple(permute(np.arange(200), 200, seed, epoch).tolist()) for seed in range(4) for epoch in range(4)}
    assert len(orders) == 16
    assert len(set(sequences_of_step(1, 10**12, 8, 10**9).tolist())) == 8


@pytest.mark.parametrize(("step", "epoch"), [(1, 0), (25, 0), (26, 1), (50, 1), (51, 2)])
def test_epoch_of_a_step(step: int, epoch: int) -> None:
    assert epoch_of_step(step, 4, 100) == epoch


def test_the_permutation_is_well_mixed() -> None:
    """Neighbours end far apart: the mean distance of a random permutation of n is n/3."""
    n = 10_000
    order = permute(np.arange(n), n, 3, 0)
    assert np.abs(np.diff(order)).mean() == pytest.approx(n / 3, rel=0.03)


@settings(max_examples=40)
@given(st.integers(1, 3000), st.integers(0, 2**40), st.integers(0, 50))
def test_the_way_back_is_the_inverse(n: int, seed: int, epoch: int) -> None:
    places = np.arange(n)
    assert permute_back(permute(places, n, seed, epoch), n, seed, epoch).tolist() == places.tolist()


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(0, 5), st.integers(0, 200), st.data())
def test_the_places_of_sequences_are_those_that_a_search_of_the_whole_order_finds(n: int, seed: int, end: int, data: st.DataObject) -> None:
    wanted = sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=5)))
    order = sequences_at(seed, 0, end, n).tolist()
    found = places_of(np.array(wanted, np.int64), seed, n, end)
    assert found.tolist() == [place for place, seq_id in enumerate(order) if seq_id in wanted]


def test_places_among_a_billion_sequences_are_found_at_once() -> None:
    wanted = np.array([0, 123_456_789, 10**9 - 1])
    places = places_of(wanted, 3, 10**9, 3 * 10**9)
    assert sorted(np.concatenate([sequences_at(3, int(place), 1, 10**9) for place in places]).tolist()) == sorted(wanted.tolist() * 3)


@settings(max_examples=60)
@given(st.integers(1, 9), st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), max_size=4), st.integers(1, 40))
def test_a_schedule_of_batches_is_what_counting_step_by_step_gives(usual: int, schedule: list[tuple[int, int]], step: int) -> None:
    batches = Batches.of(usual, schedule)
    sizes, now = [], usual
    for number in range(1, step + 1):
        now = dict(schedule).get(number, now)
        sizes.append(now)
    assert batches.size(step) == sizes[-1]
    assert [batches.before(number) for number in range(1, step + 2)] == [0, *np.cumsum(sizes).tolist()]
    steps = [number for number, size in enumerate(sizes, 1) for _ in range(size)]
    assert [batches.step_of(place) for place in range(len(steps))] == steps
