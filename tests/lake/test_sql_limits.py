"""Questions are cut: by their time, by their memory, by Ctrl-C; what spills does so in a private folder that goes away."""

import gc
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from dataplane.errors import DataError, UsageError
from dataplane.lake.limits import LimitedConnection, Watch
from dataplane.lake.sql import answering, ask, private_connection

# Over before its first row, or never done with its rows.
ENDLESS = {
    "before_the_first_row": "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 7",
    "between_rows": "SELECT a.range FROM range(100000000) a, range(100000) b",
    "asleep": "SELECT pg_sleep(100)",
}


@pytest.mark.parametrize("query", ENDLESS.values(), ids=ENDLESS)
def test_a_question_is_cut_after_its_time(query: str) -> None:
    connection, started = private_connection(), time.monotonic()
    with pytest.raises(DataError, match=r"cut after 0\.2 s.*\n.*--timeout"), answering(connection, query, timeout=0.2) as answer:
        for _ in answer.batches:
            pass
    assert 0.2 <= time.monotonic() - started < 5
    assert ask(connection, "SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_the_time_that_a_reader_takes_is_not_counted() -> None:
    with answering(private_connection(), "FROM range(40000)", timeout=0.5) as answer:
        rows = []
        for batch in answer.batches:
            time.sleep(0.25)
            rows += batch.column(0).to_pylist()
    assert rows == list(range(40000))


def test_a_question_is_cut_at_its_memory() -> None:
    with pytest.raises(DataError, match=r"Out of Memory(.|\n)*--memory"):
        ask(private_connection("40MB"), "SELECT list(range) FROM range(100000000)")


@pytest.mark.parametrize("memory", ["lots", "", "-1GB"])
def test_a_memory_limit_that_is_none_is_named(memory: str) -> None:
    with pytest.raises(UsageError, match="--memory 2GB"):
        private_connection(memory)


def test_ctrl_c_interrupts_a_question() -> None:
    connection = private_connection()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ask(connection, ENDLESS["before_the_first_row"])
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert ask(connection, "SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_errors_of_the_work_come_through() -> None:
    with pytest.raises(TimeoutError, match="mine"):
        Watch(private_connection(), 5).call(lambda: (_ for _ in ()).throw(TimeoutError("mine")))


SPILLING = "SELECT count(*) AS n FROM (SELECT DISTINCT hash(range), range::VARCHAR || 'x' FROM range(2000000))"


def spill_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("terraplane-sql-*"))


def test_what_spills_does_so_in_a_private_folder_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    connection = private_connection("60MB")
    (folder,) = spill_folders()
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.005):
            seen.update(path.name for path in folder.iterdir())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        assert ask(connection, SPILLING).to_pylist() == [{"n": 2000000}]
    finally:
        done.set()
        watcher.join()
    assert {name.partition("_")[0] for name in seen} == {"duckdb"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(Path().iterdir()) == []
    del connection
    gc.collect()
    assert spill_folders() == set()


def test_the_spill_folder_goes_when_the_program_ends(tmp_path: Path) -> None:
    code = "from dataplane.lake.sql import private_connection; connection = private_connection()"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []


def test_every_call_of_a_limited_connection_is_cut() -> None:
    raw = private_connection()
    connection = LimitedConnection(raw, raw, 0.2)
    for call in (
        lambda: connection.execute(ENDLESS["before_the_first_row"]).fetchall(),
        lambda: connection.sql(ENDLESS["before_the_first_row"]).fetchall(),
        lambda: connection.sql(ENDLESS["between_rows"]).filter("range > 1").to_arrow_reader().read_all(),
        lambda: repr(connection.sql(ENDLESS["before_the_first_row"])),
    ):
        with pytest.raises(DataError, match=r"cut after 0\.2 s"):
            call()
    assert connection.sql("FROM range(5)").filter("range > 2").fetchall() == [(3,), (4,)]
