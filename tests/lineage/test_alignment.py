"""Tables that follow the documents are put beside them by one walk, and one that does not follow is found out."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.kernels.follow import follow, id_words
from dataplane.lineage import alignment
from dataplane.lineage.alignment import Follower, align
from dataplane.lineage.flips import known
from dataplane.lineage.thresholds import change
from dataplane.lineage.token_counts import UNKNOWN
from dataplane.snapshot import Snapshot
from dataplane.stages import select
from tests.lineage.random_documents import CODES, PARAMS, BruteForce, documents, write_params


class InMemory:
    """What a Follower reads of a table, in batches of a given size."""

    def __init__(self, doc_ids: Sequence[str], batch_rows: int) -> None:
        self.ids, self.batch_rows = list(doc_ids), batch_rows

    def batches(self, *_: object):  # type: ignore[no-untyped-def]
        for start in range(0, len(self.ids), self.batch_rows):
            yield pa.record_batch({"doc_id": pa.array(self.ids[start : start + self.batch_rows], pa.string())})


def walked(doc_ids: Sequence[str], rows: Sequence[str], id_rows: int, row_rows: int) -> tuple[list[tuple[str, int]], bool]:
    found: list[tuple[str, int]] = []

    def take(batch: pa.RecordBatch, places: np.ndarray) -> None:
        found.extend(zip(batch["doc_id"].to_pylist(), places.tolist(), strict=True))

    follower = Follower(InMemory(rows, row_rows), [], take)
    align(InMemory(doc_ids, id_rows), [follower])
    return found, follower.finished


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 7), st.integers(1, 7))
def test_each_row_gets_the_place_of_its_document_however_both_are_cut(copies: list[int], id_rows: int, row_rows: int) -> None:
    ids = CODES[: len(copies)]
    rows = [doc_id for doc_id, count in zip(ids, copies, strict=True) for _ in range(count)]
    assert walked(ids, rows, id_rows, row_rows) == ([(doc_id, ids.index(doc_id)) for doc_id in rows], True)


@pytest.mark.parametrize("rows", [[CODES[2], CODES[1]], [CODES[99], CODES[1]], ["short"], [CODES[3], CODES[3] + "0"]])
def test_rows_that_do_not_follow_are_found_out(rows: list[str]) -> None:
    assert walked(CODES[:5], rows, 3, 2)[1] is False


def test_ids_of_a_slice_are_read_where_the_slice_begins() -> None:
    ids = pa.array(["x", *CODES[:4]])
    assert id_words(ids) is None
    words, wanted, places = id_words(ids.slice(1)), id_words(pa.array(CODES[1:4:2])), np.zeros(2, np.int64)
    assert words is not None
    assert wanted is not None
    assert follow(words, 0, wanted, 0, 10, places) == (3, 2)
    assert places.tolist() == [11, 13]


@pytest.fixture
def small(project, put):  # type: ignore[no-untyped-def]
    write_params(project)
    put("documents", documents(project, 300))
    select.main()
    return project


def fails_of(question: str) -> list[bool] | None:
    snapshot = Snapshot.load("documents")
    fails = known(snapshot, snapshot.open(), change(question)).fails
    return None if fails is None else fails.tolist()


def test_the_books_of_select_say_who_fails_an_unchanged_rule(small) -> None:  # type: ignore[no-untyped-def]
    failed = BruteForce(small).fails
    unchanged = [any(rule != "language.low_confidence" for rule in failed.get(doc_id, [])) for doc_id in CODES[:300]]
    assert fails_of("language.min_score=0.9") == unchanged


def test_the_books_are_left_alone_where_they_are_about_something_else(small, put) -> None:  # type: ignore[no-untyped-def]
    write_params(small, PARAMS.replace("min_score: 0.5", "min_score: 0.6"))
    assert fails_of("language.min_score=0.9") is None
    write_params(small)
    put("documents", documents(small, 299))
    assert fails_of("language.min_score=0.9") is None


def test_books_that_cannot_tell_two_uses_apart_are_left_alone(small) -> None:  # type: ignore[no-untyped-def]
    write_params(small, PARAMS.replace("params: {min_words: 20}, when: kind = 'web'", "when: kind = 'web'"))
    select.main()
    assert fails_of("gopher_quality[0].min_words=90") is None
    assert fails_of("language.min_score=0.9") is not None


@pytest.mark.parametrize("order", [1, -1])
def test_tokens_are_found_in_any_order_and_beside_documents_that_are_gone(small, put, order: int) -> None:  # type: ignore[no-untyped-def]
    counts = {doc_id: i + 1 for i, doc_id in enumerate([CODES[700], *CODES[10:200:3]])}
    ids = list(counts)[::order]
    put("tokens", pa.table({"doc_id": ids, "n_tokens": [counts[doc_id] for doc_id in ids]}))
    snapshot = Snapshot.load("documents")
    found = known(snapshot, snapshot.open(), change("language.min_score=0.9")).counts
    assert found is not None
    assert found.tolist() == [counts.get(doc_id, UNKNOWN) for doc_id in CODES[:300]]


def test_batches_of_any_size_give_the_same(small, put, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    whole = fails_of("language.min_score=0.9")
    monkeypatch.setattr(alignment, "BATCH_ROWS", 7)
    assert fails_of("language.min_score=0.9") == whole
