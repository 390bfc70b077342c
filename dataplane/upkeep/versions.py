"""The versions of the tables as people ask for them: which there are, what is in one, what two have in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dataplane import dvc
from dataplane.errors import UsageError
from dataplane.history import named_by_git
from dataplane.lake.objectstore import write_atomically
from dataplane.lake.store import Version
from dataplane.schema import NAME
from dataplane.snapshot import LAKE, TAGS, Snapshot, open_store, read_tags, resolve, tables

CURRENT = "current"


def list_versions(names: Sequence[str] = (), root: Path = Path()) -> list[dict[str, Any]]:
    """A row for each version, newest first: what refers to it, and how large it is."""
    committed = named_by_git(root).digests if dvc.is_repository(root) else {}
    tags = read_tags(root)
    rows = []
    for table in names or tables(root):
        current = Snapshot.load(table, root).digest
        for version in reversed(open_store(root).versions(table)):
            refers = [CURRENT] if version.digest == current else []
            refers += ["git"] if version.digest in committed.get(table, ()) else []
            refers += [f"tag {tag}" for tag, of in tags.items() if of.get(table) == version.digest]
            rows.append(
                {
                    "table": table,
                    "digest": version.digest,
                    "rows": version.rows,
                    "bytes": _bytes(table, version, root),
                    "created_at": version.created_at,
                    "referred_to_by": ", ".join(refers),
                }
            )
    return rows


def _bytes(table: str, version: Version, root: Path) -> int:
    """Data files of a version; shared with others or not."""
    store = open_store(root)
    sizes = store.data_files(table)
    return sum(sizes.get(name, 0) for fragment in version.fragments for name in store.files(fragment.data))


def show(table: str, name: str = CURRENT, root: Path = Path()) -> dict[str, Any]:
    """What one version is, and which run made it.

    Raises:
        DataError: There is no such version.
    """
    snapshot = resolve(table, name, root)
    version = open_store(root).version(table, snapshot.digest)
    fragments = version.fragments if version else []
    return {
        "table": table,
        "digest": snapshot.digest,
        "rows": snapshot.rows,
        "bytes": _bytes(table, version, root) if version else 0,
        "fragments": len(fragments),
        "created_at": version.created_at if version else None,
        "uri": snapshot.uri,
        "tags": sorted(tag for tag, of in read_tags(root).items() if of.get(table) == snapshot.digest),
        "columns": {field.name: str(field.type) for field in snapshot.schema},
        "made_by": _made_by(table, snapshot.digest, root),
    }


def _made_by(table: str, digest: str, root: Path) -> list[dict[str, Any]]:
    """The runs that ended with this content, oldest first."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in (root / LAKE / "runs").glob("*.json")]
    made = [run for run in runs if run["outputs"].get(table) == digest]
    keys = ("run_id", "stage", "started_at", "version", "params_digest", "inputs")
    return [{key: run[key] for key in keys} for run in sorted(made, key=lambda run: str(run["started_at"]))]


def tag(name: str, names: Sequence[str] = (), at: str = CURRENT, root: Path = Path()) -> dict[str, str]:
    """Gives versions of tables a name, in snapshots.yaml, which Git keeps.

    Args:
        name: The tag; one that is there already is moved for these tables.
        names: Tables; all by default.
        at: Which version of each.
        root: Folder of the project.

    Returns:
        Table -> digest.

    Raises:
        UsageError: It is no name.
    """
    if not NAME.match(name) or name == CURRENT:
        raise UsageError(f"{name!r} is no name for a tag: lower case, digits, single underscores", fix="for example v1 or before_filters")
    tags = read_tags(root)
    given = {table: resolve(table, at, root).digest for table in names or tables(root)}
    write_tags(tags | {name: dict(sorted((tags.get(name, {}) | given).items()))}, root)
    return given


def untag(name: str, root: Path = Path()) -> None:
    """Takes a tag away; the versions stay until `dataplane lake compact`.

    Raises:
        UsageError: There is no such tag.
    """
    tags = read_tags(root)
    if name not in tags:
        raise UsageError(f"no tag {name!r}; known: {', '.join(sorted(tags)) or 'none'}", fix="`dataplane snapshot list` shows them")
    write_tags({other: of for other, of in tags.items() if other != name}, root)


def write_tags(tags: dict[str, dict[str, str]], root: Path) -> None:
    """Writes snapshots.yaml."""
    write_atomically(root / TAGS, yaml.safe_dump(dict(sorted(tags.items())), sort_keys=False))


def compare(before: str, after: str, names: Sequence[str] = (), root: Path = Path()) -> list[dict[str, Any]]:
    """A row for each table: whether two versions of it are equal, and how they differ in rows and columns.

    Raises:
        DataError: A table has no such version; without `names`, tables that have neither are left out.
    """
    rows = []
    for table in names or _having(before, after, root):
        old, new = resolve(table, before, root), resolve(table, after, root)
        old_columns, new_columns = _columns(old), _columns(new)
        rows.append(
            {
                "table": table,
                "same": old.digest == new.digest,
                "rows_before": old.rows,
                "rows_after": new.rows,
                "columns_added": sorted(new_columns - old_columns),
                "columns_removed": sorted(old_columns - new_columns),
                "digest_before": old.digest,
                "digest_after": new.digest,
            }
        )
    return rows


def _columns(snapshot: Snapshot) -> set[str]:
    return {f"{field.name}: {field.type}" for field in snapshot.schema}


def _having(before: str, after: str, root: Path) -> list[str]:
    """The tables that both names may mean something for."""
    tags = read_tags(root)
    asked = [tags[name] for name in (before, after) if name in tags]
    return [table for table in tables(root) if all(table in of for of in asked)]
