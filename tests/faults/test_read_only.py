"""A lake that may not be written: a run says so and ends with 3, and every question is still answered."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dataplane import cli
from dataplane.upkeep import versions
from tests.faults.small_stage import ROOT, intact, run

READ_ONLY_DIRECTORY, READ_ONLY_FILE = 0o555, 0o444


def protect(root: Path) -> None:
    """Nobody may write here, root without its special rights included."""
    for path in [root, *root.rglob("*")]:
        path.chmod(READ_ONLY_DIRECTORY if path.is_dir() else READ_ONLY_FILE)


@pytest.fixture
def read_only(project: Path) -> Iterator[Path]:
    """A project with one table, which then nobody may write."""
    (project / "params.yaml").write_text("{}\n")
    assert run(project, "numbers", 250)[0] == 0
    protect(project)
    yield project
    for path in [project, *project.rglob("*")]:
        path.chmod(0o755)


@pytest.mark.slow
def test_a_run_is_refused_and_breaks_nothing(read_only: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in read_only.rglob("*"))
    code, errors = run(read_only, "numbers", 300, "--powerless")
    assert (code, "Traceback" in errors) == (3, False), errors
    assert errors.startswith("error: "), errors
    assert "Permission denied\n  fix: make it writable for you" in errors
    assert sorted((path, path.stat().st_mtime_ns) for path in read_only.rglob("*")) == before
    assert intact(read_only, "numbers", 250)


READING = """
import sys
from dataplane.lake.sql import ask, connect
from dataplane.snapshot import Snapshot, open_store
from tests.faults.small_stage import powerless
powerless()
print(ask(connect(), "SELECT count(*) AS n, count(DISTINCT doc_id) AS ids FROM numbers").to_pylist())
print(Snapshot.load("numbers").take([249, 0], ["doc_id"]).to_pylist())
print(len(open_store().versions("numbers")))
from dataplane.upkeep.verify import verify
print(verify())
"""


@pytest.mark.slow
def test_questions_are_answered(read_only: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", READING],
        cwd=read_only, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    wanted = [[{"n": 250, "ids": 250}], [{"doc_id": f"{249:032x}"}, {"doc_id": f"{0:032x}"}], 1, []]
    assert (found.stdout.splitlines(), found.stderr) == ([str(line) for line in wanted], "")


def test_a_command_that_may_not_write_says_so_without_a_traceback(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "snapshots.yaml")

    monkeypatch.setattr(versions, "tag", refuse)
    result = CliRunner().invoke(cli.main, ["snapshot", "tag", "good"])
    fix = "make it writable for you, then run the same again; questions need no right to write"
    assert (result.exit_code, result.output) == (3, f"error: snapshots.yaml: Permission denied\n  fix: {fix}\n")
