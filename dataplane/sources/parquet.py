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
from dataplane.sources.jsonl import JsonFields, Locator, record_of

BATCH_ROWS = 1024


class Parquet(Source):
    """Reads Parquet files; the locator is the row."""

    name = "parquet"
    suffixes = (".parquet", ".pq")

    class Params(JsonFields):
        """Options of Parquet files."""

        mime: str = Field("text/plain", description="What the text is.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record a row, batch by batch."""
        with _opened(stream) as file:
            if isinstance(file, Fault):
                yield file
                return
            row = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                for values in batch.to_pylist():
                    yield record_of(values, self.params, Locator(-1, -1, row), self.params.mime)
                    row += 1

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The text of one row; only its row group is read."""
        with _opened(stream) as file:
            if isinstance(file, Fault) or row is None:
                raise SourceError("the file is no Parquet file", fix="the raw file has changed since it was ingested: restore it")
            start = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if row < start + rows:
                    values = file.read_row_group(group).slice(row - start, 1).to_pylist()[0]
                    found = record_of(values, self.params, Locator(-1, -1, row), self.params.mime)
                    if isinstance(found, Fault):
                        raise SourceError(found.message, fix="restore the raw file")
                    return found.payload
                start += rows
        raise SourceError(f"the file has {start} rows, the record was row {row}", fix="restore the raw file")


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
