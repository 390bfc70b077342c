"""Snapshots: a table at one content.

A snapshot file, ``lake/TABLE.json``, holds the content digest and nothing that differs between two equal runs (no
version number, no time, no path of a machine), so a DVC stage that depends on it sleeps while the content is the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.errors import DataError
from dataplane.kernels.hashing import row_hashes, sum128
from dataplane.lake import lance as store
from dataplane.schema import UNDIGESTED

LAKE = "lake"
DEFAULT_BATCH_ROWS = 4096


@dataclass(frozen=True)
class Snapshot:
    """One table at one content.

    Attributes:
        table: Name of the table.
        digest: Hex digest of its content and schema.
        rows: Number of rows.
        root: Folder of the project.
    """

    table: str
    digest: str
    rows: int
    root: Path = Path()

    @classmethod
    def load(cls, table: str, root: Path = Path()) -> Snapshot:
        """Reads the snapshot file of a table.

        Raises:
            DataError: The file is missing or damaged.
        """
        path = snapshot_path(table, root)
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(table=values["table"], digest=values["digest"], rows=values["rows"], root=root)
        except FileNotFoundError:
            raise DataError(f"table {table!r} is not there yet ({path})", fix="run `dvc repro`") from None
        except (ValueError, KeyError, TypeError):
            raise DataError(f"snapshot file {path} is damaged", fix="run `dvc checkout`, or `dvc repro` to make it again") from None

    @property
    def uri(self) -> str:
        """Where the table lies."""
        return table_uri(self.table, self.root)

    def dataset(self) -> Any:
        """The Lance data set at this content."""
        return store.open_version(self.uri, self.digest)

    def batches(
        self, columns: list[str] | None = None, filter: str | None = None, batch_size: int = DEFAULT_BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Rows in stored order.

        Args:
            columns: What to read; all by default.
            filter: SQL predicate over columns, pushed down.
            batch_size: Most rows in a batch.
        """
        yield from self.dataset().scanner(columns=columns, filter=filter, batch_size=batch_size, scan_in_order=True).to_batches()

    def to_table(self, columns: list[str] | None = None, filter: str | None = None) -> pa.Table:
        """All rows in stored order, in memory."""
        return self.dataset().to_table(columns=columns, filter=filter)

    def write(self) -> None:
        """Writes the snapshot file, atomically."""
        values = asdict(self)
        del values["root"]
        write_atomically(snapshot_path(self.table, self.root), json.dumps(values, indent=1, sort_keys=True) + "\n")


def table_uri(table: str, root: Path = Path()) -> str:
    """Where a table lies."""
    return str(root / LAKE / f"{table}.lance")


def snapshot_path(table: str, root: Path = Path()) -> Path:
    """Where a table's snapshot file lies."""
    return root / LAKE / f"{table}.json"


def write_atomically(path: Path, text: str) -> None:
    """Writes a file so that a reader sees the old content or the new, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


def content_sum(batch: pa.RecordBatch) -> int:
    """Sum of the row hashes over the digested columns: parts of a table add up, modulo 2^128."""
    columns = [name for name in batch.schema.names if name not in UNDIGESTED]
    return sum128(row_hashes(batch, columns))


def content_digest(schema: pa.Schema, rows: int, total: int) -> str:
    """Digest of a table from its schema, number of rows and summed row hashes."""
    import hashlib

    fields = "|".join(f"{field.name}:{field.type}" for field in schema if field.name not in UNDIGESTED)
    return hashlib.sha256(f"{fields}\n{rows}\n{total % (1 << 128):032x}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Part:
    """Fragments of a table written by one process, not yet part of a version.

    Attributes:
        fragments: Lance fragment metadata as JSON texts, in row order.
        rows: Their rows.
        total: Their summed row hashes.
    """

    fragments: list[str]
    rows: int
    total: int


def write_part(table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], root: Path = Path()) -> Part:
    """Streams batches to fragments and sums their content on the way."""
    rows = total = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows, total
        for batch in batches:
            rows += len(batch)
            total += content_sum(batch)
            yield batch

    fragments = store.write_fragments(table_uri(table, root), schema, counted())
    return Part(fragments, rows, total % (1 << 128))


def commit_parts(table: str, schema: pa.Schema, parts: Iterable[Part], root: Path = Path()) -> Snapshot:
    """Makes the parts, in order, the table's content. Where the newest version already is that content, it stands."""
    parts = list(parts)
    rows, total = sum(part.rows for part in parts), sum(part.total for part in parts)
    snapshot = Snapshot(table, content_digest(schema, rows, total), rows, root)
    if not store.has_version(snapshot.uri, snapshot.digest):
        store.commit(snapshot.uri, schema, [text for part in parts for text in part.fragments], tag=snapshot.digest)
    store.sweep(snapshot.uri)
    snapshot.write()
    return snapshot
