"""Removing forgotten documents from the past: raw files, older versions, DVC's cache; and the proof that they are gone."""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane import dvc, tombstones
from dataplane.errors import DataError
from dataplane.lake.store import Version
from dataplane.lineage.forget import count_rows
from dataplane.params import load_params
from dataplane.snapshot import LAKE, Snapshot, open_store, read_tags, tables
from dataplane.sources.erase import erase
from dataplane.sources.files import parse_specs
from dataplane.upkeep.space import drop
from dataplane.upkeep.versions import write_tags

NEEDLE_BYTES = 32  # shorter lines are said by many
MAX_NEEDLES = 16
CHUNK_BYTES = 1 << 20


@dataclass
class Purged:
    """What a purge did, and what it could not do.

    Attributes:
        erased: Raw files that no longer hold a record.
        dropped: Table -> older versions that were removed.
        untagged: Tags that named such a version, as TAG/TABLE.
        cache_files: Files removed from DVC's cache.
        left: Where something still is, and what to do about it.
    """

    erased: list[str] = field(default_factory=list)
    dropped: dict[str, list[str]] = field(default_factory=dict)
    untagged: list[str] = field(default_factory=list)
    cache_files: int = 0
    left: list[str] = field(default_factory=list)


def purge(root: Path = Path()) -> Purged:
    """Removes every document that has a tombstone from raw files, the lake and DVC's cache. May be killed and run again.

    Raises:
        DataError: A current version still holds one after its stages ran.
        UsageError: The project is not up to date.
    """
    ids = pa.array(sorted({tombstone.doc_id for tombstone in tombstones.read(root)}), pa.string())
    done = Purged()
    rows = _raw_rows(ids, root)
    needles = _needles(rows)
    _erase_raw(rows, root, done)
    _renew(root)
    stale = _stale(ids, root)
    if "raw" in tables(root) and (held := [t for t in tables(root) if count_rows(Snapshot.load(t, root), ids)]):
        raise DataError(f"current versions of {', '.join(held)} still hold a forgotten document", where="forget", fix="dvc repro")
    done.untagged = _untag(stale, root)
    drop(stale, root)
    done.dropped = {table: [version.digest for version in versions] for table, versions in stale.items()}
    if dvc.is_repository(root):
        done.cache_files += _clean_cache(root)
        if dvc.call(root, [*dvc.DVC, "remote", "list"]).strip():
            done.left.append("DVC remotes: `dvc gc --workspace --cloud` removes there what was pushed before")
    done.left += [f"{path} still holds a line of a forgotten text" for path in _grep(needles, _places(root))]
    return done


def _raw_rows(ids: pa.Array, root: Path) -> list[dict[str, Any]]:
    """The records that are to go, from any version of `raw` that still has them."""
    store = open_store(root)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for version in store.versions("raw"):
        data = store.open("raw", version.digest)
        for batch in data.batches(None, {"doc_id": ids.to_pylist()}, 64, 0, None):
            found |= {(row["doc_id"], row["uri"]): row for row in batch.to_pylist()}
    return list(found.values())


def _needles(rows: Sequence[dict[str, Any]]) -> list[bytes]:
    """Lines of the texts that are long enough to be theirs alone."""
    lines = (line.strip() for row in rows for line in row["payload"].splitlines())
    parts = (line[:NEEDLE_BYTES] for line in lines if len(line) >= NEEDLE_BYTES)
    return sorted(set(parts))[: MAX_NEEDLES * max(1, len(rows))]


def _erase_raw(rows: Sequence[dict[str, Any]], root: Path, done: Purged) -> None:
    specs = parse_specs(load_params(root / "params.yaml").get("sources"))
    for row in rows:
        path = root / row["uri"]
        old = _md5(path) if path.exists() else None
        if not erase(root, row, specs):
            done.left.append(f"{row['uri']} ({row['member'] or row['format']}): the record is still in it; make the file anew without it")
        elif old and (not path.exists() or _md5(path) != old):
            done.erased.append(row["uri"])
            _tell_dvc(path, old, root)


def _tell_dvc(path: Path, old_md5: str, root: Path) -> None:
    """Where `dvc add` tracks the file, its new content takes the place of the old in DVC's cache."""
    tracked = next((p for p in (path, *path.parents) if p != root and p.with_name(f"{p.name}.dvc").exists()), None)
    if tracked is None or not dvc.is_repository(root):
        return
    dvc.call(root, [*dvc.DVC, "add", "--quiet", str(tracked.relative_to(root))])
    cached = dvc.cached_file(dvc.cache_dir(root), old_md5)
    cached.unlink(missing_ok=True)


def _renew(root: Path) -> None:
    """Runs the stages that write tables of the data plane, so that the current versions are without the documents."""
    stages = dvc.stages(root)
    wanted = [name for name, stage in stages.items() if "dataplane.stages." in stage["cmd"] and dvc.tables_of(stage)]
    dvc.call(root, [*dvc.DVC, "repro", "--quiet", *wanted])


def _stale(ids: pa.Array, root: Path) -> dict[str, list[Version]]:
    """The older versions that hold one of the documents."""
    store = open_store(root)
    found = {}
    for table in tables(root):
        current = Snapshot.load(table, root).digest
        older = [version for version in store.versions(table) if version.digest != current]
        found[table] = [version for version in older if count_rows(Snapshot(table, version.digest, version.rows, root), ids)]
    return {table: versions for table, versions in found.items() if versions}


def _untag(stale: dict[str, list[Version]], root: Path) -> list[str]:
    """Takes the names of versions that go out of snapshots.yaml."""
    gone = {(table, version.digest) for table, versions in stale.items() for version in versions}
    tags = read_tags(root)
    lost = [f"{tag}/{table}" for tag, of in tags.items() for table, digest in of.items() if (table, digest) in gone]
    if lost:
        kept = {tag: {table: digest for table, digest in of.items() if (table, digest) not in gone} for tag, of in tags.items()}
        write_tags({tag: of for tag, of in kept.items() if of}, root)
    return lost


def _clean_cache(root: Path) -> int:
    """Removes what DVC's cache keeps of tables beyond their present state, and its memory of runs.

    Which documents an older file holds cannot be told without its table, so all of them go.

    Returns:
        How many files went.
    """
    cache = dvc.cache_dir(root)
    shutil.rmtree(cache.parents[1] / "runs", ignore_errors=True)
    listings = {path: json.loads(path.read_text(encoding="utf-8")) for path in cache.glob("*/*.dir")}
    present = dvc.locked_md5s(root)
    of_tables = {path for path, entries in listings.items() if any(entry["relpath"].startswith("_snapshots/") for entry in entries)}
    old = {path for path in of_tables if f"{path.parent.name}{path.name}" not in present}
    needed = {entry["md5"] for path, entries in listings.items() if path not in old for entry in entries} | present
    files = {dvc.cached_file(cache, entry["md5"]) for path in old for entry in listings[path] if entry["md5"] not in needed}
    for path in files | old:
        path.unlink(missing_ok=True)
    return len(files | old)


def _places(root: Path) -> list[Path]:
    folders = [root / LAKE, *([dvc.cache_dir(root)] if dvc.is_repository(root) else [])]
    return [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]


def _grep(needles: Sequence[bytes], paths: Iterable[Path]) -> list[Path]:
    """The files in which one of the lines stands as it is."""
    return [path for path in paths if path.stat().st_size and _holds(path, needles)]


def _holds(path: Path, needles: Sequence[bytes]) -> bool:
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(needle) >= 0 for needle in needles)


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
