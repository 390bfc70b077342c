"""Dedup without room on disk, with little memory, and stopped half-way: it says so, and the run after it gives the undisturbed digest."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from dataplane import lockfile, schema
from dataplane.snapshot import Snapshot, commit_parts, write_part
from tests.faults.small_stage import ROOT
from tests.faults.test_full_disk import ROOM

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DOCUMENTS = 1200
STAGE = """
import resource
from dataplane.lineage.record import stage_main
from dataplane.stages import dedup
{limit}
stage_main(dedup.main)
"""
BANDING = """
import resource
from benchmarks.scaling import measure
measure(1000, 0.3)
resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))
row = measure({n}, 0.3)
print(row["dropped"], row["memory_mb"])
"""


def texts() -> list[str]:
    """Two thirds are near-copies of the others."""
    rng = random.Random(3)
    bases = [[f"w{rng.randrange(5000)}" for _ in range(120)] for _ in range(DOCUMENTS // 3)]
    edited = [[*base[:i], "other", *base[i + 1 :]] for base in bases for i in (rng.randrange(120), rng.randrange(120))]
    return [" ".join(words) for words in bases + edited]


def make(root: Path) -> Path:
    """A project whose next stage is dedup."""
    return fill(root, texts())


def fill(root: Path, column: list[str]) -> Path:
    """A project of these documents, whose next stage is dedup."""
    root.mkdir(exist_ok=True)
    lockfile.write(root)
    n = len(column)
    of = {
        "doc_id": [f"{i:032x}" for i in range(n)], "source": ["s"] * n, "kind": ["k"] * n, "text": column,
        "n_bytes": [len(text) for text in column], "text_hash": [xxhash.xxh3_128_hexdigest(text.encode()) for text in column],
    }  # fmt: skip
    for table, columns in (("raw", schema.RAW), ("documents", schema.DOCUMENTS), ("selected", schema.IDS)):
        rows = pa.table({name: pa.array(of.get(name, [None] * n), columns.field(name).type) for name in columns.names}, schema=columns)
        commit_parts(table, columns, [write_part(table, columns, rows.to_batches(), root)], root)
    return root


def put_threshold(root: Path, threshold: float) -> None:
    (root / "params.yaml").write_text(f"dedup: {{minhash: {{threshold: {threshold}}}}}\n")


def run(root: Path, limit: str = "", prelude: str = "") -> tuple[int, str]:
    """Exit code of the stage and what it said."""
    code = prelude + STAGE.format(limit=limit)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TERRAPLANE_WORKERS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def digests(root: Path) -> tuple[str, str]:
    return Snapshot.load("duplicates", root).digest, Snapshot.load("deduplicated", root).digest


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[float, tuple[str, str]]:
    """Threshold -> digests of a run that nothing disturbs."""
    found = {}
    for threshold in (0.7, 0.95):
        root = make(tmp_path_factory.mktemp("whole") / "project")
        put_threshold(root, threshold)
        assert run(root)[0] == 0
        found[threshold] = digests(root)
    return found


@pytest.mark.parametrize("largest", [1 << 14, 1 << 17])
def test_without_room_for_the_spilled_arrays_the_last_version_stands(
    tmp_path: Path, undisturbed: dict[float, tuple[str, str]], largest: int
) -> None:
    root = make(tmp_path / "project")
    put_threshold(root, 0.95)
    assert run(root)[0] == 0
    put_threshold(root, 0.7)
    code, errors = run(root, f"resource.setrlimit(resource.RLIMIT_FSIZE, ({largest}, {largest}))")
    assert (code, errors.splitlines()[-1].strip(), "Traceback" in errors) == (3, ROOM, False), errors
    assert digests(root) == undisturbed[0.95]
    assert list(root.glob("journal/dedup/*/spill")) == []
    code, errors = run(root)
    assert (code, digests(root)) == (0, undisturbed[0.7]), errors


KILLED = """
import os, signal
from dataplane.corpus import minhash
jaccard, calls = minhash.minhash.jaccard, []
def counted(left, right):
    calls.append(1)
    if len(calls) == {stop}:
        os.kill(os.getpid(), signal.SIGKILL)
    return jaccard(left, right)
minhash.minhash.jaccard = counted
import atexit
atexit.register(lambda: open("calls", "w").write(str(len(calls))))
"""


def test_a_run_that_was_killed_while_comparing_goes_on_where_it_stopped(tmp_path: Path, undisturbed: dict[float, tuple[str, str]]) -> None:
    root = make(tmp_path / "project")
    put_threshold(root, 0.7)
    assert run(root, prelude=KILLED.format(stop=700))[0] == -9
    assert len(list(root.glob("journal/dedup/*/spill/*"))) > 0
    code, errors = run(root, prelude=KILLED.format(stop=0))
    assert (code, digests(root)) == (0, undisturbed[0.7]), errors
    assert int((root / "calls").read_text()) < DOCUMENTS * 2 // 3 - 500  # 512 pairs were on disk
    assert list(root.glob("journal/dedup/*/spill")) == []


def test_a_million_documents_are_banded_and_clustered_in_less_memory_than_their_signatures_take() -> None:
    """The signatures alone are 448 MB, the keys 168 MB: with 400 MB for data and 450 with all that is mapped, the interpreter's included,
    both have to lie on disk, and few pages of the files in memory."""
    code = BANDING.format(limit=400 << 20, n=1_000_000)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    dropped, memory_mb = map(int, done.stdout.split())
    assert dropped == pytest.approx(297_000, abs=np.sqrt(297_000) * 5)
    assert memory_mb < 450
