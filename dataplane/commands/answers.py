"""How the answer to a question is written: to the screen, a pipe or a file, as it streams in."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from dataplane.commands.printing import json_text, rows_as_table
from dataplane.errors import EnvironmentFault, UsageError

MOST_ROWS_SHOWN = 1000
SUFFIXES = {".json": "json", ".csv": "csv", ".parquet": "parquet"}


def chosen_format(style: str | None, out: Path | None) -> str:
    """The format asked for; where none is, that of the file's suffix, or a table for the screen.

    Raises:
        UsageError: No format fits the file, or Parquet would go to a terminal.
    """
    style = style or (SUFFIXES.get(out.suffix, "") if out else "table")
    if out and style in ("", "table"):
        raise UsageError(f"{out}: a file is written as json, csv or parquet", fix="give --format json, csv or parquet")
    if style == "parquet" and not out and sys.stdout.isatty():
        raise UsageError("Parquet is not for a terminal", fix="give --out FILE.parquet, or pipe it somewhere")
    return style


def write_answer(answer: Any, style: str, out: Path | None) -> None:
    """Writes an answer, in bounded memory.

    Args:
        answer: `dataplane.lake.sql.Answer`.
        style: table, json, csv or parquet.
        out: File that is replaced once the answer is complete; None is stdout.
    """
    writers: dict[str, Callable[[Any, IO[bytes]], None]] = {"json": _as_json, "csv": _as_csv, "parquet": _as_parquet}
    if style == "table":
        show(answer)
    elif out:
        with _replacing(out) as stream:
            writers[style](answer, stream)
    elif style == "parquet":
        _through_a_file(answer, _as_parquet)
    else:
        writers[style](answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def show(answer: Any) -> None:
    """Prints the first rows as a table, and says so where there are more."""
    rows: list[dict[str, Any]] = []
    for batch in answer.batches:
        rows += batch.slice(0, MOST_ROWS_SHOWN + 1 - len(rows)).to_pylist()
        if len(rows) > MOST_ROWS_SHOWN:
            break
    rows_as_table(answer.schema.names, rows[:MOST_ROWS_SHOWN])
    if len(rows) > MOST_ROWS_SHOWN:
        click.echo(f"only the first {MOST_ROWS_SHOWN:,} rows are shown; --format json, csv or parquet gives them all", err=True)


def _as_json(answer: Any, stream: IO[bytes]) -> None:
    """An array with one object a line."""
    separator = "[\n"
    for batch in answer.batches:
        for row in batch.to_pylist():
            stream.write((separator + json.dumps(_plain(row), ensure_ascii=False)).encode())
            separator = ",\n"
    stream.write(b"[]\n" if separator == "[\n" else b"\n]\n")


def _as_csv(answer: Any, stream: IO[bytes]) -> None:
    """Text in quotes, nulls empty; lists, structs and bytes as JSON text."""
    import pyarrow as pa
    from pyarrow import csv

    schema = pa.schema([pa.field(field.name, pa.string() if _needs_text(field.type) else field.type) for field in answer.schema])
    with csv.CSVWriter(stream, schema) as writer:
        for batch in answer.batches:
            columns = [_as_text(column) if _needs_text(column.type) else column for column in batch.columns]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def _as_parquet(answer: Any, stream: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetWriter(stream, answer.schema, compression="zstd") as writer:
            for batch in answer.batches:
                writer.write_batch(batch)
    except pa.ArrowNotImplementedError as error:
        raise UsageError(f"Parquet cannot hold a column of the answer: {error}", fix="cast it in the question: column::VARCHAR") from None


def _through_a_file(answer: Any, write: Callable[[Any, IO[bytes]], None]) -> None:
    """To stdout by way of a temporary file: a pipe has no places to go back to, and half an answer is none."""
    with tempfile.TemporaryFile() as stream:
        write(answer, stream)
        stream.seek(0)
        shutil.copyfileobj(stream, sys.stdout.buffer)
    sys.stdout.buffer.flush()


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its place once it is complete; what was there before stays until then."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        fix = "name a file in a folder that is there"
        raise EnvironmentFault(f"cannot write {path}: {error.strerror or error}", fix=fix) from None
    finally:
        partial.unlink(missing_ok=True)


def _needs_text(kind: Any) -> bool:
    """Whether CSV has no form of its own for values of this type."""
    import pyarrow as pa

    types = pa.types
    tests = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_nested, types.is_dictionary, types.is_interval)
    return any(test(kind) for test in tests)


def _as_text(column: Any) -> Any:
    import pyarrow as pa

    plain = [_plain(value) for value in column.to_pylist()]
    texts = [value if value is None or isinstance(value, str) else json_text(value) for value in plain]
    return pa.array(texts, pa.string())


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: bytes in Base64, no NaN, other kinds as their text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)
