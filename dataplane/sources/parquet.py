"""Parquet: a row is a record, one of its columns the text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
from pydantic import Field

from dataplane.errors import SourceError
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import seekable
from dataplane.sources.columns import DAMAGE, records_of, wanted
from dataplane.sources.fields import Fields

BATCH_ROWS = 1024
BATCH_BYTES = 16 << 20


class Parquet(Source):
    """Reads Parquet files; the locator is the row.

    Source: Apache Parquet, https://parquet.apache.org/docs/file-format/, as PyArrow reads it.
    """

    name = "parquet"
    suffixes = (".parquet", ".pq")

    class Params(Fields):
        """Options of Parquet files."""

        mime: str = Field("text/plain", description="What the text is.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record a row, batch by batch."""
        with _opened(stream) as file:
            if isinstance(file, Fault):
                yield file
                return
            try:
                yield from self._rows(file)
            except DAMAGE as error:
                yield Fault(-1, "BadParquet", f"the file cannot be read further ({type(error).__name__})")

    def _rows(self, file: Any) -> Iterator[Record | Fault]:
        start = 0
        for group in range(file.num_row_groups):
            try:
                yield from self._group(file, group, start)
            except DAMAGE as error:
                yield Fault(-1, "BadParquet", f"row group {group} cannot be read further ({type(error).__name__})")
            start += file.metadata.row_group(group).num_rows

    def _group(self, file: Any, group: int, row: int) -> Iterator[Record | Fault]:
        for batch in self._batches(file, group):
            yield from records_of(batch, row, self.params, self.params.mime)
            row += len(batch)

    def _batches(self, file: Any, group: int) -> Iterator[pa.RecordBatch]:
        """Batches of one row group; a row is read again by the very same calls."""
        yield from file.iter_batches(batch_size=_rows_at_once(file), row_groups=[group], columns=wanted(file.schema_arrow, self.params))

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The text of one row; only its row group is read."""
        with _opened(stream) as file:
            if isinstance(file, Fault) or row is None:
                raise SourceError("the file is no Parquet file", fix="the raw file has changed since it was ingested: restore it")
            try:
                return self._payload(file, row)
            except DAMAGE as error:
                raise SourceError(f"row {row} cannot be read ({type(error).__name__})", fix="restore the raw file") from None

    def _payload(self, file: Any, row: int) -> bytes:
        at = row
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if at >= rows:
                at -= rows
                continue
            for batch in self._batches(file, group):
                if at < len(batch):
                    (found,) = records_of(batch.slice(at, 1), row, self.params, self.params.mime)
                    if isinstance(found, Record):
                        return found.payload
                    break
                at -= len(batch)
            break
        raise SourceError(f"row {row} holds no text any more", fix="the raw file has changed since it was ingested: restore it")


def _rows_at_once(file: Any) -> int:
    """Rows of a batch of about BATCH_BYTES, by the sizes that the file states."""
    rows: int = file.metadata.num_rows
    groups: int = file.metadata.num_row_groups
    stated: int = sum(file.metadata.row_group(group).total_byte_size for group in range(groups))
    return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(1, stated)))


@contextmanager
def _opened(stream: BinaryIO) -> Iterator[Any]:
    """The open file, or the Fault that says why it is none. What cannot seek is spooled to disk first."""
    import pyarrow.parquet as pq

    with seekable(stream) as source:
        try:
            file = pq.ParquetFile(source)
        except pa.ArrowException as error:
            yield Fault(0, "NotParquet", str(error).splitlines()[0][:200])
            return
        yield file
