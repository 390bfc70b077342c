"""Two runs at once: of one stage the second is turned away, two stages do not disturb each other, a shared lake keeps what each wrote."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.snapshot import Snapshot, open_store
from tests.faults.small_stage import ROOT, digest_of, end, intact, rows, run, start, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def ready(project: Path) -> Path:
    (project / "params.yaml").write_text("{}\n")
    return project


def test_of_two_runs_of_one_stage_the_second_says_that_it_is_busy(ready: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    gate = ready / "gate"
    first = start(ready, "numbers", 450, "--gate", gate)
    wait_for(ready / "gate.begun")
    code, errors = run(ready, "numbers", 300)
    assert (code, errors) == (3, "error: another run of stage 'numbers' is at work in this project\n  fix: wait for it to end\n")
    gate.touch()
    code, errors = end(first)
    assert code == 0, errors
    assert Snapshot.load("numbers", ready).digest == digest_of(450, tmp_path_factory.mktemp("undisturbed"))
    assert intact(ready, "numbers", 450)
    statuses = [json.loads(path.read_text())["status"] for path in (ready / "lake" / "runs").glob("*.json")]
    assert statuses == ["COMPLETE"]


def test_two_stages_at_once_do_not_disturb_each_other(ready: Path) -> None:
    gate = ready / "gate"
    both = [start(ready, name, count, "--gate", gate) for name, count in (("odd", 950), ("even", 850))]
    wait_for(ready / "gate.begun")
    gate.touch()
    ended = [end(process) for process in both]
    assert [code for code, _ in ended] == [0, 0], ended
    assert (intact(ready, "odd", 950), intact(ready, "even", 850)) == (True, True)


SHARED = """
import sys
from pathlib import Path
from dataplane.snapshot import commit_parts, write_part
from tests.faults.small_stage import SCHEMA, rows
for i in range(4):
    count = int(sys.argv[1]) + 10 * i
    print(commit_parts("shared", SCHEMA, [write_part("shared", SCHEMA, [rows(0, count)])]).digest, count, flush=True)
"""


@pytest.mark.parametrize("form", ["lance", "parquet"])
def test_projects_that_share_a_lake_commit_to_one_table_at_once_and_every_version_is_read(tmp_path: Path, form: str) -> None:
    settings = f"lake: {{format: {form}, dvc: referenced, uri: {tmp_path}/shared}}\n"
    processes = []
    for i in range(3):
        root = tmp_path / f"project{i}"
        root.mkdir()
        (root / "settings.yaml").write_text(settings)
        # Two of the three commit the same versions.
        command = [sys.executable, "-c", SHARED, str(100 + i // 2)]
        processes.append(subprocess.Popen(command, cwd=root, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    written: dict[str, int] = {}
    for process in processes:
        out, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
        written |= {digest: int(count) for digest, count in (line.split() for line in out.splitlines())}
    root = tmp_path / "project0"
    assert len(written) == 8
    assert {version.digest for version in open_store(root).versions("shared")} == set(written)
    read = {digest: Snapshot("shared", digest, count, root).to_table() for digest, count in written.items()}
    assert [table.equals(pa.Table.from_batches([rows(0, written[digest])])) for digest, table in read.items()] == [True] * 8


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


DVC = """
stages:
  numbers:
    cmd: {python} -m tests.faults.small_stage numbers 150 --gate gate
    outs:
    - lake/numbers.json
"""


def test_a_second_dvc_repro_is_turned_away_and_the_first_ends_well(ready: Path) -> None:
    (ready / "dvc.yaml").write_text(DVC.format(python=sys.executable))
    for command in (["git", "init", "-q"], ["dvc", "init", "-q"]):
        subprocess.run(command, cwd=ready, check=True)
    repro = ["dvc", "repro"]
    first = subprocess.Popen(repro, cwd=ready, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for(ready / "gate.begun")
    second = subprocess.run(repro, cwd=ready, env=environment(), capture_output=True, text=True, check=False)
    (ready / "gate").touch()
    out, _ = first.communicate()
    assert first.returncode == 0, out
    assert second.returncode != 0
    assert "busy" in second.stderr or "lock" in second.stderr, second.stderr
    assert intact(ready, "numbers", 150)
