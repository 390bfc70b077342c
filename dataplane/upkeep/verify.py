"""Holds what is on disk against the manifests: every fragment is read and summed again, and a damaged file is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dataplane import dvc
from dataplane.errors import DataError
from dataplane.lake import objectstore
from dataplane.lake.store import Data, Fragment, Version
from dataplane.settings import load_settings
from dataplane.snapshot import TABLE_BATCH_ROWS, Snapshot, content_digest, content_sum, open_store, tables

MODULUS = 1 << 128
MESSAGE_CHARS = 200


@dataclass(frozen=True)
class Fault:
    """Something that is not as it was written.

    Attributes:
        table: Name of the table.
        digest: The version that was checked.
        file: Location of what is damaged.
        problem: What is wrong with it.
        fix: What to do.
    """

    table: str
    digest: str
    file: str
    problem: str
    fix: str


def verify(root: Path = Path(), names: Sequence[str] = (), *, history: bool = False) -> list[Fault]:
    """Reads the tables whole.

    Args:
        root: Folder of the project.
        names: Tables; all by default.
        history: Whether to read the earlier versions as well.
    """
    faults: list[Fault] = []
    for table in names or tables(root):
        faults += _table(table, root, history)
    return faults


def _table(table: str, root: Path, history: bool) -> list[Fault]:
    store, seen = open_store(root), set()
    current = Snapshot.load(table, root)
    version = store.version(table, current.digest)
    if version is None:
        return [Fault(table, current.digest, store.table_uri(table), "there is no such version", _fix(table, store.table_uri(table), root))]
    faults = []
    for checked in [version, *(v for v in store.versions(table) if history and v.digest != current.digest)]:
        faults += [fault for fault in _version(table, checked, root) if fault.file not in seen]
        seen |= {fault.file for fault in faults}
    return faults


def _version(table: str, version: Version, root: Path) -> list[Fault]:
    store = open_store(root)
    have = store.data_files(table)
    try:
        data = store.open(table, version.digest)
    except DataError as error:
        return [Fault(table, version.digest, store.table_uri(table), error.message, _fix(table, store.table_uri(table), root))]
    faults, offset = [], 0
    for fragment in version.fragments:
        names = store.files(fragment.data)
        missing = [name for name in names if name not in have]
        problem = "the file is missing" if missing else _problem(data, fragment, offset)
        if problem:
            file = objectstore.join(store.table_uri(table), "data", (missing or names)[0])
            faults.append(Fault(table, version.digest, file, problem, _fix(table, file, root)))
        offset += fragment.rows
    total = sum(int(fragment.total, 16) for fragment in version.fragments)
    if content_digest(data.schema, sum(f.rows for f in version.fragments), total) != version.digest:
        manifest = objectstore.join(store.table_uri(table), "_snapshots", f"{version.digest}.json")
        faults.append(Fault(table, version.digest, manifest, "the manifest does not add up to its digest", _fix(table, manifest, root)))
    return faults


def _problem(data: Data, fragment: Fragment, offset: int) -> str:
    """What is wrong with the rows of a fragment; empty where they are those that were written."""
    rows = total = 0
    try:
        for batch in data.batches(None, None, TABLE_BATCH_ROWS, offset, fragment.rows):
            batch.validate(full=True)
            rows, total = rows + len(batch), total + content_sum(batch)
    except (DataError, OSError, ValueError, RuntimeError, pa.ArrowException) as error:
        return f"the file cannot be read: {(str(error) or type(error).__name__).splitlines()[0][:MESSAGE_CHARS]}"
    if rows != fragment.rows:
        return f"{fragment.rows} rows were written, {rows} are there"
    return "" if f"{total % MODULUS:032x}" == fragment.total else "the rows are not those that were written"


def _fix(table: str, file: str, root: Path) -> str:
    if dvc.is_repository(root) and (held := load_settings(root).lake.held):
        return f"rm -r lake/{table}.{held} && dvc checkout lake/{table}.{held}"
    again = f"dvc repro --force {dvc.writer(root, table)}" if (root / dvc.FILE).exists() else "run its stage again"
    return f"put {file} back from a copy; or remove it, and `{again}` makes it again"
