"""The engine: order, workers, resume, and what a broken worker does."""

import functools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataplane.engine import local, mapping
from dataplane.engine.journal import Journal
from dataplane.engine.tables import Present, Result, TableTask
from dataplane.engine.units import Unit
from dataplane.errors import EnvironmentFault
from dataplane.snapshot import commit_parts

SCHEMA = pa.schema([("n", pa.int64())])


class Square:
    """Squares a number, and notes that it did, so that a test can count the work."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def __call__(self, unit: int) -> int:
        with self.notes.open("a") as stream:
            stream.write(f"{unit}\n")
        return unit * unit


class DieOnce(Square):
    """Kills its own worker the first time it meets unit 3."""

    def __call__(self, unit: int) -> int:
        marker = self.notes.with_name("died")
        if unit == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(unit)


class DieAlways(Square):
    """Kills its own worker whenever it meets unit 3."""

    def __call__(self, unit: int) -> int:
        if unit == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(unit)


class Numbers(TableTask):
    """Writes `unit` rows."""

    def run(self, unit: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        yield "numbers", pa.record_batch({"n": list(range(unit))}, schema=SCHEMA)


def run(task: Any, units: list[int], root: Path, workers: int, identity: str = "i") -> list[Any]:
    journal = Journal(root, "stage", identity)
    journal.begin()
    runner = functools.partial(local.run, workers=workers)
    return mapping.map(task, [Unit(str(unit), unit) for unit in units], run=runner, journal=journal, title="test").results


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_units(tmp_path: Path, workers: int) -> None:
    assert run(Square(tmp_path / "notes"), [4, 1, 3, 2], tmp_path, workers) == [16, 1, 9, 4]


def test_finished_units_are_not_done_again(tmp_path: Path) -> None:
    task = Square(tmp_path / "notes")
    Journal(tmp_path, "stage", "i").begin()
    Journal(tmp_path, "stage", "i").put("7", 49)
    assert run(task, [5, 7, 9], tmp_path, 1) == [25, 49, 81]
    assert (tmp_path / "notes").read_text().split() == ["5", "9"]


def test_another_identity_starts_again(tmp_path: Path) -> None:
    task = Square(tmp_path / "notes")
    run(task, [5], tmp_path, 1, "one")
    run(task, [5], tmp_path, 1, "two")
    assert (tmp_path / "notes").read_text().split() == ["5", "5"]


def test_the_last_few_identities_are_remembered_so_that_going_back_costs_nothing(tmp_path: Path) -> None:
    task = Square(tmp_path / "notes")
    for identity in ["a", "b", "c", "d", "e"]:
        run(task, [5], tmp_path, 1, identity)
    assert sorted(path.name for path in (tmp_path / "journal" / "stage").iterdir()) == ["b", "c", "d", "e"]
    run(task, [5], tmp_path, 1, "b")
    assert (tmp_path / "notes").read_text().split() == ["5"] * 5


def test_a_grown_input_costs_only_what_is_new(tmp_path: Path) -> None:
    task = Square(tmp_path / "notes")
    run(task, [5, 9], tmp_path, 1)
    assert run(task, [5, 7, 9], tmp_path, 1) == [25, 49, 81]
    assert (tmp_path / "notes").read_text().split() == ["5", "9", "7"]


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    assert run(DieOnce(tmp_path / "notes"), [1, 2, 3, 4], tmp_path, 2) == [1, 4, 9, 16]


def test_a_unit_that_always_kills_its_worker_ends_the_run_and_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"died 4 times.*2"):
        run(DieAlways(tmp_path / "notes"), [1, 2, 3], tmp_path, 2)


def test_tables_are_the_same_with_one_worker_and_with_two(tmp_path: Path) -> None:
    snapshots = []
    for workers in (1, 2):
        root = tmp_path / str(workers)
        task = Numbers(root, {"numbers": SCHEMA})
        results = run(task, [3, 0, 5], root, workers)
        snapshots.append(commit_parts("numbers", SCHEMA, [Result.parse(result).tables.get("numbers", []) for result in results], root))
    assert snapshots[0].digest == snapshots[1].digest
    assert [s.to_table()["n"].to_pylist() for s in snapshots] == [[0, 1, 2, 0, 1, 2, 3, 4]] * 2


def test_a_journaled_result_whose_files_are_gone_is_not_whole(tmp_path: Path) -> None:
    task = Numbers(tmp_path, {"numbers": SCHEMA})
    result = task(3)
    assert Present(tmp_path)(result)
    next((tmp_path / "lake" / "numbers.lance" / "data").iterdir()).unlink()
    assert not Present(tmp_path)(result)
