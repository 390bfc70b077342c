"""The lake from Python: SQL, and versions of tables as Arrow, DuckDB, Polars and Hugging Face data sets.

For example ``dataplane.connect("my-project").sql("SHOW TABLES")``, or
``dataplane.open_snapshot("documents", at="v1", root="my-project").polars().collect()``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dataplane.errors import EnvironmentFault
from dataplane.lake.limits import LimitedConnection
from dataplane.lake.sql import MEMORY_LIMIT, ask, private_connection
from dataplane.lake.sql import connect as connect_lake
from dataplane.lake.store import Among
from dataplane.lake.views import add_view, quoted
from dataplane.params import digest
from dataplane.snapshot import DEFAULT_BATCH_ROWS, Snapshot, resolve

if TYPE_CHECKING:
    import datasets
    import polars


def connect(root: str | Path = ".", timeout: float | None = None, memory: str = MEMORY_LIMIT) -> Any:
    """A DuckDB connection with a view for each table, locked down as `dataplane sql` is: no files, no network, no settings.

    Args:
        root: Folder of the project.
        timeout: Seconds that a call may take, Ctrl-C included; None gives DuckDB's own connection, which has no limit.
        memory: What DuckDB may take; beyond it, it spills to a private folder.

    Raises:
        DataError: A table cannot be opened.
        UsageError: `memory` is no amount of memory.
    """
    connection = connect_lake(Path(root), memory_limit=memory)
    return connection if timeout is None else LimitedConnection(connection, connection, timeout)


def sql(query: str, root: str | Path = ".", timeout: float | None = None, memory: str = MEMORY_LIMIT) -> pa.Table:
    """The answer of `dataplane sql` to one question; a table may stand AT a version or a time.

    Args:
        query: One reading statement.
        root: Folder of the project.
        timeout: Seconds that DuckDB may take; None is without end.
        memory: What DuckDB may take.

    Raises:
        UsageError: It is not one reading statement, or DuckDB refuses it.
        DataError: It ran out of time or memory, or a version that it names is not there.
    """
    return ask(connect_lake(Path(root), memory_limit=memory), query, Path(root), timeout)


def open_snapshot(table: str, at: str = "current", root: str | Path = ".") -> OpenSnapshot:
    """One version of a table.

    Args:
        table: Name of the table.
        at: `current`, a tag, or a digest or its start.
        root: Folder of the project.

    Raises:
        DataError: There is no such version, or several.
    """
    return OpenSnapshot(resolve(table, at, Path(root)))


@dataclass(frozen=True)
class OpenSnapshot:
    """One version of a table, in whatever form it is wanted.

    Everywhere `columns` are those to read (all by default) and `among` is a column -> the values that rows may have
    in it; signals are flat columns ``operator__signal``, but packed as ``operator.signal`` in `duckdb`.

    Attributes:
        snapshot: Table, digest and number of rows.
    """

    snapshot: Snapshot

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.snapshot.schema

    def arrow(self, columns: Sequence[str] | None = None, among: Among = None) -> pa.Table:
        """All rows in stored order, in memory."""
        return self.snapshot.to_table(columns, among)

    def batches(
        self, columns: Sequence[str] | None = None, among: Among = None, batch_size: int = DEFAULT_BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Rows in stored order, streamed."""
        return self.snapshot.batches(columns, among, batch_size)

    @property
    def duckdb(self) -> Any:
        """A DuckDB relation on a locked-down connection of its own; it reads what is asked of it."""
        connection = private_connection()
        add_view(connection, self.snapshot.table, self.snapshot.dataset())
        return connection.sql(f"FROM {quoted(self.snapshot.table)}")

    def polars(self, columns: Sequence[str] | None = None, among: Among = None) -> polars.LazyFrame:
        """A lazy frame; Polars reads only the columns that it needs.

        Raises:
            EnvironmentFault: Polars is not installed.
        """
        pl = _optional("polars")
        frame: polars.LazyFrame = pl.scan_pyarrow_dataset(
            self.snapshot.dataset(),
            allow_pyarrow_filter=False,  # Lance takes no filter in that form on a table with large lists
        )
        if among:
            frame = frame.filter(*(pl.col(name).is_in(list(values)) for name, values in among.items()))
        return frame.select(list(columns)) if columns is not None else frame

    def dataset(self, columns: Sequence[str] | None = None, among: Among = None) -> datasets.Dataset:
        """A Hugging Face data set over an Arrow file, which is streamed to that library's cache once and then mapped.

        Raises:
            EnvironmentFault: The package `datasets` is not installed.
        """
        library = _optional("datasets")
        folder = Path(library.config.HF_DATASETS_CACHE) / "terraplane"
        chosen = {name: list(values) for name, values in (among or {}).items()}
        choice = digest({"columns": None if columns is None else list(columns), "among": chosen})
        path = folder / f"{self.snapshot.table}-{self.snapshot.digest}-{choice}.arrow"
        if not path.exists():
            self._write(path, columns, among)
        return library.Dataset.from_file(str(path))

    def _write(self, path: Path, columns: Sequence[str] | None, among: Among) -> None:
        """Writes an Arrow stream, atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with pa.ipc.new_stream(str(partial), schema) as writer:
                for batch in self.batches(columns, among):
                    writer.write_batch(batch)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _optional(package: str) -> ModuleType:
    """A package that only some need.

    Raises:
        EnvironmentFault: It is not installed.
    """
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise EnvironmentFault(f"{package} is not installed: {error}", fix=f"pip install {package}") from None
