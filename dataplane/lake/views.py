"""How tables look in SQL: signals packed as ``operator.signal``, and one name for what several stages write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dataplane.lake.scan import Scan
from dataplane.schema import SIGNAL_SEPARATOR

# A view over the tables that several stages write, each its own.
UNIONS = {"decisions": ("clean_decisions", "select_decisions"), "quarantine": ("ingest_quarantine", "clean_quarantine")}


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def add_view(connection: Any, name: str, data: Any, schema: str = "main") -> None:
    """Registers Arrow data or a data set and shows it under `name`, its signals packed by operator.

    Args:
        connection: A DuckDB connection.
        name: Name of the view.
        data: What DuckDB can register; it has a `schema`.
        schema: SQL schema of the view; it has to be there.
    """
    relation = f"_{name}" if schema == "main" else f"_{name} {schema}"
    connection.register(relation, data if isinstance(data, pa.Table) else Scan(data))
    connection.execute(f"CREATE OR REPLACE VIEW {quoted(schema)}.{quoted(name)} AS {packed_select(data.schema, relation)}")


def add_union(connection: Any, name: str, parts: Sequence[str], schema: str = "main") -> None:
    """Shows the rows of several views of one SQL schema as one."""
    selects = " UNION ALL BY NAME ".join(f"SELECT * FROM {quoted(schema)}.{quoted(part)}" for part in parts)
    connection.execute(f"CREATE OR REPLACE VIEW {quoted(schema)}.{quoted(name)} AS {selects}")


def packed_select(schema: pa.Schema, relation: str) -> str:
    """A SELECT that packs flat signals ``operator__signal`` into one struct for each operator.

    DuckDB pushes a filter on ``operator.signal`` of this view down to the flat column.
    """
    plain = [quoted(name) for name in schema.names if SIGNAL_SEPARATOR not in name]
    packed = [_struct(operator, signals) for operator, signals in signals_by_operator(schema).items()]
    return f"SELECT {', '.join(plain + packed)} FROM {quoted(relation)}"


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


def view_names(connection: Any) -> list[str]:
    """The views that a question may name, sorted."""
    query = "SELECT view_name, temporary FROM duckdb_views() WHERE NOT internal AND schema_name = 'main' ORDER BY 1"
    # What `add_view` registers is temporary and starts with an underscore; `runs` and `snapshots` are temporary as well.
    return [name for name, temporary in connection.execute(query).fetchall() if not (temporary and name.startswith("_"))]
