"""Fixtures that several folders share: an empty project to run stages in."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines are shared and slow at times: a test is no stop-watch.
settings.register_profile("terraplane", deadline=None)
settings.load_profile("terraplane")

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project as the current folder: a lock, no params yet, one worker."""
    from dataplane import lockfile

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERRAPLANE_WORKERS", "1")
    lockfile.write(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("TERRAPLANE_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the public data sets are not at {folder} (set TERRAPLANE_SHARED_DATA)")
    return folder


@pytest.fixture
def put(project: Path):  # type: ignore[no-untyped-def]
    """Writes a table of the project's lake: put(name, pa.Table or RecordBatch)."""
    import pyarrow as pa

    from dataplane.snapshot import Snapshot, commit_parts, write_part

    def write(table: str, rows: pa.Table | pa.RecordBatch) -> Snapshot:
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        return commit_parts(table, rows.schema, [write_part(table, rows.schema, batches, project)], project)

    return write
