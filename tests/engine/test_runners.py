"""Which processes do the work: those that the settings name, and where they leave it open, none for a few rows."""

import os
from pathlib import Path

import pytest

from dataplane.engine.runners import FEW_ROWS, runner
from dataplane.engine.units import Unit
from dataplane.settings import Settings

HERE = "in this process"
AWAY = "in workers"


def process(_: int) -> int:
    return os.getpid()


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
