"""Rows that were made before are taken over: the work is that of the new ones, and the result that of a run from nothing."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.engine.journal import Journal
from dataplane.engine.rows import I64, WORKED_ON, Part, RowsTask, by_size, read_rows
from dataplane.engine.tables import Result
from dataplane.engine.units import Unit, ranges
from dataplane.snapshot import Snapshot, commit_parts, write_part

NUMBERS = pa.schema([("doc_id", pa.string()), ("n", pa.int64())])
COPIES = pa.schema([("doc_id", pa.string()), ("copy", pa.int64())])
UNIT_ROWS = 4


class Repeat(RowsTask):
    """Writes n rows for a number n, and one row for each number."""

    def __init__(self, root: Path, numbers: Snapshot) -> None:
        super().__init__(root, {"copies": COPIES, "seen": NUMBERS}, [numbers], ["doc_id", "n"])

    def parts(self, inputs: Sequence[Snapshot]) -> list[Unit]:
        return [Unit(unit.key, np.arange(unit.work[0], sum(unit.work))) for unit in ranges(inputs[0], UNIT_ROWS)]

    def make(self, rows: I64) -> Iterator[tuple[str, pa.RecordBatch]]:
        for batch in read_rows(self.inputs[0].open(), rows, ["doc_id", "n"], batch_rows=3):
            yield "seen", batch
            copies = [(row["doc_id"], i) for row in batch.to_pylist() for i in range(row["n"])]
            yield "copies", pa.RecordBatch.from_pylist([{"doc_id": key, "copy": i} for key, i in copies], schema=COPIES)


def put_numbers(root: Path, numbers: dict[str, int]) -> Snapshot:
    rows = pa.RecordBatch.from_pylist([{"doc_id": key, "n": n} for key, n in numbers.items()], schema=NUMBERS)
    return commit_parts("numbers", NUMBERS, [write_part("numbers", NUMBERS, [rows], root)], root)


def run(root: Path, numbers: dict[str, int]) -> tuple[int, dict[str, list[dict[str, object]]]]:
    """Rows that were worked on, and the rows of each table."""
    task = Repeat(root, put_numbers(root, numbers))
    journal = Journal(root, "repeat", "identity")
    journal.begin()
    results = []
    worked_on = 0
    for unit in task.units(journal):
        done = journal.get(unit.key)
        if done is None:
            done = task(unit.work)
            worked_on += done["counts"][WORKED_ON]
            journal.put(unit.key, done)
        results.append(Result.parse(done))
    written = {
        table: commit_parts(table, schema, [result.tables.get(table, []) for result in results], root)
        for table, schema in task.tables.items()
    }
    journal.note(task.made(written))
    return worked_on, {table: snapshot.to_table().to_pylist() for table, snapshot in written.items()}


def expected(numbers: dict[str, int]) -> dict[str, list[dict[str, object]]]:
    return {
        "copies": [{"doc_id": key, "copy": i} for key, n in numbers.items() for i in range(n)],
        "seen": [{"doc_id": key, "n": n} for key, n in numbers.items()],
    }


@pytest.fixture(params=["lance", "parquet"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERRAPLANE_LAKE_FORMAT", request.param)
    return tmp_path


FIRST = {f"doc{i}": i % 4 for i in range(11)}
CHANGES = {
    "one in the middle": ({**dict(list(FIRST.items())[:5]), "new": 3, **dict(list(FIRST.items())[5:])}, 1),
    "one gone": ({key: n for key, n in FIRST.items() if key != "doc6"}, 0),
    "one changed": (FIRST | {"doc6": 1}, 1),
    "another order, one changed": (dict(reversed(FIRST.items())) | {"doc6": 1}, 1),
    "all new": ({f"other{i}": 1 for i in range(6)}, 6),
    "nothing": ({}, 0),
    "the same": (FIRST, 0),
}


@pytest.mark.parametrize(("numbers", "new"), CHANGES.values(), ids=CHANGES)
def test_what_is_new_is_worked_on_and_the_rest_taken_over(root: Path, numbers: dict[str, int], new: int) -> None:
    assert run(root, FIRST) == (len(FIRST), expected(FIRST))
    assert run(root, numbers) == (new, expected(numbers))


@pytest.mark.parametrize("lost", ["numbers", "copies", "seen"])
def test_where_a_version_is_gone_the_work_is_done_again(root: Path, lost: str) -> None:
    from dataplane.snapshot import open_store

    run(root, FIRST)
    put_numbers(root, {})
    open_store(root).drop(lost, [v.digest for v in open_store(root).versions(lost) if not (lost == "numbers" and v.rows == 0)])
    numbers = FIRST | {"new": 2}
    worked_on, rows = run(root, numbers)
    assert (worked_on, rows) == (len(numbers), expected(numbers))


def test_a_fragment_that_is_not_what_was_written_is_not_taken_over(root: Path) -> None:
    _, first = run(root, FIRST)
    assert first == expected(FIRST)
    journal = Journal(root, "repeat", "identity")
    other = pa.RecordBatch.from_pylist([{"doc_id": key, "n": 99} for key in FIRST], schema=NUMBERS)
    wrong = [type(f)(f.data, f.rows, f"{1:032x}") for f in write_part("seen", NUMBERS, [other], root)]
    snapshot = commit_parts("seen", NUMBERS, [wrong], root)
    journal.note(journal.about() | {"tables": journal.about()["tables"] | {"seen": snapshot.digest}})
    numbers = FIRST | {"new": 2}
    worked_on, rows = run(root, numbers)
    assert (worked_on, rows) == (len(numbers), expected(numbers))


@pytest.fixture(scope="module")
def three_fragments(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    root = tmp_path_factory.mktemp("read_rows")
    parts = [pa.table({"doc_id": map(str, range(i, i + 100)), "n": range(i, i + 100)}, schema=NUMBERS) for i in (0, 100, 200)]
    return commit_parts("numbers", NUMBERS, [write_part("numbers", NUMBERS, part.to_batches(), root) for part in parts], root)


@given(st.sets(st.integers(0, 299)), st.integers(1, 50))
def test_rows_are_read_by_their_place_whether_they_lie_close_or_far(three_fragments: Snapshot, rows: set[int], size: int) -> None:
    batches = list(read_rows(three_fragments.open(), np.array(sorted(rows), np.int64), ["n"], size))
    assert [n for batch in batches for n in batch.column("n").to_pylist()] == sorted(rows)
    assert [len(batch) for batch in batches if not 0 < len(batch) <= size] == []


def test_a_part_without_earlier_rows_is_made_whole(root: Path) -> None:
    task = Repeat(root, put_numbers(root, FIRST))
    result = Result.parse(task(Part(np.arange(len(FIRST)))))
    assert result.counts == {WORKED_ON: len(FIRST)}


@given(st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=4), max_size=12))
def test_batches_are_joined_up_to_rows_or_bytes_and_never_lost_or_split(sizes: list[list[int]]) -> None:
    given_batches = [pa.record_batch({"text": pa.array(["x" * size for size in rows], pa.large_string())}) for rows in sizes]
    joined = list(by_size(given_batches, most_rows=6, most_bytes=500))
    starts = np.cumsum([0, *map(len, given_batches)])
    assert set(np.cumsum([0, *map(len, joined)])) <= set(starts)
    assert [value for batch in joined for value in batch.column(0).to_pylist()] == ["x" * size for rows in sizes for size in rows]
    whole = set(map(len, given_batches))
    assert [len(batch) for batch in joined if len(batch) > 6 and len(batch) not in whole] == []
    following = dict(zip(starts.tolist(), given_batches, strict=False))
    ends = np.cumsum([len(batch) for batch in joined])[:-1].tolist()
    for end, batch in zip(ends, joined, strict=False):
        assert len(batch) + len(following[end]) > 6 or batch.nbytes + following[end].nbytes > 500
