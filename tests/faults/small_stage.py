"""A stage that is quick to start: `python -m tests.faults.small_stage NAME ROWS` writes ROWS rows of random text to table NAME."""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from dataplane.engine.tables import TableTask
from dataplane.engine.units import Unit
from dataplane.lineage.record import StageRun, stage_main
from dataplane.snapshot import Snapshot, commit_parts, write_part

ROOT = Path(__file__).parents[2]
SCHEMA = pa.schema([("doc_id", pa.string()), ("text", pa.large_string())])
UNIT_ROWS = 100
GATE_SECONDS = 60
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION = 0x20080522


def rows(start: int, stop: int) -> pa.RecordBatch:
    """Rows that do not compress well: a table's size on disk follows their number."""
    texts = [random.Random(i).randbytes(100).hex() for i in range(start, stop)]
    return pa.record_batch({"doc_id": [f"{i:032x}" for i in range(start, stop)], "text": texts}, schema=SCHEMA)


class Write(TableTask):
    """Writes one range of the rows."""

    def run(self, unit: tuple[int, int]) -> Iterator[tuple[str, pa.RecordBatch]]:
        (table,) = self.tables
        yield table, rows(*unit)


def digest_of(count: int, root: Path, table: str = "numbers") -> str:
    """What an undisturbed run gives, written at once in a project of its own."""
    return commit_parts(table, SCHEMA, [write_part(table, SCHEMA, [rows(0, count)], root)], root).digest


def intact(root: Path, table: str, count: int) -> bool:
    """Whether the table's snapshot file names the first `count` rows, and all of them are read."""
    return Snapshot.load(table, root).to_table().equals(pa.Table.from_batches([rows(0, count)]))


def start(root: Path, *arguments: object) -> subprocess.Popen[str]:
    """Starts the stage in a project."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.small_stage", *map(str, arguments)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TERRAPLANE_WORKERS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a stage and what it said."""
    _, errors = process.communicate()
    return process.returncode, errors


def run(root: Path, *arguments: object) -> tuple[int, str]:
    """Runs the stage; its exit code and what it said."""
    return end(start(root, *arguments))


def wait_for(path: Path) -> None:
    """Returns once the file is there."""
    deadline = time.monotonic() + GATE_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not come")
        time.sleep(0.02)


def powerless() -> None:
    """Takes from root what lets it write where it may not: CAP_DAC_OVERRIDE. Others never had it."""
    import ctypes

    if os.geteuid():
        return
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: the low words, then the high ones
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for i in range(3):
        sets[i] &= ~(1 << CAP_DAC_OVERRIDE)
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def main() -> None:
    """Runs the stage in the current project."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("rows", type=int)
    parser.add_argument("--gate", type=Path, help="a file: says by GATE.begun that it has begun, and goes on once GATE is there")
    parser.add_argument("--no-file-above", type=int, metavar="BYTES", help="what would make a file larger fails, as on a full disk")
    parser.add_argument("--powerless", action="store_true", help="root may not write where others may not")
    options = parser.parse_args()
    if options.no_file_above:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options.no_file_above, options.no_file_above))
    if options.powerless:
        powerless()
    with StageRun(options.name) as run:
        if options.gate:
            options.gate.with_suffix(".begun").touch()
            wait_for(options.gate)
        spans = [(start, min(start + UNIT_ROWS, options.rows)) for start in range(0, options.rows, UNIT_ROWS)]
        units = [Unit(f"{start}_{stop}", (start, stop)) for start, stop in spans]
        written = run.map(Write(run.root, {options.name: SCHEMA}), units, run.journal())
        run.account(rows_in=options.rows, kept=written[options.name].rows)


if __name__ == "__main__":
    stage_main(main)
