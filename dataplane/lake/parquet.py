"""Parquet tables: a folder of immutable files. The manifests are the versions; there is no other book."""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import operator
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane.errors import DataError
from dataplane.lake import objectstore
from dataplane.lake.store import FIX, MANIFESTS, Among, Data, Store, Version

MAX_ROWS_PER_FILE = 1 << 21  # above what a fragment is given: one call makes one file
ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 16
NEWEST = "newest"  # in the folder of manifests: the digest that was committed last


class ParquetData(Data):
    """A version of a Parquet table.

    Args:
        files: Locations, in row order.
        rows: Their rows.
        schema: What they hold.
        filesystem: Where they are.
    """

    def __init__(self, files: Sequence[str], rows: Sequence[int], schema: pa.Schema, filesystem: Any) -> None:
        import pyarrow.dataset as ds

        self._files, self._filesystem = list(files), filesystem
        self._ends = list(itertools.accumulate(rows))
        self.schema = schema
        self.relation = ds.dataset(self._files, schema=schema, filesystem=filesystem, format="parquet")

    def batches(
        self, columns: Sequence[str] | None, among: Among, batch_size: int, offset: int, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows in stored order."""
        if among is not None or (not offset and limit is None):
            names = list(columns) if columns is not None else None
            chosen = _expression(among) if among else None
            yield from self.relation.scanner(columns=names, filter=chosen, batch_size=batch_size).to_batches()
            return
        stop = self._ends[-1] if self._ends else 0
        stop = stop if limit is None else min(stop, offset + limit)
        first = bisect.bisect_right(self._ends, offset)
        for i in range(first, len(self._files)):
            start = self._ends[i - 1] if i else 0
            if start >= stop:
                return
            yield from self._part(self._files[i], columns, batch_size, max(offset - start, 0), stop - start)

    def _part(self, file: str, columns: Sequence[str] | None, batch_size: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Rows `start` to `stop` of one file, from the row groups that hold them."""
        import pyarrow.parquet as pq

        with self._filesystem.open(file, "rb") as stream:
            reader = pq.ParquetFile(stream)
            groups, ends = [], list(itertools.accumulate(reader.metadata.row_group(g).num_rows for g in range(reader.num_row_groups)))
            groups = [g for g, end in enumerate(ends) if end > start and (ends[g - 1] if g else 0) < stop]
            at = (ends[groups[0] - 1] if groups and groups[0] else 0) if groups else 0
            names = list(columns) if columns is not None else None
            for batch in reader.iter_batches(batch_size=batch_size, row_groups=groups, columns=names):
                low, high = max(start - at, 0), min(stop - at, len(batch))
                at += len(batch)
                if low < high:
                    part = batch.slice(low, high - low)
                    yield part if names is None else part.select(names)

    def take(self, rows: Sequence[int], columns: Sequence[str] | None) -> pa.Table:
        """Rows by their place: only the row groups that hold them are read."""
        wanted = sorted(set(rows))
        names = list(columns) if columns is not None else self.schema.names
        found: list[pa.RecordBatch] = []
        for start, stop in _runs(wanted):
            found += self.batches(names, None, ROW_GROUP_ROWS, start, stop - start)
        schema = pa.schema([self.schema.field(name) for name in names])
        table = pa.Table.from_batches(found, schema=schema)
        return table.take(pc.index_in(pa.array(list(rows), pa.int64()), pa.array(wanted, pa.int64())))


def _expression(among: Mapping[str, Sequence[str | int]]) -> Any:
    """The choice as a pyarrow expression."""
    return functools.reduce(operator.and_, [pc.field(name).isin(list(values)) for name, values in among.items()])


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Half-open ranges of neighbouring numbers."""
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in group]
        yield members[0], members[-1] + 1


class ParquetStore(Store):
    """Tables as folders of Parquet files."""

    suffix = "parquet"

    def write(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> list[str]:
        """Writes batches as files that no manifest names yet."""
        written: list[str] = []
        rows = (batch for batch in batches if len(batch))
        while (first := next(rows, None)) is not None:
            written.append(self._write_file(table, schema, itertools.chain([first], rows)))
        return written

    def _write_file(self, table: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> str:
        import pyarrow.parquet as pq

        name = f"{uuid.uuid4().hex}.parquet"
        uri = self._data_file(table, name)
        filesystem = objectstore.filesystem(uri)
        filesystem.makedirs(uri.rsplit("/", 1)[0], exist_ok=True)
        count = 0
        with filesystem.open(uri, "wb") as stream, pq.ParquetWriter(stream, schema, compression="zstd", store_schema=True) as writer:
            waiting: list[pa.RecordBatch] = []
            for batch in batches:
                waiting.append(batch)
                count += len(batch)
                if sum(b.nbytes for b in waiting) >= ROW_GROUP_BYTES or sum(len(b) for b in waiting) >= ROW_GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(waiting, schema=schema))
                    waiting = []
                if count >= MAX_ROWS_PER_FILE:
                    break
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting, schema=schema))
        return json.dumps({"path": name})

    def files(self, data: str) -> list[str]:
        """Names of a fragment's data files."""
        return [json.loads(data)["path"]]

    def publish(self, table: str, schema: pa.Schema, version: Version) -> None:
        """Notes which version is the newest, and its schema (a table without rows has no file to tell it)."""
        folder = objectstore.join(self.table_uri(table), MANIFESTS)
        objectstore.put_text(objectstore.join(folder, f"{version.digest}.schema"), schema.serialize().to_pybytes().hex())
        objectstore.put_text(objectstore.join(folder, NEWEST), version.digest)

    def open(self, table: str, digest: str) -> ParquetData:
        """The version with this content."""
        version = self.version(table, digest)
        if version is None:
            raise DataError(f"{self.table_uri(table)} has no version with digest {digest}", fix=FIX)
        files = [self._data_file(table, name) for fragment in version.fragments for name in self.files(fragment.data)]
        return ParquetData(files, [f.rows for f in version.fragments], self._schema(table, digest), objectstore.filesystem(self.uri))

    def _schema(self, table: str, digest: str) -> pa.Schema:
        text = objectstore.get_text(objectstore.join(self.table_uri(table), MANIFESTS, f"{digest}.schema"))
        return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))

    def is_newest(self, table: str, digest: str) -> bool:
        """Whether the version was committed last."""
        try:
            return objectstore.get_text(objectstore.join(self.table_uri(table), MANIFESTS, NEWEST)) == digest
        except FileNotFoundError:
            return False

    def used(self, table: str) -> set[str]:
        """Names of the data files that some manifest names."""
        return {name for version in self.versions(table) for fragment in version.fragments for name in self.files(fragment.data)}

    def forget(self, table: str, digests: Sequence[str]) -> None:
        """Removes what is kept beside the manifests."""
        for digest in digests:
            objectstore.remove(objectstore.join(self.table_uri(table), MANIFESTS, f"{digest}.schema"))
