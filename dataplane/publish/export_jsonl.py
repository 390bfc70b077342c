"""JSON lines, plain or compressed: ``data/SPLIT-00000-of-0000N.jsonl[.gz|.zst]``, one row a line."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from dataplane.publish.folder import number_shards
from dataplane.publish.rows import Rows

SUFFIXES = {"none": ".jsonl", "gz": ".jsonl.gz", "zst": ".jsonl.zst"}
GZIP_LEVEL = 6
ZSTD_LEVEL = 10


def write(rows: Rows, folder: Path, split: str, shard_bytes: int, compression: str) -> int:
    """Writes the shards; there is at least one.

    Args:
        rows: What to write. JSON has no NaN and no infinity: they become null; bytes become base64.
        folder: Where `data` is made.
        split: Name of the split.
        shard_bytes: Size of a shard's text, before compression, at which it is full.
        compression: Key of SUFFIXES.

    Returns:
        Number of rows.
    """
    data, suffix = folder / "data", SUFFIXES[compression]
    data.mkdir()
    chunks = (_lines(batch) for batch in rows.batches())
    chunk = next(chunks, b"")
    shards = count = 0
    while chunk or not shards:
        size = 0
        with _open(data / f"{split}-{shards:05}{suffix}", compression) as stream:
            while chunk and size < shard_bytes:
                stream.write(chunk)
                size, count = size + len(chunk), count + chunk.count(b"\n")
                chunk = next(chunks, b"")
        shards += 1
    number_shards(data, split, suffix, shards)
    return count


def _lines(batch: pa.RecordBatch) -> bytes:
    return "".join(_line(row) + "\n" for row in batch.to_pylist()).encode()


def _line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, default=_plain)
    except ValueError:  # a number that JSON does not have
        return json.dumps(_finite(row), ensure_ascii=False, allow_nan=False, default=_plain)


def _finite(value: Any) -> Any:
    """The value with null where a number is not finite."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> str:
    """What JSON has no type for, as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


@contextmanager
def _open(path: Path, compression: str) -> Iterator[IO[bytes]]:
    """A file to write to; neither its name nor the time gets into the bytes."""
    import zstandard

    with path.open("wb") as raw:
        if compression == "gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=GZIP_LEVEL, mtime=0) as stream:
                yield stream  # type: ignore[misc]  # it has what is needed of IO
        elif compression == "zst":
            with zstandard.ZstdCompressor(level=ZSTD_LEVEL).stream_writer(raw, closefd=False) as stream:
                yield stream
        else:
            yield raw
