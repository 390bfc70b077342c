"""Data sets of the Hugging Face hub as `datasets` keeps them on disk: Arrow files, a row a record.

Both what `save_to_disk` writes and the cache below ~/.cache/huggingface/datasets hold streams of Arrow's IPC format, read here without
the library; files in the IPC file format (Feather) are read too. Name the Arrow files in `paths` ("NAME/**/*.arrow"): the JSON
beside them describes the set. Parquet and JSON lines that `huggingface_hub` downloaded are read by the formats of those names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

import pyarrow as pa
from pydantic import Field

from dataplane.errors import SourceError
from dataplane.source import Fault, Record, Source
from dataplane.sources.bounded import seekable
from dataplane.sources.columns import DAMAGE, records_of
from dataplane.sources.fields import Fields

FILE_MAGIC = b"ARROW1"
SLICE_ROWS = 256  # rows that are Python objects at a time
FIX = "the raw file has changed since it was ingested: restore it"


class Hub(Source):
    """Reads Arrow files batch by batch; the locator is the row.

    Source: the Arrow IPC format, https://arrow.apache.org/docs/format/Columnar.html, streams and files.
    """

    name = "hub"
    suffixes = (".arrow", ".feather")

    class Params(Fields):
        """Options of Arrow files."""

        mime: str = Field("text/plain", description="What the text is.")

    def read(self, stream: BinaryIO, name: str) -> Iterator[Record | Fault]:
        """One record a row."""
        row = 0
        with ExitStack() as stack:
            try:
                for batch in _batches(stream, stack):
                    yield from self._records(batch, row)
                    row += len(batch)
            except DAMAGE as error:
                yield Fault(-1, "BadArrow", f"the file cannot be read further ({type(error).__name__})")

    def _records(self, batch: pa.RecordBatch, row: int) -> Iterator[Record | Fault]:
        for start in range(0, len(batch), SLICE_ROWS):
            yield from records_of(batch.slice(start, SLICE_ROWS), row + start, self.params, self.params.mime)

    def reread(self, stream: BinaryIO, name: str, offset: int, length: int, row: int | None) -> bytes:
        """The text of one row."""
        at = row or 0
        with ExitStack() as stack:
            try:
                for batch in _batches(stream, stack):
                    if at < len(batch):
                        (found,) = records_of(batch.slice(at, 1), at, self.params, self.params.mime)
                        if isinstance(found, Record):
                            return found.payload
                        break
                    at -= len(batch)
            except DAMAGE as error:
                raise SourceError(f"row {row} cannot be read ({type(error).__name__})", fix=FIX) from None
        raise SourceError(f"row {row} holds no text any more", fix=FIX)


def _batches(stream: BinaryIO, stack: ExitStack) -> Iterator[pa.RecordBatch]:
    """The batches, each checked before it is read: lengths in a damaged one lead anywhere."""
    source: Any = stack.enter_context(seekable(stream))
    head = source.read(len(FILE_MAGIC))
    source.seek(0)
    if head != FILE_MAGIC:
        for batch in pa.ipc.open_stream(source):
            batch.validate(full=True)
            yield batch
        return
    file = pa.ipc.open_file(source)
    for i in range(file.num_record_batches):
        batch = file.get_batch(i)
        batch.validate(full=True)
        yield batch
