"""Takes archives and compression off: one file becomes streams of plain bytes, forward only and bounded.

Nothing is extracted by name, so a member called "../../etc/passwd" is a name like any other.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from dataplane.errors import SourceError
from dataplane.source import Fault

# A stream may grow to this many times its compressed size once it is past the floor: DEFLATE's own limit is 1,032,
# reached by runs of one byte alone; text stays below 30.
MAX_RATIO = 300
RATIO_FLOOR_BYTES = 64 << 20

TAR_SUFFIXES = {".tgz": ".gz", ".tbz2": ".bz2", ".txz": ".xz", ".tzst": ".zst"}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")

# What reading a truncated or damaged stream raises.
READ_ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError, zipfile.BadZipFile, tarfile.TarError, SourceError)


@dataclass(frozen=True)
class Stream:
    """One stream of plain bytes.

    Attributes:
        member: Path inside the archive, "" outside one.
        name: Name without its compression, for the choice of the format.
        file: The bytes.
    """

    member: str
    name: str
    file: BinaryIO


def plain_name(name: str) -> str:
    """A file name without its compression: "a.jsonl.gz" -> "a.jsonl"."""
    for suffix in COMPRESSED:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def container(name: str) -> str:
    """What kind of archive a name says: "zip", "tar" or ""."""
    lower = name.lower()
    if lower.endswith(".zip"):
        return "zip"
    return "tar" if lower.endswith((".tar", *TAR_SUFFIXES)) or plain_name(lower).endswith(".tar") else ""


def open_streams(path: Path, as_it_lies: Callable[[str], bool]) -> Iterator[Stream | Fault]:
    """The streams of one file.

    Args:
        path: The file.
        as_it_lies: Whether a format reads the compressed file itself (WARC.gz); asked by name.

    Raises:
        OSError, ...: One of READ_ERRORS where the file or archive is damaged; streams yielded before are good.
    """
    kind = container(path.name)
    if kind == "zip":
        yield from _zip(path)
    elif kind == "tar":
        yield from _tar(path)
    else:
        with path.open("rb") as file:
            if as_it_lies(path.name):
                yield Stream("", plain_name(path.name), file)
            else:
                yield Stream("", plain_name(path.name), decompressed(path.name, file, path.stat().st_size))


def decompressed(name: str, file: BinaryIO, compressed_bytes: int) -> BinaryIO:
    """A stream with the compression that its name says taken off.

    Args:
        name: File or member name.
        file: The bytes as they lie.
        compressed_bytes: Their number, for the bound on growth.
    """
    lower = name.lower()
    openers: dict[str, Callable[[BinaryIO], Any]] = {
        ".gz": lambda f: gzip.GzipFile(fileobj=f),
        ".bz2": bz2.BZ2File,
        ".xz": lzma.LZMAFile,
        ".zst": lambda f: zstandard.ZstdDecompressor().stream_reader(f, read_across_frames=True),
    }
    for suffix, opener in openers.items():
        if lower.endswith(suffix):
            return io.BufferedReader(_Bounded(opener(file), compressed_bytes, name), buffer_size=1 << 20)
    return file


class _Bounded(io.RawIOBase):
    """Stops a decompression bomb."""

    def __init__(self, file: Any, compressed_bytes: int, name: str) -> None:
        # read1 gives what there is; read would lose what it has when it meets the cut of a truncated file.
        self._take = getattr(file, "read1", file.read)
        self._name = name
        self._limit = max(RATIO_FLOOR_BYTES, MAX_RATIO * compressed_bytes)
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._take(len(buffer))
        self._read += len(data)
        if self._read > self._limit:
            raise SourceError(
                f"{self._name} grows past {self._limit:,} bytes when decompressed", fix="decompress it by hand if it is not hostile"
            )
        buffer[: len(data)] = data
        return len(data)


def _zip(path: Path) -> Iterator[Stream | Fault]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            if info.flag_bits & 0x1:
                yield Fault(info.header_offset, "Encrypted", f"member {info.filename!r} is encrypted")
                continue
            try:
                file = archive.open(info)
            except (zipfile.BadZipFile, NotImplementedError) as error:
                yield Fault(info.header_offset, type(error).__name__, f"member {info.filename!r}: {error}")
                continue
            with file:
                bounded = io.BufferedReader(_Bounded(file, info.compress_size, info.filename))
                yield Stream(info.filename, plain_name(info.filename), decompressed(info.filename, bounded, info.file_size))


def _tar(path: Path) -> Iterator[Stream | Fault]:
    lower = path.name.lower()
    name = next((lower + full for short, full in TAR_SUFFIXES.items() if lower.endswith(short)), lower)
    with path.open("rb") as file, tarfile.open(fileobj=decompressed(name, file, path.stat().st_size), mode="r|") as archive:
        for member in archive:
            extracted = archive.extractfile(member) if member.isfile() else None
            if extracted is not None:
                plain = io.BufferedReader(_Bounded(extracted, member.size, member.name))
                yield Stream(member.name, plain_name(member.name), decompressed(member.name, plain, member.size))
