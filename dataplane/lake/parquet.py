"""Parquet tables: a folder of immutable files. The manifests are the versions; there is no other book."""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import operator
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane.errors import DataError
from dataplane.lake import damage, objectstore
from dataplane.lake.store import FIX, MANIFESTS, Among, Data, Store, Version

MAX_ROWS_PER_FILE = 1 << 21  # above what a fragment is given: one call makes one file
ROW_GROUP_BYTES = 16 << 20  # in memory; a row that is asked for by its place costs its row group
ROW_GROUP_ROWS = 1 << 16
# What a scan of local files holds at once; the reader's own limits are for far stores.
NEAR = {"batch_readahead": 4, "fragment_readahead": 1}
NEWEST = "newest"  # in the folder of manifests: the digest that was committed last


@objectstore.reports_faults
class ParquetData(Data):
    """A version of a Parquet table.

    Args:
        uri: Where the table lies.
        files: Locations, in row order.
        rows: Their rows.
        schema: What they hold.
        filesystem: Where they are.
    """

    def __init__(self, uri: str, files: Sequence[str], rows: Sequence[int], schema: pa.Schema, filesystem: Any) -> None:
        import pyarrow.dataset as ds

        self.uri, self._files, self._filesystem = uri, list(files), filesystem
        self._ends = list(itertools.accumulate(rows))
        self.schema = schema
        checked = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True))
        with damage.named(uri, self.damaged):
            paths, native = objectstore.arrow_files(self._files)
            self.relation = ds.dataset(paths, schema=schema, filesystem=native, format=checked)

    def batches(
        self, columns: Sequence[str] | None, among: Among, batch_size: int, offset: int, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows in stored order."""
        names = list(columns) if columns is not None else None
        with damage.named(self.uri, self.damaged):
            if among is not None or (not offset and limit is None):
                chosen = _expression(among) if among else None
                options = {"batch_size": batch_size} | ({} if objectstore.is_remote(self.uri) else NEAR)
                yield from self.relation.scanner(columns=names, filter=chosen, **options).to_batches()
            else:
                yield from self._range(names, batch_size, offset, limit)

    def _range(self, columns: Sequence[str] | None, batch_size: int, offset: int, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Rows from `offset` on."""
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
        with self._reader(file) as reader:
            ends = _row_group_ends(reader)
            groups = [g for g, end in enumerate(ends) if end > start and (ends[g - 1] if g else 0) < stop]
            at = (ends[groups[0] - 1] if groups and groups[0] else 0) if groups else 0
            names = list(columns) if columns is not None else None
            for batch in reader.iter_batches(batch_size=batch_size, row_groups=groups, columns=names):
                low, high = max(start - at, 0), min(stop - at, len(batch))
                at += len(batch)
                if low < high:
                    part = batch.slice(low, high - low)
                    yield part if names is None else part.select(names)

    @contextmanager
    def _reader(self, file: str) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with (
            self._filesystem.open(file, "rb") as stream,
            pq.ParquetFile(stream, pre_buffer=True, page_checksum_verification=True) as reader,
        ):
            yield reader

    def damaged(self) -> str | None:
        """The first data file that is missing or cannot be read."""

        def footer(file: str) -> None:
            with self._reader(file):
                pass

        def read(file: str) -> None:
            with self._reader(file) as reader:
                for _ in reader.iter_batches():
                    pass

        return damage.first_unreadable(self._files, footer, read)

    def take(self, rows: Sequence[int], columns: Sequence[str] | None) -> pa.Table:
        """Rows by their place: only the row groups that hold them are read."""
        wanted = sorted(set(rows))
        names = list(columns) if columns is not None else self.schema.names
        schema = pa.schema([self.schema.field(name) for name in names])
        found = [schema.empty_table()]
        for i, places in itertools.groupby(wanted, lambda row: bisect.bisect_right(self._ends, row)):
            start = self._ends[i - 1] if i else 0
            with damage.named(self.uri, self.damaged):
                found += self._places(self._files[i], names, [place - start for place in places])
        return pa.concat_tables(found).take(pc.index_in(pa.array(list(rows), pa.int64()), pa.array(wanted, pa.int64())))

    def _places(self, file: str, names: list[str], places: list[int]) -> Iterator[pa.Table]:
        """Rows of one file by their place in it, ascending; each row group is read once."""
        with self._reader(file) as reader:
            ends = _row_group_ends(reader)
            for group, of_group in itertools.groupby(places, lambda place: bisect.bisect_right(ends, place)):
                start = ends[group - 1] if group else 0
                yield reader.read_row_group(group, columns=names).select(names).take([place - start for place in of_group])


def _row_group_ends(reader: Any) -> list[int]:
    """For each row group the number of rows up to its end."""
    return list(itertools.accumulate(reader.metadata.row_group(group).num_rows for group in range(reader.num_row_groups)))


def _expression(among: Mapping[str, Sequence[str | int]]) -> Any:
    """The choice as a pyarrow expression."""
    return functools.reduce(operator.and_, [pc.field(name).isin(list(values)) for name, values in among.items()])


@objectstore.reports_faults
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
        if not objectstore.is_remote(uri):  # an object store has no folders, and would be given a bucket that is misspelt
            filesystem.makedirs(uri.rsplit("/", 1)[0], exist_ok=True)
        count = 0
        options = {"compression": "zstd", "store_schema": True, "write_page_checksum": True}
        with filesystem.open(uri, "wb") as stream, pq.ParquetWriter(stream, schema, **options) as writer:
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
        rows, uri = [fragment.rows for fragment in version.fragments], self.table_uri(table)
        return ParquetData(uri, files, rows, self._schema(table, digest), objectstore.filesystem(uri))

    def _schema(self, table: str, digest: str) -> pa.Schema:
        path = objectstore.join(self.table_uri(table), MANIFESTS, f"{digest}.schema")
        with damage.named(self.table_uri(table), lambda: path):
            return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(objectstore.get_text(path))))

    def is_newest(self, table: str, digest: str) -> bool:
        """Whether the version was committed last, and whole: a run may have been killed while it removed the version."""
        folder = objectstore.join(self.table_uri(table), MANIFESTS)
        try:
            return objectstore.get_text(objectstore.join(folder, NEWEST)) == digest and f"{digest}.schema" in objectstore.sizes(folder)
        except FileNotFoundError:
            return False

    def used(self, table: str) -> set[str]:
        """Names of the data files that some manifest names."""
        return {name for version in self.versions(table) for fragment in version.fragments for name in self.files(fragment.data)}

    def forget(self, table: str, digests: Sequence[str]) -> None:
        """Removes what is kept beside the manifests."""
        for digest in digests:
            objectstore.remove(objectstore.join(self.table_uri(table), MANIFESTS, f"{digest}.schema"))
