"""The records that runs leave in ``lake/runs``, as rows."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.snapshot import LAKE

COLUMNS = pa.schema([
    ("run_id", pa.string()), ("stage", pa.string()), ("status", pa.string()), ("started_at", pa.string()), ("seconds", pa.float64()),
    ("version", pa.string()), ("params_digest", pa.string()), ("rows_in", pa.int64()), ("kept", pa.int64()), ("dropped", pa.int64()),
    ("quarantined", pa.int64()), ("inputs", pa.string()), ("outputs", pa.string()), ("op_ids", pa.string()), ("params", pa.string()),
    ("workers", pa.int64()), ("units", pa.int64()), ("units_done", pa.int64()), ("bytes_written", pa.int64()), ("error", pa.string()),
])  # fmt: skip


def read_records(root: Path = Path()) -> list[dict[str, Any]]:
    """The records of all runs, oldest first."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in (root / LAKE / "runs").glob("*.json")]
    return sorted(records, key=lambda record: (record["started_at"], record["run_id"]))


def ended_at(record: dict[str, Any]) -> datetime:
    """When a run ended, or was last heard of."""
    return datetime.fromisoformat(record["started_at"]) + timedelta(seconds=record["seconds"])


def runs_table(root: Path = Path()) -> pa.Table:
    """The table `runs`."""
    return pa.Table.from_pylist([_row(record) for record in read_records(root)], schema=COLUMNS)


def _row(record: dict[str, Any]) -> dict[str, Any]:
    counts, effort = record["rows"], record.get("effort", {})
    row = {name: record.get(name) for name in COLUMNS.names} | {
        "rows_in": counts.get("in"),
        "kept": counts.get("kept"),
        "dropped": counts.get("dropped"),
        "quarantined": counts.get("quarantined"),
        "units": effort.get("units"),
        "units_done": effort.get("done"),
        "bytes_written": effort.get("bytes_written"),
    }
    return row | {name: json.dumps(record[name], sort_keys=True) for name in ("inputs", "outputs", "op_ids", "params")}
