"""Takes one record out of a raw file, and proves that nothing else in it has changed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import xxhash

from dataplane.sources.files import InputFile, SourceSpec, expand
from dataplane.sources.records import Reader

CHUNK_BYTES = 1 << 20
GZIP_HEAD = b"\x1f\x8b\x08\x10\x00\x00\x00\x00\x00\xff"  # with a comment, which GZIP_TAIL ends
GZIP_TAIL = b"\x00\x03\x00" + bytes(8)  # an empty block, its checksum and its size
Open = Callable[[Path, str], Any]
Contents = list[tuple[str, int]]


def erase(root: Path, row: Mapping[str, Any], specs: Sequence[SourceSpec]) -> bool:
    """Removes a record from its raw file: the file itself where it holds nothing else, else the record's bytes.

    The new file takes the old one's place only when reading it gives every other record with the payload that it had.

    Args:
        root: Folder of the project.
        row: doc_id, uri, member, offset, length of a record of `raw`.
        specs: The project's sources.

    Returns:
        Whether the record is gone; False where this kind of file cannot be changed in place (Parquet, archives).
    """
    file = next((file for file in expand(specs, root) if file.uri == row["uri"]), None)
    if file is None:
        return True
    before = _contents(file, specs)
    wanted = [entry for entry in before if entry[0] != row["doc_id"]]
    if before == wanted:
        return True
    if not wanted:
        file.path.unlink()
        return True
    if row["member"] or row["row"] is not None:
        return False
    with tempfile.TemporaryDirectory(prefix=".erasing-", dir=file.path.parent) as folder:
        changed = Path(folder) / file.path.name
        for rewrite in (_blank, _empty_member):
            rewrite(file.path, changed, row["offset"], row["length"])
            if _contents(InputFile(changed, file.uri, file.key, file.spec), specs) == wanted:
                shutil.copymode(file.path, changed)
                os.replace(changed, file.path)
                return True
    return False


def _contents(file: InputFile, specs: Sequence[SourceSpec]) -> Contents:
    """(doc_id, hash of the payload) of each record, in order."""
    reader = Reader(specs[file.spec], file, run_id="")
    batches = [batch for table, batch in reader.batches() if table == "raw"]
    rows = (row for batch in batches for row in batch.select(["doc_id", "payload"]).to_pylist())
    return [(row["doc_id"], xxhash.xxh3_128_intdigest(row["payload"])) for row in rows]


def _blank(old: Path, new: Path, offset: int, length: int) -> None:
    """Writes spaces over the bytes of the (decompressed) stream: places of other records stay what they are."""
    opener = _opener(old)
    with opener(old, "rb") as source, opener(new, "wb") as target:
        _copy(source, target, offset)
        found = source.read(length)
        target.write(bytes(byte if byte in b"\r\n" else 0x20 for byte in found))
        _copy(source, target, None)


def _empty_member(old: Path, new: Path, offset: int, length: int) -> None:
    """Puts a gzip member without content, as long as the old one, in its place: for WARC, whose ids are places in the file.

    Source: RFC 1952, section 2.3; the comment field is of any length.
    """
    padding = b" " * max(0, length - len(GZIP_HEAD) - len(GZIP_TAIL))
    with old.open("rb") as source, new.open("wb") as target:
        _copy(source, target, offset)
        target.write(GZIP_HEAD + padding + GZIP_TAIL)
        source.seek(length, os.SEEK_CUR)
        _copy(source, target, None)


def _copy(source: BinaryIO, target: BinaryIO, size: int | None) -> None:
    left = size
    while left is None or left > 0:
        chunk = source.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
        if not chunk:
            return
        target.write(chunk)
        left = None if left is None else left - len(chunk)


def _opener(path: Path) -> Open:
    """How the file's compression is read and written; the same bytes for the same content."""
    openers: dict[str, Open] = {".gz": _gzip, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _zstd}
    return openers.get(path.suffix.lower(), lambda path, mode: path.open(mode))


@contextmanager
def _gzip(path: Path, mode: str) -> Iterator[BinaryIO]:
    if mode == "rb":
        with gzip.open(path, "rb") as stream:
            yield cast(BinaryIO, stream)
    else:
        with path.open("wb") as raw, gzip.GzipFile(path.name, "wb", fileobj=raw, mtime=0) as stream:
            yield cast(BinaryIO, stream)


@contextmanager
def _zstd(path: Path, mode: str) -> Iterator[BinaryIO]:
    import zstandard

    with path.open(mode) as raw:
        stream: Any = (
            zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
            if mode == "rb"
            else zstandard.ZstdCompressor().stream_writer(raw)
        )
        with stream:
            yield stream
