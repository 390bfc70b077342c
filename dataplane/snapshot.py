"""Snapshots: a table at one content.

A snapshot file, ``lake/TABLE.json``, holds the content digest and nothing that differs between two equal runs (no
version number, no time, no path of a machine), so a DVC stage that depends on it sleeps while the content is the same.
The rows lie in the lake's store, which finds them by the digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import yaml

from dataplane.errors import DataError
from dataplane.kernels.hashing import row_hashes, sum128
from dataplane.lake.lance import LanceStore
from dataplane.lake.objectstore import write_atomically
from dataplane.lake.parquet import ParquetStore
from dataplane.lake.store import Among, Data, Fragment, Store
from dataplane.schema import UNDIGESTED
from dataplane.settings import LakeSettings, load_settings

T = TypeVar("T")

LAKE = "lake"
TAGS = "snapshots.yaml"
DEFAULT_BATCH_ROWS = 4096
TABLE_BATCH_ROWS = 1 << 16
FRAGMENT_BYTES = 256 << 20
FRAGMENT_ROWS = 1 << 20
MIN_DIGEST_CHARS = 6
# Where several projects share a lake, a file without a version may belong to a run of somebody else that is under way.
SHARED_GRACE_SECONDS = 7 * 24 * 3600.0
_MODULUS = 1 << 128


def open_store(root: Path = Path()) -> Store:
    """The store of a project's lake, as its settings say."""
    return open_lake(load_settings(root).lake, root)


def open_lake(lake: LakeSettings, root: Path = Path()) -> Store:
    """The store of a lake that is in this format and place."""
    kind = {"lance": LanceStore, "parquet": ParquetStore}[lake.format]
    return kind(lake.uri or str(root / LAKE), SHARED_GRACE_SECONDS if lake.uri else 0.0)


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
            found = cls.parse(path.read_text(encoding="utf-8"), root)
            if found.table != table:
                raise ValueError(f"of table {found.table!r}")
            return found
        except FileNotFoundError:
            raise DataError(f"table {table!r} is not there yet ({path})", fix="run `dvc repro`") from None
        except (ValueError, KeyError, TypeError):
            raise DataError(f"snapshot file {path} is damaged", fix="run `dvc checkout`, or `dvc repro` to make it again") from None

    @classmethod
    def parse(cls, text: str, root: Path = Path()) -> Snapshot:
        """A snapshot from the text of its file.

        Raises:
            ValueError, KeyError, TypeError: It is damaged.
        """
        values = json.loads(text)
        snapshot = cls(table=values["table"], digest=values["digest"], rows=values["rows"], root=root)
        if not (re.fullmatch("[0-9a-f]{32}", snapshot.digest) and isinstance(snapshot.rows, int)):
            raise ValueError("no digest, or no number of rows")
        return snapshot

    @property
    def uri(self) -> str:
        """Where the table lies."""
        return open_store(self.root).table_uri(self.table)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        return self.open().schema

    def open(self) -> Data:
        """The rows, open for reading; keep it where much is read.

        Raises:
            DataError: The store has no such version.
        """
        return open_store(self.root).open(self.table, self.digest)

    def dataset(self) -> Any:
        """What DuckDB can register and filter."""
        return self.open().relation

    def batches(
        self,
        columns: Sequence[str] | None = None,
        among: Among = None,
        batch_size: int = DEFAULT_BATCH_ROWS,
        offset: int = 0,
        limit: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows in stored order.

        Args:
            columns: What to read; all by default.
            among: Column -> values that rows may have in it, pushed down; excludes `offset` and `limit`.
            batch_size: Most rows in a batch.
            offset: First row.
            limit: Most rows in all.
        """
        yield from self.open().batches(columns, among, batch_size, offset, limit)

    def to_table(self, columns: Sequence[str] | None = None, among: Among = None) -> pa.Table:
        """All rows in stored order, in memory."""
        data = self.open()
        schema = data.schema if columns is None else pa.schema([data.schema.field(name) for name in columns])
        return pa.Table.from_batches(data.batches(columns, among, TABLE_BATCH_ROWS, 0, None), schema=schema)

    def take(self, rows: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by their place, in the order asked."""
        return self.open().take(rows, columns)

    def fragments(self) -> list[Fragment]:
        """The pieces that the table is stored in, in row order.

        Raises:
            DataError: The store has no such version.
        """
        version = open_store(self.root).version(self.table, self.digest)
        if version is None:
            raise DataError(f"{self.uri} has no version with digest {self.digest}", fix="run `dvc checkout`, or `dvc repro`")
        return version.fragments

    def text(self) -> str:
        """What the snapshot file holds."""
        return json.dumps({"table": self.table, "digest": self.digest, "rows": self.rows}, indent=1, sort_keys=True) + "\n"

    @property
    def md5(self) -> str:
        """What DVC knows the snapshot file by."""
        return hashlib.md5(self.text().encode(), usedforsecurity=False).hexdigest()

    def write(self) -> None:
        """Writes the snapshot file, atomically."""
        write_atomically(snapshot_path(self.table, self.root), self.text(), self.table)


def snapshot_path(table: str, root: Path = Path()) -> Path:
    """Where a table's snapshot file lies."""
    return root / LAKE / f"{table}.json"


def tables(root: Path = Path()) -> list[str]:
    """Names of the tables that have a snapshot file, sorted."""
    return sorted(path.stem for path in (root / LAKE).glob("*.json"))


def read_tags(root: Path = Path()) -> dict[str, dict[str, str]]:
    """Tag -> table -> digest, from snapshots.yaml, which Git keeps.

    Raises:
        DataError: The file is damaged.
    """
    path = root / TAGS
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no YAML: {error}", fix=f"restore it: git checkout -- {TAGS}") from None
    if not (isinstance(loaded, dict) and all(isinstance(entry, dict) for entry in loaded.values())):
        raise DataError(f"{path} is no mapping of tag to table to digest", fix=f"restore it: git checkout -- {TAGS}")
    return loaded


def resolve(table: str, name: str, root: Path = Path()) -> Snapshot:
    """The version of a table that a name means: `current`, a tag, or a digest or its start.

    Raises:
        DataError: No version is called so, or several are.
    """
    if name == "current":
        return Snapshot.load(table, root)
    versions = open_store(root).versions(table)
    tagged = read_tags(root).get(name, {}).get(table)
    if tagged is None and re.fullmatch(rf"[0-9a-f]{{{MIN_DIGEST_CHARS},32}}", name):
        found = [version for version in versions if version.digest.startswith(name)]
    else:
        found = [version for version in versions if version.digest == tagged]
    if len(found) == 1:
        return Snapshot(table, found[0].digest, found[0].rows, root)
    known = [*(tag for tag, of in read_tags(root).items() if table in of), *(version.digest for version in versions)]
    what = "is the start of several versions" if found else "is no version"
    raise DataError(
        f"{name!r} {what} of {table!r}; known: {', '.join(known) or 'none'}", fix=f"`dataplane snapshot list {table}` shows them"
    )


def find_version(table: str, digest: str, root: Path = Path()) -> Snapshot | None:
    """A version by its digest; None where the store no longer has it whole."""
    store = open_store(root)
    version = store.version(table, digest)
    return Snapshot(table, digest, version.rows, root) if version and store.has_files(table, version.fragments) else None


def content_sum(batch: pa.RecordBatch) -> int:
    """Sum of the row hashes over the digested columns, by name: parts of a table add up, modulo 2^128."""
    columns = sorted(name for name in batch.schema.names if name not in UNDIGESTED)
    return sum128(row_hashes(batch, columns))


def content_digest(schema: pa.Schema, rows: int, total: int) -> str:
    """Digest of a table from its columns, in whatever order, its number of rows and its summed row hashes."""
    fields = "|".join(sorted(f"{field.name}:{field.type}" for field in schema if field.name not in UNDIGESTED))
    return hashlib.sha256(f"{fields}\n{rows}\n{total % _MODULUS:032x}".encode()).hexdigest()[:32]


def write_part(table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], root: Path = Path()) -> list[Fragment]:
    """Streams batches to fragments that belong to no version yet, and sums their content on the way."""
    return write_fragments(open_store(root), table, schema, batches)


