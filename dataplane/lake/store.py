"""What a table format must do, and the books that every format keeps in the same way.

A version of a table is a list of immutable fragments. Its manifest, ``TABLE.SUFFIX/_snapshots/DIGEST.json``, names
them with their rows and their summed row hashes, so a damaged fragment can be named, a version can be found by its
content, and work can be skipped for fragments that have not changed.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import pyarrow as pa

from dataplane.errors import DataError
from dataplane.lake import objectstore

MANIFESTS = "_snapshots"
DROPPED = ".dropped"  # ends the name of a manifest whose version is gone, until its files are, too
FIX = "run `dvc checkout`, or `dvc repro` to make it again"


# Column -> the values that rows may have in it; every column named has to agree. None takes all rows.
Among = Mapping[str, Sequence[str | int]] | None


@dataclass(frozen=True)
class Fragment:
    """Rows of a table that were written together, and are never changed.

    Attributes:
        data: The format's own description of its files, as text.
        rows: Number of rows.
        total: Sum of the row hashes, modulo 2^128, in hex.
    """

    data: str
    rows: int
    total: str


@dataclass(frozen=True)
class Version:
    """One content of a table, as its manifest tells.

    Attributes:
        digest: Content digest.
        rows: Number of rows.
        created_at: When it was first committed (UTC, ISO 8601).
        columns: (name, Arrow type) of each column.
        fragments: In row order.
    """

    digest: str
    rows: int
    created_at: str
    columns: list[tuple[str, str]]
    fragments: list[Fragment]


class Data(ABC):
    """One version of a table, open for reading.

    Attributes:
        uri: Where the table lies.
        schema: Its Arrow schema.
        relation: What DuckDB can register; it pushes columns and filters down.
    """

    uri: str
    schema: pa.Schema
    relation: Any

    @abstractmethod
    def batches(
        self, columns: Sequence[str] | None, among: Among, batch_size: int, offset: int, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows in stored order; `among` excludes `offset` and `limit`."""

    @abstractmethod
    def take(self, rows: Sequence[int], columns: Sequence[str] | None) -> pa.Table:
        """Rows by their place, in the order asked."""

    @abstractmethod
    def damaged(self) -> str | None:
        """The location of the first data file that is missing or cannot be read; None where all can."""


