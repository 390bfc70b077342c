"""Who survives, against a sort by Python's tuples."""

import math
from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dataplane.corpus.survival import LONGEST, Criterion, survival_rank

IDS = pa.array(["d", "a", "c", "b"], pa.string())


def order(criteria: list[Criterion], **columns: pa.Array) -> list[str]:
    """The ids, best first."""
    rank = survival_rank(IDS, criteria, columns.__getitem__)
    return [doc_id for _, doc_id in sorted(zip(rank.tolist(), IDS.to_pylist(), strict=True))]


def test_the_smallest_id_is_the_last_word() -> None:
    assert order([]) == ["a", "b", "c", "d"]


def test_listed_values_come_in_their_order_and_the_others_after_them() -> None:
    source = pa.array(["web", "books", None, "wiki"])
    assert order([Criterion(by="source", prefer=["wiki", "web"])], source=source) == ["b", "d", "a", "c"]


def test_missing_values_come_last_whichever_end_is_preferred() -> None:
    score = pa.array([0.5, math.nan, None, 0.9])
    assert order([Criterion(by="score", prefer="highest")], score=score) == ["b", "d", "a", "c"]
    assert order([Criterion(by="score", prefer="lowest")], score=score) == ["d", "b", "a", "c"]


def test_the_oldest_is_the_lowest_time() -> None:
    times = [datetime(2020, month, 1, tzinfo=UTC) for month in (3, 2, 1)]
    fetched_at = pa.array([*times, None], pa.timestamp("us", tz="UTC"))
    assert order([Criterion(by="fetched_at", prefer="lowest")], fetched_at=fetched_at) == ["c", "a", "d", "b"]


def test_of_truth_values_true_is_the_highest() -> None:
    assert order([Criterion(by="good")], good=pa.array([False, None, True, True])) == ["b", "c", "d", "a"]


ROWS = st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0])), max_size=20)


@given(ROWS, st.randoms(use_true_random=False))
def test_ranks_are_those_of_sorted_tuples_whatever_the_order_of_rows(rows: list[tuple[str, int, float]], rng) -> None:
    named = [(f"{i:03}", *row) for i, row in enumerate(rows)]
    rng.shuffle(named)
    ids = pa.array([row[0] for row in named], pa.string())
    columns = {
        "source": pa.array([row[1] for row in named], pa.string()),
        "n_bytes": pa.array([row[2] for row in named], pa.int64()),
        "score": pa.array([row[3] for row in named], pa.float64()),
    }
    criteria = [Criterion(by="source", prefer=["y"]), Criterion(by="score", prefer="lowest"), LONGEST]
    rank = survival_rank(ids, criteria, columns.__getitem__)
    want = sorted(named, key=lambda row: (row[1] != "y", row[3], -row[2], row[0]))
    assert [doc_id for _, doc_id in sorted(zip(rank.tolist(), ids.to_pylist(), strict=True))] == [row[0] for row in want]
