"""DuckDB over the lake: one view for each table, and no way to write or to read anything else.

The connection is locked down before a question reaches it: no file, network or extension access, no setting that could
bring them back, no Python variables, and room to spill only in a folder of its own. A question has to be one reading
statement and runs in a read-only transaction.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.errors import DataError, TerraplaneError, UsageError
from dataplane.lake import at, damage, objectstore
from dataplane.lake.limits import Watch
from dataplane.lake.runs import runs_table
from dataplane.lake.views import UNIONS, add_union, add_view
from dataplane.snapshot import Snapshot, tables

MEMORY_LIMIT = "2GB"
SPILL_LIMIT = "32GB"
BATCH_ROWS = 1 << 14
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)? ?[KMGT]i?B", re.IGNORECASE)
READING = "only one reading statement is answered (SELECT, FROM, DESCRIBE, SUMMARIZE, EXPLAIN)"
LOOK_AROUND = "`dataplane sql 'SHOW TABLES'` lists the tables, `DESCRIBE documents` a table's columns"


def connect(root: Path = Path(), *, memory_limit: str = MEMORY_LIMIT) -> Any:
    """A locked-down DuckDB connection with a view for each table of the project's lake.

    Args:
        root: Folder of the project.
        memory_limit: What DuckDB may take, such as 2GB.

    Raises:
        UsageError: The limit is no amount of memory.
    """
    connection = private_connection(memory_limit)
    there = [Snapshot.load(table, root) for table in tables(root)]
    for snapshot in there:
        add_view(connection, snapshot.table, snapshot.dataset())
    for name, parts in UNIONS.items():
        if have := [part for part in parts if part in tables(root)]:
            add_union(connection, name, have)
    connection.register("runs", runs_table(root))
    connection.register("snapshots", _snapshots(there))
    return connection


def private_connection(memory_limit: str = MEMORY_LIMIT) -> Any:
    """A DuckDB connection in memory that reaches nothing outside itself but its own spill folder, which goes with it.

    Raises:
        UsageError: The limit is no amount of memory.
    """
    import duckdb

    if not _AMOUNT.fullmatch(memory_limit):  # DuckDB takes -1 for no limit at all
        raise UsageError(f"{memory_limit!r} is no amount of memory", where="sql", fix="give it as in --memory 2GB")
    spill = tempfile.mkdtemp(prefix="terraplane-sql-")  # readable by its owner alone
    settings = {
        "python_enable_replacements": "false",
        "temp_directory": spill,
        "max_temp_directory_size": SPILL_LIMIT,
        "memory_limit": memory_limit,
        "allow_persistent_secrets": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    connection = duckdb.connect(":memory:", config=settings)
    weakref.finalize(connection, shutil.rmtree, spill, ignore_errors=True)
    connection.execute("SET TimeZone = 'UTC'")  # the same answer on every machine
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _snapshots(there: list[Snapshot]) -> pa.Table:
    return pa.table(
        {
            "table": pa.array([s.table for s in there], pa.string()),
            "digest": pa.array([s.digest for s in there], pa.string()),
            "rows": pa.array([s.rows for s in there], pa.int64()),
            "uri": pa.array([s.uri for s in there], pa.string()),
        }
    )


@dataclass(frozen=True)
class Answer:
    """The answer to a question, to be read once, in order.

    Attributes:
        schema: Its columns.
        batches: Its rows.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    def to_table(self) -> pa.Table:
        """All rows, in memory."""
        return pa.Table.from_batches(self.batches, schema=self.schema)


def ask(connection: Any, query: str, root: Path = Path(), timeout: float | None = None) -> pa.Table:
    """The whole answer to one read-only question; see `answering`."""
    with answering(connection, query, root, timeout) as answer:
        return answer.to_table()


@contextmanager
def answering(connection: Any, query: str, root: Path = Path(), timeout: float | None = None) -> Iterator[Answer]:
    """The answer to one read-only question, streamed.

    Args:
        connection: What `connect` returned.
        query: One reading statement; a table may be followed by AT (VERSION => ...) or AT (TIMESTAMP => ...).
        root: Folder of the project.
        timeout: Seconds that DuckDB may take; None is without end.

    Raises:
        UsageError: It is not one reading statement, or DuckDB refuses it; the message is DuckDB's own.
        DataError: It ran out of time or memory, or a version that it names is not there.
    """
    watch = Watch(connection, timeout)

    def evaluate(expression: str) -> str | None:
        with _reading(connection, f"SELECT CAST(({expression}) AS VARCHAR)", watch) as answer:
            text: str | None = answer.to_table().column(0)[0].as_py()
            return text

    with _errors_translated():
        rewritten = at.rewrite(connection, query, evaluate, root)
    with _reading(connection, rewritten, watch) as answer:
        yield answer


@contextmanager
def _reading(connection: Any, query: str, watch: Watch) -> Iterator[Answer]:
    """The answer to a question without AT."""
    with _errors_translated():
        _check_reading(connection, query)
        connection.execute("BEGIN TRANSACTION READ ONLY")
    try:
        with _errors_translated():
            reader = watch.call(lambda: connection.sql(query).to_arrow_reader(BATCH_ROWS))
        with reader:
            yield Answer(reader.schema, _translated(watch.batches(reader)))
    finally:
        connection.rollback()


def _translated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with _errors_translated():
        yield from batches


def _check_reading(connection: Any, query: str) -> None:
    """Refuses what is not one statement that reads."""
    import duckdb

    statements = connection.extract_statements(query)
    kinds = [statement.type for statement in statements]
    if kinds == [duckdb.StatementType.EXPLAIN]:
        # EXPLAIN ANALYZE runs what it explains.
        kinds = [statement.type for statement in connection.extract_statements(_explained(query))]
    if kinds == [duckdb.StatementType.MULTI]:
        raise UsageError(READING, where="sql", fix="a PIVOT has to name its values: PIVOT ... ON source IN ('a', 'b')")
    if kinds != [duckdb.StatementType.SELECT]:
        raise UsageError(READING, where="sql", fix="ask a SELECT")


def _explained(query: str) -> str:
    """The statement after EXPLAIN, ANALYZE and their options."""
    found = at.tokens(query)[1:]
    if found and found[0].text.lower() == "analyze":
        found = found[1:]
    if found and found[0].text == "(":
        found = found[1 + next((i for i, token in enumerate(found) if token.text == ")"), 0) :]
    return query.encode()[found[0].start :].decode() if found else ""


@contextmanager
def _errors_translated() -> Iterator[None]:
    """DuckDB's errors, also those that come through Arrow, as ours."""
    import duckdb

    try:
        yield
    except TerraplaneError:
        raise
    except (duckdb.Error, pa.ArrowException, OSError, ValueError) as error:
        raise _translation(error) from None


def _translation(error: Exception) -> TerraplaneError:
    text = str(error)
    if "Out of Memory Error" in text:
        return DataError(_first_line(error), where="sql", fix="ask for fewer columns, or raise --memory (`memory` in Python)")
    if "reading the stream registered as" in text:
        if fault := objectstore.fault_told("sql", text):
            return fault
        return DataError(damage.first_line(error), where="sql", fix=damage.FIX)
    if 'near "AT"' in text:
        return UsageError(text, where="sql", fix=at.SHAPE)
    return UsageError(text, where="sql", fix=LOOK_AROUND)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
