"""DuckDB over the lake: one view for each table, with signals shown as ``operator.signal``, and no way to write.

The connection is locked down before a question reaches it: no file, network or extension access, and no setting that
could bring them back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.errors import DataError, UsageError
from dataplane.schema import SIGNAL_SEPARATOR
from dataplane.snapshot import LAKE, Snapshot

# A view over the tables that several stages write, each its own.
UNIONS = {"decisions": ("clean_decisions", "select_decisions"), "quarantine": ("ingest_quarantine", "clean_quarantine")}

RUN_COLUMNS = pa.schema([
    ("run_id", pa.string()), ("stage", pa.string()), ("status", pa.string()), ("started_at", pa.string()), ("seconds", pa.float64()),
    ("version", pa.string()), ("params_digest", pa.string()), ("rows_in", pa.int64()), ("kept", pa.int64()), ("dropped", pa.int64()),
    ("quarantined", pa.int64()), ("inputs", pa.string()), ("outputs", pa.string()), ("op_ids", pa.string()), ("params", pa.string()),
    ("workers", pa.int64()), ("error", pa.string()),
])  # fmt: skip


def connect(root: Path = Path(), *, memory_limit: str = "2GB") -> Any:
    """A locked-down DuckDB connection with a view for each table of the project's lake.

    Args:
        root: Folder of the project.
        memory_limit: What DuckDB may take, in its own notation.
    """
    import duckdb

    connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false", "memory_limit": memory_limit})
    for path in sorted((root / LAKE).glob("*.json")):
        add_view(connection, path.stem, Snapshot.load(path.stem, root).dataset())
    _add_unions(connection)
    connection.register("runs", pa.Table.from_pylist(read_runs(root), schema=RUN_COLUMNS))
    connection.register("snapshots", _snapshots(root))
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def add_view(connection: Any, name: str, data: Any) -> None:
    """Registers Arrow data or a Lance data set and shows it under `name`, its signals packed by operator."""
    connection.register(f"_{name}", data)
    connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS {packed_select(data.schema, f"_{name}")}')


def packed_select(schema: pa.Schema, relation: str) -> str:
    """A SELECT that packs flat signals ``operator__signal`` into one struct for each operator.

    DuckDB pushes a filter on ``operator.signal`` of this view down to the flat column.
    """
    plain = [f'"{name}"' for name in schema.names if SIGNAL_SEPARATOR not in name]
    packed = [_struct(operator, signals) for operator, signals in signals_by_operator(schema).items()]
    return f'SELECT {", ".join(plain + packed)} FROM "{relation}"'


def _struct(operator: str, signals: list[str]) -> str:
    fields = ", ".join(f'"{signal}" := "{operator}{SIGNAL_SEPARATOR}{signal}"' for signal in signals)
    return f'struct_pack({fields}) AS "{operator}"'


def signals_by_operator(schema: pa.Schema) -> dict[str, list[str]]:
    """Operator -> its signals, from the flat columns of a schema."""
    found: dict[str, list[str]] = {}
    for name in schema.names:
        operator, separator, signal = name.partition(SIGNAL_SEPARATOR)
        if separator:
            found.setdefault(operator, []).append(signal)
    return found


def _add_unions(connection: Any) -> None:
    have = {row[0] for row in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
    for name, tables in UNIONS.items():
        there = [table for table in tables if table in have]
        if there:
            selects = " UNION ALL BY NAME ".join(f'SELECT * FROM "{table}"' for table in there)
            connection.execute(f'CREATE VIEW "{name}" AS {selects}')


def read_runs(root: Path = Path()) -> list[dict[str, Any]]:
    """The records of all runs, oldest first, as rows of `runs`."""
    rows = []
    for path in (root / LAKE / "runs").glob("*.json"):
        values = json.loads(path.read_text(encoding="utf-8"))
        counts = values["rows"]
        row = {name: values.get(name) for name in RUN_COLUMNS.names} | {
            "rows_in": counts.get("in"),
            "kept": counts.get("kept"),
            "dropped": counts.get("dropped"),
            "quarantined": counts.get("quarantined"),
        }
        rows.append(row | {name: json.dumps(values[name], sort_keys=True) for name in ("inputs", "outputs", "op_ids", "params")})
    return sorted(rows, key=lambda row: (row["started_at"], row["run_id"]))


def _snapshots(root: Path) -> pa.Table:
    loaded = [Snapshot.load(path.stem, root) for path in sorted((root / LAKE).glob("*.json"))]
    return pa.table(
        {
            "table": pa.array([s.table for s in loaded], pa.string()),
            "digest": pa.array([s.digest for s in loaded], pa.string()),
            "rows": pa.array([s.rows for s in loaded], pa.int64()),
            "uri": pa.array([s.uri for s in loaded], pa.string()),
        }
    )


def ask(connection: Any, query: str) -> pa.Table:
    """The answer to one read-only question.

    Raises:
        UsageError: It is not one SELECT-like statement, or DuckDB refuses it; the message is DuckDB's own.
        DataError: It ran out of the memory limit.
    """
    import duckdb

    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as error:
        raise UsageError(str(error), where="sql", fix="correct the question") from None
    reading = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
    if len(statements) != 1 or statements[0].type not in reading:
        raise UsageError(
            "only one reading statement is answered (SELECT, FROM, DESCRIBE, SUMMARIZE, EXPLAIN)", where="sql", fix="ask a SELECT"
        )
    try:
        return connection.sql(query).to_arrow_table()
    except duckdb.OutOfMemoryException as error:
        raise DataError(str(error), where="sql", fix="ask for fewer columns, or raise --memory") from None
    except duckdb.Error as error:
        raise UsageError(
            str(error), where="sql", fix="`dataplane sql 'SHOW TABLES'` lists the tables, `DESCRIBE documents` a table's columns"
        ) from None
