"""A stage's run: its record, its books, its lock, and resuming after a kill."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from filelock import FileLock

from dataplane import lockfile
from dataplane.engine.tables import TableTask
from dataplane.engine.units import Unit
from dataplane.errors import AccountingError, DataError, LakeBusy, ParamsError, PluginError
from dataplane.lineage.record import StageRun
from dataplane.snapshot import Snapshot

SCHEMA = pa.schema([("n", pa.int64())])


def records(root: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in (root / "lake" / "runs").glob("*.json")]


@pytest.fixture
def ready(project: Path) -> Path:
    (project / "params.yaml").write_text("x: {a: 1, b: {c: [2]}}\n")
    return project


def test_a_finished_run_says_what_it_read_and_wrote(ready: Path) -> None:
    with StageRun("first", params=("x.b",)) as run:
        run.write("numbers", SCHEMA, [pa.record_batch({"n": [1, 2]}, schema=SCHEMA)])
        run.account(rows_in=3, kept=2, dropped=1)
        run.metrics({"more": 7})
    with StageRun("second", inputs=("numbers",)) as run:
        assert run.inputs["numbers"].to_table()["n"].to_pylist() == [1, 2]
    digest = Snapshot.load("numbers", ready).digest
    by_stage = {record["stage"]: record for record in records(ready)}
    first, second = by_stage["first"], by_stage["second"]
    assert (first["status"], first["outputs"], first["params"]) == ("COMPLETE", {"numbers": digest}, {"x.b": {"c": [2]}})
    assert first["rows"] == {"in": 3, "kept": 2, "dropped": 1, "quarantined": 0}
    assert (second["inputs"], second["error"]) == ({"numbers": digest}, None)
    assert json.loads((ready / "metrics" / "first.json").read_text()) == {"rows": first["rows"], "more": 7}


def test_books_that_do_not_add_up_fail_the_run_and_write_no_metrics(ready: Path) -> None:
    with pytest.raises(AccountingError, match="10 rows in, but 5 kept"), StageRun("s") as run:
        run.account(rows_in=10, kept=5, dropped=3, quarantined=1)
    assert [(record["status"], record["error"].split(":")[0]) for record in records(ready)] == [("FAIL", "AccountingError")]
    assert not (ready / "metrics").exists()


def test_a_second_run_at_once_is_told_so(ready: Path) -> None:
    (ready / "journal").mkdir()
    with FileLock(ready / "journal" / "s.lock"), pytest.raises(LakeBusy, match="another run of stage 's'"):
        StageRun("s").__enter__()


def test_missing_params_and_inputs_are_named(ready: Path) -> None:
    with pytest.raises(ParamsError, match=r"no 'x\.z'"), StageRun("s", params=("x.z",)):
        pass
    with pytest.raises(DataError, match="'numbers' is not there yet"), StageRun("s", inputs=("numbers",)):
        pass


def test_a_stage_refuses_code_that_the_lock_does_not_name(ready: Path) -> None:
    lock = json.loads((ready / lockfile.FILE).read_text())
    lock["code"]["dataplane"] = "0" * 32
    (ready / lockfile.FILE).write_text(json.dumps(lock))
    with pytest.raises(PluginError, match=r"code\.dataplane") as error, StageRun("s"):
        pass
    assert "dataplane plugins lock" in error.value.fix


KILLED = textwrap.dedent("""
    import os, signal, sys
    import pyarrow as pa
    from dataplane.engine.tables import TableTask
    from dataplane.engine.units import Unit
    from dataplane.lineage.record import StageRun

    SCHEMA = pa.schema([("n", pa.int64())])

    class Numbers(TableTask):
        def run(self, unit):
            with open("work.txt", "a") as stream:
                stream.write(f"{unit}\\n")
            if unit == int(sys.argv[1]):
                os.kill(os.getpid(), signal.SIGKILL)
            yield "numbers", pa.record_batch({"n": [unit, unit]}, schema=SCHEMA)

    with StageRun("s") as run:
        run.map(Numbers(run.root, {"numbers": SCHEMA}), [Unit(str(i), i) for i in range(4)], run.journal())
""")


def test_a_killed_run_resumes_and_gives_the_undisturbed_digest(ready: Path) -> None:
    (ready / "stage.py").write_text(KILLED)
    command = [sys.executable, "stage.py"]
    killed = subprocess.run([*command, "2"], check=False, env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    subprocess.run([*command, "-1"], check=True, env=os.environ)
    assert (ready / "work.txt").read_text().split() == ["0", "1", "2", "2", "3"]
    resumed = Snapshot.load("numbers", ready)
    subprocess.run([*command, "-1"], check=True, env=os.environ)
    assert Snapshot.load("numbers", ready).digest == resumed.digest
    assert resumed.to_table()["n"].to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(list(Path(resumed.uri, "data").iterdir())) == 4
    assert sorted(record["status"] for record in records(ready)) == ["COMPLETE", "COMPLETE", "RUNNING"]


class Numbers(TableTask):
    def run(self, unit: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        self.counts["run"] += 1
        yield "numbers", pa.record_batch({"n": [unit, unit]}, schema=SCHEMA)


@pytest.mark.parametrize("lake_format", ["lance", "parquet"])
def test_what_gave_an_older_content_under_a_new_identity_is_not_done_again(
    ready: Path, lake_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERRAPLANE_LAKE_FORMAT", lake_format)

    def done(identity: str, numbers: range) -> int:
        with StageRun("s") as run:
            run.map(Numbers(run.root, {"numbers": SCHEMA}), [Unit(str(i), i) for i in numbers], run.journal(code=identity))
        return int(max(records(ready), key=lambda record: record["started_at"])["effort"]["done"])

    assert done("old", range(4)) == 4
    assert done("new", range(4)) == 4
    assert done("new", range(4)) == 0
    assert done("new", range(5)) == 1
    assert Snapshot.load("numbers", ready).to_table()["n"].to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
