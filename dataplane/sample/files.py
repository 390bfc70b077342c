"""Files of the sample as bytes that never differ between two runs: no clock, no user, sorted members."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import zstandard

# The oldest time that a zip member can carry.
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
FILE_MODE = 0o644
UNIX = 3
XZ_PRESET = 3
ZSTD_LEVEL = 9

# Says whether the record of that key is in the sample.
Keep = Callable[[str], bool]


@dataclass(frozen=True)
class File:
    """One file of the sample.

    Attributes:
        path: Relative to the sample's directory, with forward slashes.
        data: The file's bytes.
        records: Records that a source reads from it.
    """

    path: str
    data: bytes
    records: int


@dataclass(frozen=True)
class Provider:
    """What writes one source of the sample.

    Attributes:
        source: Name of the source, and of its folder.
        kind: What the text is, as the mixture speaks of it.
        glob: Files of the source below its folder.
        license: SPDX expression of the texts, "unknown" where nobody states one.
        files: Yields the source's files, given what to keep.
        options: Options of the source that reads them.
        format: Name of that source; "auto" takes it from the file name.
    """

    source: str
    kind: str
    glob: str
    license: str
    files: Callable[[Keep], Iterator[File]]
    options: Mapping[str, Any] = field(default_factory=dict)
    format: str = "auto"


def unit_hash(key: str) -> float:
    """A number in [0, 1) that depends on nothing but the key."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:6]) / 2**48


def keeper(fraction: float) -> Keep:
    """Keeps about `fraction` of all keys; a larger fraction keeps a superset."""
    return lambda key: unit_hash(key) < fraction


def jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """One JSON object a line, in the rows' own key order."""
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def gz(data: bytes) -> bytes:
    """Gzip member without a time."""
    return gzip.compress(data, 6, mtime=0)


def bzip2(data: bytes) -> bytes:
    """A bzip2 stream."""
    return bz2.compress(data)


def xz(data: bytes) -> bytes:
    """An xz stream."""
    return lzma.compress(data, preset=XZ_PRESET)


def zst(data: bytes) -> bytes:
    """A Zstandard frame."""
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(data)


def tar(members: Mapping[str, bytes]) -> bytes:
    """A tar archive with sorted members that belong to nobody."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(members):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(members[path]), FILE_MODE
            archive.addfile(info, io.BytesIO(members[path]))
    return buffer.getvalue()


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip archive with sorted members and one fixed time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(members):
            info = zipfile.ZipInfo(path, ZIP_EPOCH)
            info.create_system, info.external_attr = UNIX, FILE_MODE << 16
            archive.writestr(info, members[path], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
