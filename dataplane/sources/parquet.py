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
BATCH_BYTES = 16 << 20
# What reading damaged pages raises; pyarrow's own errors derive from these.
DAMAGE = (pa.ArrowException, OSError, ValueError)


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
            for values in _values(batch):
                if isinstance(values, str):
                    yield Fault(-1, "BadRow", f"row {row} cannot be read ({values})")
                else:
                    yield record_of(values, self.params, Locator(-1, -1, row), self.params.mime)
                row += 1

    def _batches(self, file: Any, group: int) -> Iterator[pa.RecordBatch]:
        """Batches of one row group; a row is read again by the very same calls."""
        yield from file.iter_batches(batch_size=_rows_at_once(file), row_groups=[group], columns=self._columns(file))

    def _columns(self, file: Any) -> list[str]:
        """The columns of the text, the address and the id, and those that are small enough for `meta`."""
        named = {part for path in (self.params.text, self.params.url, self.params.id) if path for part in (path, path.partition(".")[0])}
        return [field.name for field in file.schema_arrow if field.name in named or _is_scalar(field.type)]

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
                    (values,) = _values(batch.slice(at, 1))
                    found = values if isinstance(values, str) else record_of(values, self.params, Locator(-1, -1), self.params.mime)
                    if isinstance(found, Record):
                        return found.payload
                    break
                at -= len(batch)
            break
        raise SourceError(f"row {row} holds no text any more", fix="the raw file has changed since it was ingested: restore it")


def _is_scalar(kind: pa.DataType) -> bool:
    of_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(of_text or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _rows_at_once(file: Any) -> int:
    """Rows of a batch of about BATCH_BYTES, by the sizes that the file states."""
    rows: int = file.metadata.num_rows
    groups: int = file.metadata.num_row_groups
    stated: int = sum(file.metadata.row_group(group).total_byte_size for group in range(groups))
    return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(1, stated)))


def _values(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | str]:
    """Each row, or the name of what it raises: text that is no UTF-8 must not cost its neighbours."""
    try:
        yield from batch.to_pylist()
    except (ValueError, pa.ArrowException) as error:
        if len(batch) == 1:
            yield type(error).__name__
            return
        for i in range(len(batch)):
            yield from _values(batch.slice(i, 1))


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