def write_fragments(store: Store, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[Fragment]:
    """As `write_part`, to a store that need not be the project's."""
    rest = (part for batch in batches for part in _slices(batch))
    written: list[Fragment] = []
    while (first := next(rest, None)) is not None:
        counter = _Counter(first, rest)
        (data,) = store.write(table, schema, _ahead(counter))
        written.append(Fragment(data, counter.rows, f"{counter.total % _MODULUS:032x}"))
    return written


def _ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, each made in a thread of its own while the one before is written."""
    rest, nothing = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, rest, nothing)
        while (item := waiting.result()) is not nothing:
            waiting = pool.submit(next, rest, nothing)
            yield item  # type: ignore[misc]


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts small enough that one more never makes a fragment too large."""
    yield from (batch.slice(start, FRAGMENT_ROWS // 2) for start in range(0, len(batch), FRAGMENT_ROWS // 2))


class _Counter:
    """Hands batches on until a fragment is full, and counts them."""

    def __init__(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> None:
        self._first, self._rest = first, rest
        self.rows = self.total = self._bytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        batch: pa.RecordBatch | None = self._first
        while batch is not None:
            self.rows += len(batch)
            self.total += content_sum(batch)
            self._bytes += batch.nbytes
            yield batch
            batch = next(self._rest, None) if self._has_room() else None

    def _has_room(self) -> bool:
        return self._bytes < FRAGMENT_BYTES and self.rows < FRAGMENT_ROWS // 2


def commit_parts(table: str, schema: pa.Schema, parts: Iterable[Sequence[Fragment]], root: Path = Path()) -> Snapshot:
    """Makes the fragments of the parts, in order, the table's content. Where the newest version already is that content, it stands."""
    fragments = [fragment for part in parts for fragment in part]
    rows, total = sum(fragment.rows for fragment in fragments), sum(int(fragment.total, 16) for fragment in fragments)
    snapshot = Snapshot(table, content_digest(schema, rows, total), rows, root)
    store = open_store(root)
    store.commit(table, schema, snapshot.digest, fragments)
    store.sweep(table)
    snapshot.write()
    return snapshot
