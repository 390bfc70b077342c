"""Takes archives and compression off: one file becomes streams of plain bytes, forward only and bounded.

Nothing is extracted by name, so a member called "../../etc/passwd" is a name like any other.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from dataplane.errors import SourceError
from dataplane.source import Fault

# What comes out of a file may grow to this many times its size once it is past the floor: DEFLATE's own limit is 1,032,
# reached by runs of one byte alone; text stays below 30.
MAX_RATIO = 300
RATIO_FLOOR_BYTES = 64 << 20
# A block of zstd needs 4 bytes to say 128 KiB of one byte (RFC 8878, section 3.1.1.2): this much of it gives 32 MiB at most.
ZSTD_INPUT_BYTES = 1 << 10

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
    kind, budget = container(path.name), Budget(path.name, path.stat().st_size)
    if kind:
        seen: set[str] = set()
        with _damage_named(path):
            for found in _zip(path, budget) if kind == "zip" else _tar(path, budget):
                if isinstance(found, Stream) and found.member in seen:
                    yield Fault(0, "DoubledMember", f"a second member is called {found.member!r}: only the first is read")
                    continue
                if isinstance(found, Stream):
                    seen.add(found.member)
                yield found
        return
    with path.open("rb") as file:
        plain = file if as_it_lies(path.name) else decompressed(path.name, file, budget)
        yield Stream("", plain_name(path.name), plain)


class Budget:
    """The bytes that a file may still grow by: one count for all its members and layers, so that no nesting gets around it."""

    def __init__(self, name: str, compressed_bytes: int) -> None:
        self._name, self._limit = name, max(RATIO_FLOOR_BYTES, MAX_RATIO * compressed_bytes)
        self._spent = 0

    def spend(self, n_bytes: int) -> None:
        """Counts what came out of a decompressor.

        Raises:
            SourceError: It is more than a file of this size should hold.
        """
        self._spent += n_bytes
        if self._spent > self._limit:
            message = f"{self._name} grows past {self._limit:,} bytes when decompressed"
            raise SourceError(message, fix="decompress it by hand if it is not hostile")


def decompressed(name: str, file: BinaryIO, budget: Budget) -> BinaryIO:
    """A stream with the compression that its name says taken off.

    Args:
        name: File or member name.
        file: The bytes as they lie.
        budget: What it may grow to.
    """
    lower = name.lower()
    openers: dict[str, Callable[[BinaryIO], Any]] = {
        ".gz": lambda f: gzip.GzipFile(fileobj=f),
        ".bz2": bz2.BZ2File,
        ".xz": lzma.LZMAFile,
        ".zst": _Zstd,
    }
    for suffix, opener in openers.items():
        if lower.endswith(suffix):
            return io.BufferedReader(_Bounded(opener(file), budget), buffer_size=1 << 20)
    return file


class _Forward(io.RawIOBase):
    """Reads forward only: a tar member would claim that it can seek."""

    def __init__(self, file: Any) -> None:
        # read1 gives what there is; read would lose what it has when it meets the cut of a truncated file.
        self._take = getattr(file, "read1", file.read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._take(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Bounded(_Forward):
    """Stops a decompression bomb."""

    def __init__(self, file: Any, budget: Budget) -> None:
        super().__init__(file)
        self._budget = budget

    def readinto(self, buffer: Any) -> int:
        n_bytes = super().readinto(buffer)
        self._budget.spend(n_bytes)
        return n_bytes


class _Zstd:
    """Frames of zstd one after the other; unlike zstandard's own reader it tells a cut file from a whole one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: Any = None  # None between frames
        self._held = memoryview(b"")
        self._input = b""

    def read(self, n_bytes: int) -> bytes:
        """Up to `n_bytes`, none at the end.

        Raises:
            EOFError: The file ends inside a frame.
        """
        while not self._held:
            self._input = self._input or self._file.read(ZSTD_INPUT_BYTES)
            if not self._input:
                if self._frame is not None:
                    raise EOFError("the file ends inside a zstd frame")
                return b""
            self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            self._held = memoryview(self._frame.decompress(self._input))
            self._input = b""
            if self._frame.eof:
                self._input, self._frame = self._frame.unused_data, None
        data, self._held = bytes(self._held[:n_bytes]), self._held[n_bytes:]
        return data


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """What zipfile and tarfile raise on hostile directories, beside their own errors, as a SourceError."""
    try:
        yield
    except READ_ERRORS:
        raise
    except (ValueError, IndexError, OverflowError, NotImplementedError, RuntimeError, struct.error) as error:
        raise SourceError(f"the directory of {path.name} is damaged ({type(error).__name__})", fix="repack the archive") from error


def _zip(path: Path, budget: Budget) -> Iterator[Stream | Fault]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            if info.flag_bits & 0x1:
                yield Fault(info.header_offset, "Encrypted", f"member {info.filename!r} is encrypted")
                continue
            try:
                file = archive.open(info)
            except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
                yield Fault(info.header_offset, type(error).__name__, f"member {info.filename!r} cannot be opened: {error}")
                continue
            with file:
                bounded = io.BufferedReader(_Bounded(file, budget))
                yield Stream(info.filename, plain_name(info.filename), decompressed(info.filename, bounded, budget))


def _tar(path: Path, budget: Budget) -> Iterator[Stream | Fault]:
    lower = path.name.lower()
    name = next((lower + full for short, full in TAR_SUFFIXES.items() if lower.endswith(short)), lower)
    with path.open("rb") as file, tarfile.open(fileobj=decompressed(name, file, budget), mode="r|") as archive:
        for member in archive:
            extracted = archive.extractfile(member) if member.isfile() else None
            if extracted is not None:
                plain = io.BufferedReader(_Forward(extracted))
                yield Stream(member.name, plain_name(member.name), decompressed(member.name, plain, budget))
