"""Reading with a bound: no record may take the machine's memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from dataplane.errors import SourceError
from dataplane.source import Fault

MAX_RECORD_BYTES = 256 << 20
SPOOL_BYTES = 32 << 20  # a copy up to this size stays in memory, a larger one goes to a temporary file
_SKIP_BYTES = 1 << 20


def read_all(stream: BinaryIO, max_bytes: int) -> bytes | Fault:
    """The whole stream, or a Fault where it is larger than `max_bytes`."""
    data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        return Fault(0, "TooLarge", f"more than {max_bytes:,} bytes; raise the option `max_bytes` if it is one document")
    return data


@contextmanager
def seekable(stream: BinaryIO) -> Iterator[BinaryIO]:
    """The stream itself, or a temporary copy of one that cannot seek."""
    if stream.seekable():
        yield stream
        return
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
        while data := stream.read(_SKIP_BYTES):
            spool.write(data)
        spool.seek(0)
        yield cast(BinaryIO, spool)


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


def rest_of_line(stream: BinaryIO) -> int:
    """Passes over the rest of a line that is too long, and returns its bytes."""
    size = 0
    for piece in iter(lambda: stream.readline(_SKIP_BYTES), b""):
        size += len(piece)
        if piece.endswith(b"\n"):
            break
    return size
