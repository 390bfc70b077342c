"""Clocks that jump, and files that nobody needs: nothing that a version or a run needs goes because of what a clock says."""

import json
import os
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.engine.journal import KEPT_IDENTITIES, Journal
from dataplane.engine.tables import Present, Result
from dataplane.snapshot import SHARED_GRACE_SECONDS, Snapshot, commit_parts, open_store, write_part

SCHEMA = pa.schema([("n", pa.int64())])
YEAR_SECONDS = 365 * 24 * 3600.0
MINUTE_SECONDS = 60.0


def write(root: Path, *numbers: int) -> Snapshot:
    batch = pa.record_batch({"n": list(numbers)}, schema=SCHEMA)
    return commit_parts("t", SCHEMA, [write_part("t", SCHEMA, [batch], root)], root)


def orphan(root: Path, number: int) -> Path:
    """A data file that no version names, as a killed run leaves it."""
    (fragment,) = write_part("t", SCHEMA, [pa.record_batch({"n": [number]}, schema=SCHEMA)], root)
    store = open_store(root)
    (name,) = store.files(fragment.data)
    return Path(store.table_uri("t"), "data", name)


def age(path: Path, seconds: float) -> None:
    """Makes a file look as if it had been written so long ago; negative is in the future."""
    os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture(params=["lance", "parquet"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "settings.yaml").write_text(f"lake:\n  format: {request.param}\n")
    return tmp_path


@pytest.fixture(params=["lance", "parquet"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project whose lake others use as well, so that a sweep spares what is young."""
    (tmp_path / "settings.yaml").write_text(f"lake:\n  format: {request.param}\n  dvc: referenced\n  uri: {tmp_path}/elsewhere\n")
    return tmp_path


@pytest.mark.parametrize("seconds", [10 * YEAR_SECONDS, -10 * YEAR_SECONDS], ids=["past", "future"])
def test_no_file_of_a_version_goes_however_old_or_new_it_looks(shared: Path, seconds: float) -> None:
    old, new = write(shared, 1, 2), write(shared, 3)
    store = open_store(shared)
    for path in Path(store.table_uri("t")).rglob("*"):
        age(path, seconds)
    assert store.sweep("t") == []
    write(shared, 4)
    assert [snapshot.to_table()["n"].to_pylist() for snapshot in (old, new)] == [[1, 2], [3]]


def test_in_a_shared_lake_an_orphan_goes_only_when_it_is_older_than_the_grace(shared: Path) -> None:
    write(shared, 1)
    ages = (SHARED_GRACE_SECONDS + MINUTE_SECONDS, SHARED_GRACE_SECONDS - MINUTE_SECONDS, 0.0, -YEAR_SECONDS)
    files = [orphan(shared, i) for i in range(len(ages))]
    for path, seconds in zip(files, ages, strict=True):
        age(path, seconds)
    assert open_store(shared).sweep("t") == [files[0].name]
    assert [path.exists() for path in files] == [False, True, True, True]


def test_in_a_lake_of_its_own_orphans_go_at_the_next_commit_and_half_written_books_with_them(root: Path) -> None:
    write(root, 1)
    files = [orphan(root, 5), orphan(root, 6)]
    age(files[1], -YEAR_SECONDS)
    half = [Path(open_store(root).table_uri("t"), "_snapshots", ".abc.json.1.partial"), root / "lake" / ".t.partial"]
    for path in half:
        path.write_text("{")
    write(root, 2)
    assert [path.exists() for path in (*files, *half)] == [False] * 4


def test_a_version_of_the_future_stays_readable_and_is_not_taken_for_the_newest(root: Path) -> None:
    future = write(root, 1)
    (manifest,) = Path(future.uri, "_snapshots").glob("*.json")
    values = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(values | {"created_at": "2199-01-01T00:00:00+00:00"}))
    now = write(root, 2)
    store = open_store(root)
    assert [version.digest for version in store.versions("t")] == [now.digest, future.digest]  # as the clocks said
    assert [store.is_newest("t", snapshot.digest) for snapshot in (future, now)] == [False, True]
    assert Snapshot.load("t", root) == now
    assert [snapshot.to_table()["n"].to_pylist() for snapshot in (future, now)] == [[1], [2]]
    assert write(root, 1) == future
    assert store.is_newest("t", future.digest) is True


@pytest.mark.parametrize("seconds", [10 * YEAR_SECONDS, -10 * YEAR_SECONDS], ids=["past", "future"])
def test_the_journal_in_use_outlives_every_other_whatever_their_times_say(tmp_path: Path, seconds: float) -> None:
    for i in range(2 * KEPT_IDENTITIES):
        journal = Journal(tmp_path, "s", f"other{i}")
        journal.begin()
        os.utime(journal.folder, (time.time() + YEAR_SECONDS * i,) * 2)
    used = Journal(tmp_path, "s", "used")
    used.begin()
    used.put("unit", 7)
    age(used.folder, seconds)
    used.begin()
    assert used.get("unit") == 7
    assert len(list((tmp_path / "journal" / "s").iterdir())) == KEPT_IDENTITIES


def test_a_journal_that_outlived_its_files_does_the_work_again(root: Path) -> None:
    write(root, 1)
    fragments = write_part("t", SCHEMA, [pa.record_batch({"n": [9]}, schema=SCHEMA)], root)
    result = Result({"t": fragments}, Counter()).to_json()
    assert Present(root)(result) is True
    write(root, 2)  # sweeps what no version names
    assert Present(root)(result) is False
