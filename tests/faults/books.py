"""What must hold in a project whatever was killed: every version reads back whole, no document is lost or doubled, no file is left over."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dataplane.errors import DataError
from dataplane.lake.store import Version
from dataplane.snapshot import Snapshot, content_digest, content_sum, open_store, tables
from tests.faults.corpus import MODELS

MODULUS = 1 << 128


def versions(root: Path) -> dict[str, list[str]]:
    """Table -> the digests that its manifests name, sorted."""
    store = open_store(root)
    return {table: sorted(version.digest for version in store.versions(table)) for table in tables(root)}


def digests(root: Path) -> dict[str, str]:
    """Table -> the digest that its snapshot file names."""
    return {table: Snapshot.load(table, root).digest for table in tables(root)}


def models(root: Path, stage: str) -> dict[str, str]:
    """File -> SHA-256 of what a stage writes beside its tables; times of the run are not in there."""
    folders = [root / MODELS[stage]] if stage in MODELS else []
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def unreadable(root: Path, wanted: dict[str, list[str]]) -> list[str]:
    """What is wrong with these versions: every row is read, and each fragment's sum is taken again."""
    return [fault for table, of_table in wanted.items() for digest in of_table for fault in _faults(root, table, digest)]


def _faults(root: Path, table: str, digest: str) -> list[str]:
    version = open_store(root).version(table, digest)
    if version is None:
        return [f"{table} {digest}: no manifest"]
    try:
        return [f"{table} {digest}: {fault}" for fault in _differences(root, table, version)]
    except (DataError, OSError, ValueError, RuntimeError) as error:
        return [f"{table} {digest}: {error}"]


def _differences(root: Path, table: str, version: Version) -> Iterable[str]:
    data = open_store(root).open(table, version.digest)
    offset = total = 0
    for fragment in version.fragments:
        found = sum(content_sum(batch) for batch in data.batches(None, None, 1000, offset, fragment.rows))
        if f"{found % MODULUS:032x}" != fragment.total:
            yield f"fragment at row {offset} does not hold what was written"
        offset, total = offset + fragment.rows, total + found
    if content_digest(data.schema, offset, total) != version.digest:
        yield "the rows do not give the digest"


def orphans(root: Path) -> list[str]:
    """Data files that no version needs, and half-written files."""
    store = open_store(root)
    left = [f"{table}: {name}" for table in tables(root) for name in sorted(set(store.data_files(table)) - store.used(table))]
    partial = [path.relative_to(root).as_posix() for path in root.rglob("*") if "partial" in path.name or "#" in path.name]
    return left + sorted(partial)


def misplaced(root: Path, stage: str) -> tuple[int, int]:
    """How many documents (of `pack`: occurrences) a stage lost, and how many it doubled, counted from its tables alone."""
    whole, parts = BOOKS[stage](root) if stage in BOOKS else ([], [])
    counted = Counter(itertools.chain(*parts))
    lost = len(set(whole) - set(counted)) if stage != "mix" else 0  # a mixture has no place for some
    return lost, sum(counted.values()) - len(counted) + len(set(counted) - set(whole))


def _ids(root: Path, table: str) -> list[str]:
    return list(Snapshot.load(table, root).to_table(["doc_id"]).column("doc_id").to_pylist())


def _once(root: Path, table: str) -> set[str]:
    return set(_ids(root, table))


def _copies(root: Path) -> list[str]:
    return [row["doc_id"] for row in Snapshot.load("duplicates", root).to_table(["doc_id", "kept"]).to_pylist() if not row["kept"]]


def _numbered(doc_ids: Iterable[str]) -> list[tuple[str, int]]:
    """Each occurrence by its own name."""
    seen: Counter[str] = Counter()
    return [(doc_id, seen.update([doc_id]) or seen[doc_id]) for doc_id in doc_ids]


def _begun(root: Path) -> list[str]:
    spans = Snapshot.load("packed", root).to_table(["spans"]).column("spans").to_pylist()
    return [span["doc_id"] for row in spans for span in row if span["doc_start"] == 0]


# Stage -> what came in, and what became of it.
BOOKS: dict[str, Callable[[Path], tuple[Iterable[Any], list[Iterable[Any]]]]] = {
    "ingest": lambda root: (_ids(root, "raw"), [_ids(root, "raw")]),
    "clean": lambda root: (_ids(root, "raw"), [_ids(root, "documents"), _once(root, "clean_decisions"), _ids(root, "clean_quarantine")]),
    "select": lambda root: (_ids(root, "documents"), [_ids(root, "selected"), _once(root, "select_decisions")]),
    "dedup": lambda root: (_ids(root, "selected"), [_ids(root, "deduplicated"), _copies(root)]),
    "decontaminate": lambda root: (
        _ids(root, "deduplicated"),
        [_ids(root, "decontaminated"), _once(root, "contamination") - _once(root, "decontaminated")],
    ),
    "mix": lambda root: (_ids(root, "decontaminated"), [_once(root, "mixture"), _ids(root, "held_out")]),
    "tokenize": lambda root: (_once(root, "mixture") | _once(root, "held_out"), [_ids(root, "tokens")]),
    "pack": lambda root: (_numbered(_ids(root, "mixture")), [_numbered(_begun(root))]),
}
