"""Another format, another place or another keeper for the tables: their content and digests stay what they are."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from dataplane import dvc
from dataplane.errors import DataError
from dataplane.lake.objectstore import write_atomically
from dataplane.lake.store import Store
from dataplane.settings import FILE as SETTINGS
from dataplane.settings import LakeSettings, load_settings
from dataplane.snapshot import TABLE_BATCH_ROWS, Snapshot, content_digest, open_lake, read_tags, tables, write_fragments
from dataplane.stage_graph import table_outs

_ROWS = re.compile(r"^lake/([a-z0-9_]+)\.(?:lance|parquet)$")


def move(wanted: LakeSettings, root: Path = Path()) -> list[str]:
    """Copies what is current or tagged where it is not yet, and changes settings.yaml and dvc.yaml.

    Nothing of the old place is removed; a killed move is done again.

    Returns:
        What was done, as lines to print.

    Raises:
        UsageError: The project is not up to date.
        DataError: A copy is not what it was copied from.
    """
    old = load_settings(root).lake
    if wanted == old:
        return ["nothing to do: the lake is there already"]
    tracked = dvc.is_repository(root) and (root / dvc.FILE).exists()
    if tracked:
        dvc.require_up_to_date(root)
    lines = []
    if (wanted.format, wanted.uri) != (old.format, old.uri):
        lines = [_copy(snapshot, open_lake(old, root), open_lake(wanted, root)) for snapshot in _wanted(root)]
    _write_settings(root, wanted)
    if tracked:
        changed = _write_dvc(root, wanted.held)
        dvc.commit(root, changed)
        lines.append(f"dvc.yaml: {len(changed)} stages now hold {'the tables' if wanted.held else 'snapshot files only'}")
    return lines


def _wanted(root: Path) -> list[Snapshot]:
    current = {table: Snapshot.load(table, root) for table in tables(root)}
    tagged = {(table, digest) for tag in read_tags(root).values() for table, digest in tag.items()}
    earlier = [Snapshot(table, digest, 0, root) for table, digest in sorted(tagged) if current[table].digest != digest]
    return [*earlier, *current.values()]  # current last: it is to be the newest


def _copy(snapshot: Snapshot, old: Store, new: Store) -> str:
    data = old.open(snapshot.table, snapshot.digest)
    fragments = write_fragments(new, snapshot.table, data.schema, data.batches(None, None, TABLE_BATCH_ROWS, 0, None))
    rows, total = sum(fragment.rows for fragment in fragments), sum(int(fragment.total, 16) for fragment in fragments)
    if content_digest(data.schema, rows, total) != snapshot.digest:
        raise DataError(
            f"{snapshot.table} does not hold what its digest {snapshot.digest} says",
            where="lake move",
            fix=f"`dataplane lake verify {snapshot.table}` names the damaged file",
        )
    new.commit(snapshot.table, data.schema, snapshot.digest, fragments)
    new.sweep(snapshot.table)
    return f"{snapshot.table}: {rows:,} rows at {snapshot.digest[:12]} are now in {new.table_uri(snapshot.table)}"


def _write_settings(root: Path, wanted: LakeSettings) -> None:
    path, yaml = root / SETTINGS, YAML()
    values = (yaml.load(path.read_text(encoding="utf-8")) if path.exists() else None) or {}
    values["lake"] = wanted.model_dump(mode="json")
    write_atomically(path, _dumped(yaml, values))


def _write_dvc(root: Path, held: str) -> list[str]:
    """Changes what DVC holds of each table; everything else in dvc.yaml stays as its owner wrote it.

    Returns:
        The stages that changed.
    """
    path, yaml = root / dvc.FILE, YAML()
    pipeline = yaml.load(path.read_text(encoding="utf-8"))
    changed = []
    for name, stage in pipeline["stages"].items():
        outs = [entry for out in stage.get("outs", []) for entry in _renewed(out, held)]
        if outs != stage.get("outs", []):
            stage["outs"] = outs
            changed.append(str(name))
    write_atomically(path, _dumped(yaml, pipeline))
    return changed


def _renewed(out: Any, held: str) -> list[Any]:
    """What stands for an output of dvc.yaml now: rows come and go with the snapshot file that is listed beside them."""
    path = out if isinstance(out, str) else next(iter(out))
    if _ROWS.match(path):
        return []
    snapshot = dvc.SNAPSHOT_FILE.match(path)
    return table_outs(snapshot[1], held) if snapshot else [out]


def _dumped(yaml: YAML, values: Any) -> str:
    stream = io.StringIO()
    yaml.dump(values, stream)
    return stream.getvalue()