class Store(ABC):
    """The tables of one lake in one format.

    Args:
        uri: Folder or object-store prefix of the lake.
        grace_seconds: Age below which a file that no version refers to is left alone: a run of somebody else may be
            about to commit it.
    """

    suffix: ClassVar[str]
    adds_columns: ClassVar[bool] = False  # whether a fragment can hold its columns in several files

    def __init__(self, uri: str, grace_seconds: float = 0.0) -> None:
        self.uri, self.grace_seconds = uri, grace_seconds

    def table_uri(self, table: str) -> str:
        """Where a table lies."""
        return objectstore.join(self.uri, f"{table}.{self.suffix}")

    @abstractmethod
    def write(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[str]:
        """Writes batches as data files that no version refers to yet; their descriptions, none for no rows."""

    @abstractmethod
    def files(self, data: str) -> list[str]:
        """Names of a fragment's data files."""

    @abstractmethod
    def publish(self, table: str, schema: pa.Schema, version: Version) -> None:
        """Makes the fragments, in order, the whole of the table's newest version, known by its digest."""

    @abstractmethod
    def open(self, table: str, digest: str) -> Data:
        """The version with this content.

        Raises:
            DataError: The table or the version is not there.
        """

    @abstractmethod
    def is_newest(self, table: str, digest: str) -> bool:
        """Whether somebody who opens the table without asking for a version sees this content."""

    @abstractmethod
    def used(self, table: str) -> set[str]:
        """Names of the data files that some version refers to."""

    @abstractmethod
    def forget(self, table: str, digests: Sequence[str]) -> None:
        """Removes versions, but not yet their data files."""

    def fragment_batches(self, table: str, digest: str, data: str, columns: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        """Rows of one fragment of a version, in stored order. Only where `adds_columns`."""
        raise NotImplementedError(self.suffix)

    def add_columns(self, table: str, data: str, before: pa.Schema, after: pa.Schema, batches: Iterable[pa.RecordBatch]) -> str:
        """A fragment with some columns added or replaced, its other files untouched. Only where `adds_columns`."""
        raise NotImplementedError(self.suffix)

    def keep_columns(self, data: str, before: pa.Schema, after: pa.Schema) -> str:
        """A fragment with only the columns of `after`, nothing written. Only where `adds_columns`."""
        raise NotImplementedError(self.suffix)

    def commit(self, table: str, schema: pa.Schema, digest: str, fragments: Sequence[Fragment]) -> None:
        """Makes the fragments the table's content. Where an earlier version has that content, its files serve again."""
        known = self.version(table, digest)
        stands = known is not None and self.has_files(table, known.fragments)
        if known is None or not stands:
            columns = [(field.name, str(field.type)) for field in schema]
            known = Version(digest, sum(f.rows for f in fragments), datetime.now(UTC).isoformat(), columns, list(fragments))
            objectstore.put_text(self._manifest(table, digest), json.dumps(asdict(known), indent=1) + "\n")
        if not (stands and self.is_newest(table, digest)):
            self.publish(table, schema, known)

    def version(self, table: str, digest: str) -> Version | None:
        """The manifest of a version, None where there is none.

        Raises:
            DataError: It is damaged.
        """
        path = self._manifest(table, digest)
        try:
            values = json.loads(objectstore.get_text(path))
            columns = [(name, kind) for name, kind in values["columns"]]
            return Version(**values | {"columns": columns, "fragments": [Fragment(**f) for f in values["fragments"]]})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            fix = f"run `dvc checkout`; or remove {path}, and its stage, run again, writes it anew"
            raise DataError(f"manifest {path} is damaged", fix=fix) from None

    def versions(self, table: str) -> list[Version]:
        """All versions, oldest first."""
        names = objectstore.sizes(objectstore.join(self.table_uri(table), MANIFESTS))
        found = [self.version(table, name.removesuffix(".json")) for name in names if name.endswith(".json") and name[0] != "."]
        return sorted((version for version in found if version), key=lambda version: (version.created_at, version.digest))

    def data_files(self, table: str) -> dict[str, int]:
        """Name -> bytes of every data file, referred to or not."""
        return objectstore.sizes(objectstore.join(self.table_uri(table), "data"))

    def has_files(self, table: str, fragments: Iterable[Fragment]) -> bool:
        """Whether the data files of these fragments are there."""
        have = self.data_files(table)
        return all(name in have for fragment in fragments for name in self.files(fragment.data))

    def drop(self, table: str, digests: Sequence[str]) -> None:
        """Forgets versions and removes the data files that only they referred to, however young these are.

        A version is gone at once: its manifest is renamed, and what it leaves is removed after that. A drop that was killed is ended by
        the next `finish` or `sweep`.
        """
        for digest in digests:
            if version := self.version(table, digest):
                objectstore.put_text(self._dropped(table, digest), json.dumps(asdict(version), indent=1) + "\n")
                objectstore.remove(self._manifest(table, digest))
        self.sweep(table)

    def half_dropped(self, table: str) -> list[str]:
        """Digests of versions that are gone, and whose data files may not be."""
        names = objectstore.sizes(objectstore.join(self.table_uri(table), MANIFESTS))
        return sorted(name.removesuffix(DROPPED) for name in names if name.endswith(DROPPED) and name[0] != ".")

    def finish(self, table: str) -> None:
        """Removes what dropped versions left behind. Only for the holder of the table's lock."""
        left = self.half_dropped(table)
        if not left:
            return
        # A digest that was committed again since has a manifest, and stays.
        gone = [digest for digest in left if self.version(table, digest) is None]
        texts = [objectstore.get_text(self._dropped(table, digest)) for digest in left]
        fragments = [Fragment(**fragment) for text in texts for fragment in json.loads(text)["fragments"]]
        self.forget(table, gone)
        for name in {name for fragment in fragments for name in self.files(fragment.data)} - self.used(table):
            objectstore.remove(self._data_file(table, name))
        for digest in left:
            objectstore.remove(self._dropped(table, digest))

    def sweep(self, table: str) -> list[str]:
        """Removes data files that no version refers to, once they are older than the grace. Only for the holder of the table's lock.

        Returns:
            Their names.
        """
        self.finish(table)
        used = self.used(table)
        files = objectstore.files(objectstore.join(self.table_uri(table), "data"))
        limit = time.time() - self.grace_seconds if self.grace_seconds else math.inf
        orphans = [name for name, file in files.items() if name not in used and file.modified < limit]
        for name in orphans:
            objectstore.remove(self._data_file(table, name))
        folder = objectstore.join(self.table_uri(table), MANIFESTS)
        for name, file in objectstore.files(folder).items():
            if name.endswith(objectstore.PARTIAL) and file.modified < limit:  # a killed run left it half-written
                objectstore.remove(objectstore.join(folder, name))
        return sorted(orphans)

    def _manifest(self, table: str, digest: str) -> str:
        return objectstore.join(self.table_uri(table), MANIFESTS, f"{digest}.json")

    def _dropped(self, table: str, digest: str) -> str:
        return objectstore.join(self.table_uri(table), MANIFESTS, f"{digest}{DROPPED}")

    def _data_file(self, table: str, name: str) -> str:
        return objectstore.join(self.table_uri(table), "data", name)
