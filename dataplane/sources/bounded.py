"""Reading with a bound: no record may take the machine's memory."""

from __future__ import annotations

from typing import BinaryIO

from dataplane.errors import SourceError
from dataplane.source import Fault

MAX_RECORD_BYTES = 256 << 20
_SKIP_BYTES = 1 << 20


def read_all(stream: BinaryIO, max_bytes: int) -> bytes | Fault:
    """The whole stream, or a Fault where it is larger than `max_bytes`."""
    data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        return Fault(0, "TooLarge", f"more than {max_bytes:,} bytes; raise the option `max_bytes` if it is one document")
    return data


def skip(stream: BinaryIO, offset: int) -> None:
    """Goes forward to `offset`, by seeking where the stream can."""
    if stream.seekable():
        stream.seek(offset)
        return
    while offset > 0:
        data = stream.read(min(offset, _SKIP_BYTES))
        if not data:
            raise SourceError("the file ends before the record", fix="the raw file has changed since it was ingested: restore it")
        offset -= len(data)


def read_range(stream: BinaryIO, offset: int, length: int) -> bytes:
    """`length` bytes at `offset`.

    Raises:
        SourceError: The stream ends before.
    """
    skip(stream, offset)
    data = stream.read(length)
    if len(data) != length:
        raise SourceError(f"the file ends {length - len(data)} bytes before the record does", fix="restore the raw file")
    return data
