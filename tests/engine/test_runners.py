"""Which processes do the work: those that the settings name, and where they leave it open, none for a few rows."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dataplane.engine.rows import RowsTask
from dataplane.engine.runners import FEW_BYTES, FEW_ROWS, runner
from dataplane.engine.units import Unit
from dataplane.settings import Settings

HERE = "in this process"
AWAY = "in workers"


def process(_: int) -> int:
    return os.getpid()


class Heavy(RowsTask):
    """Rows of so many bytes in all."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, work: Any) -> Any:
        return os.getpid()

    def new_bytes(self, works: Sequence[Any]) -> int:
        return self.size * len(works)

    def parts(self, inputs: Sequence[Any]) -> list[Unit]:
        raise NotImplementedError

    def make(self, rows: Any) -> Iterator[Any]:
        raise NotImplementedError


def place(workers: int, rows: list[int | None]) -> str:
    settings = Settings.parse({"workers": workers}, where="test")
    units = [Unit(str(i), i, n) for i, n in enumerate(rows)]
    done = dict(runner(settings, Path())(process, units, list(range(len(units)))))
    assert done.keys() == set(range(len(units)))
    return HERE if set(done.values()) == {os.getpid()} else AWAY


@pytest.mark.parametrize(
    ("workers", "rows", "expected"),
    [
        (0, [FEW_ROWS - 1, 1], HERE),
        (0, [FEW_ROWS, 1], AWAY),
        (0, [1, None], AWAY),
        (0, [None], HERE),  # one unit needs no other process
        (2, [1, 1], AWAY),
        (1, [FEW_ROWS, FEW_ROWS], HERE),
    ],
)
def test_workers_start_where_they_are_asked_for_or_have_much_to_do(
    workers: int, rows: list[int | None], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert place(workers, rows) == expected


@pytest.mark.parametrize(("size", "expected"), [(FEW_BYTES // 2, HERE), (FEW_BYTES // 2 + 1, AWAY)])
def test_few_rows_of_many_bytes_are_much_to_do(size: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    settings = Settings.parse({"workers": 0}, where="test")
    done = dict(runner(settings, Path())(Heavy(size), [Unit(str(i), i, 2) for i in range(2)], [0, 1]))
    assert (HERE if set(done.values()) == {os.getpid()} else AWAY) == expected
