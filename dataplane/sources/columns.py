"""Rows of Arrow batches as records, and the columns that they need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dataplane.source import Fault, Record
from dataplane.sources.fields import Fields, Locator, record_of

# What reading damaged data raises; pyarrow's own errors derive from these.
DAMAGE = (pa.ArrowException, OSError, ValueError)


def wanted(schema: pa.Schema, fields: Fields) -> list[str]:
    """The columns to read, a member of a struct by its dotted path: the named ones and, for `meta`, the scalar ones."""
    named = [path if path in schema.names else _column(path) for path in fields.paths()]
    small = [] if fields.meta is not None else [field.name for field in schema if _is_scalar(field.type)]
    return list(dict.fromkeys(name for name in (*named, *small) if name.partition(".")[0] in schema.names or name in schema.names))


def _column(path: str) -> str:
    """The part of a path that Parquet can read alone: nothing behind the number of an element."""
    parts = path.split(".")
    numbered = next((i for i, part in enumerate(parts) if part.isdecimal()), None)
    return path if numbered is None else parts[0]


def records_of(batch: pa.RecordBatch, first_row: int, fields: Fields, mime: str) -> Iterator[Record | Fault]:
    """One record a row.

    Args:
        batch: The rows.
        first_row: Number of the first.
        fields: Which column is what.
        mime: What the text is.
    """
    for row, values in enumerate(_values(batch), first_row):
        if isinstance(values, str):
            yield Fault(-1, "BadRow", f"row {row} cannot be read ({values})")
        else:
            yield record_of(values, fields, Locator(-1, -1, row), mime)


def _is_scalar(kind: pa.DataType) -> bool:
    of_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(of_text or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _values(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | str]:
    """Each row, or the name of what it raises: text that is no UTF-8 must not cost its neighbours."""
    try:
        yield from batch.to_pylist()
    except (ValueError, pa.ArrowException) as error:
        if len(batch) == 1:
            yield type(error).__name__
            return
        for i in range(len(batch)):
            yield from _values(batch.slice(i, 1))
