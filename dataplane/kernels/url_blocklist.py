"""Block lists of domains and addresses as one sorted array of hashes, and the look-up of addresses in it.

An entry is 64 bits: 56 of the hash of "example.com" or "example.com/path", and 8 for its category. 5 million entries are 40 MB, which
processes share when the file is mapped; one address in 10^9 or so is found by chance. An address is found under a domain entry
of its host or of any domain above it, and under an address entry that is its beginning up to a `/`, `?`, `#` or its end.

The layout that is read is that of the UT1 lists (Université Toulouse Capitole): a folder for each category, with the files `domains`
and `urls`, one entry a line, without a scheme.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.errors import DataError, ModelMissing
from dataplane.kernels.hashing import xxh64
from dataplane.kernels.sorted_keys import KEYS as SORTED
from dataplane.kernels.sorted_keys import first_from
from dataplane.kernels.unicode import BOUNDS, I64, OCTETS, U8, text_buffers

U64 = npt.NDArray[np.uint64]

KEYS, CATEGORIES = "keys.npy", "categories.json"
FILES = ("domains", "urls")
MAX_CATEGORIES = 256
MAX_URL_BYTES = 4096  # of an address that are looked at

_HASH = np.uint64(0xFFFFFFFFFFFFFF00)
_DOT, _SLASH, _COLON, _AT, _QUERY, _FRAGMENT, _BACKSLASH = (ord(char) for char in "./:@?#\\")


@dataclass(frozen=True)
class BlockList:
    """Hashes of what is blocked.

    Attributes:
        keys: uint64 [entries], sorted.
        categories: Names, by the low 8 bits of a key.
    """

    keys: U64
    categories: tuple[str, ...]

    def save(self, folder: Path) -> None:
        """Writes the folder that `load` maps."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / KEYS, self.keys, allow_pickle=False)
        (folder / CATEGORIES).write_text(json.dumps(self.categories) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> BlockList:
        """Maps a compiled list into memory.

        Raises:
            ModelMissing: The folder holds none, or a damaged one.
        """
        try:
            keys = np.load(folder / KEYS, mmap_mode="r", allow_pickle=False)
            categories = tuple(json.loads((folder / CATEGORIES).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise _damaged(folder, str(error)) from None
        if keys.dtype != np.uint64 or keys.ndim != 1 or (keys[1:] < keys[:-1]).any():
            raise _damaged(folder, "its keys are not sorted 64-bit hashes")
        return cls(keys, categories)

    def lookup(self, urls: pa.Array) -> tuple[I64, U8]:
        """The categories of each address.

        Args:
            urls: string or large_string [n]; null is in none.

        Returns:
            int64 [n + 1] where each address's categories lie, and uint8 [total] categories, sorted and distinct within each.
        """
        data, offsets = text_buffers(urls)
        rows, found = _lookup(data, offsets, np.ascontiguousarray(self.keys))
        pairs = np.unique(rows * MAX_CATEGORIES + found)
        bounds = np.searchsorted(pairs, np.arange(len(offsets)) * MAX_CATEGORIES)
        return bounds.astype(np.int64), (pairs % MAX_CATEGORIES).astype(np.uint8)


def compile_list(folder: Path) -> BlockList:
    """Reads a folder in the UT1 layout.

    Raises:
        DataError: It holds no category, too many, or no entry.
    """
    categories = sorted({path.parent.name for path in _files(folder)})
    if not 0 < len(categories) <= MAX_CATEGORIES:
        message = f"{folder} holds {len(categories)} categories, expected 1 to {MAX_CATEGORIES}"
        raise DataError(message, where="block list", fix="give a folder with folders CATEGORY, each with a file domains or urls")
    parts = [_hashed(path) | np.uint64(categories.index(path.parent.name)) for path in _files(folder)]
    keys = np.unique(np.concatenate(parts))
    if not len(keys):
        raise DataError(f"{folder} holds no entry", where="block list", fix="write one domain or address a line")
    return BlockList(keys, tuple(categories))


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for name in FILES for path in folder.glob(f"*/{name}") if path.is_file())


def _hashed(path: Path) -> U64:
    """Hashes of a file's lines, the category's bits zero."""
    return _hash_lines(np.frombuffer(path.read_bytes(), np.uint8))  # type: ignore[no-any-return]


def _damaged(folder: Path, why: str) -> ModelMissing:
    return ModelMissing(f"{folder} is no compiled block list: {why}", where="block list", fix="make it with `dataplane compile-blocklist`")


@nb.njit(nb.uint8(nb.uint8), inline="always", cache=True, nogil=True)
def _lower(octet):  # type: ignore[no-untyped-def]
    return octet | nb.uint8(32) if nb.uint8(65) <= octet <= nb.uint8(90) else octet


@nb.njit(nb.types.UniTuple(nb.int64, 2)(OCTETS, nb.int64, nb.int64, nb.uint8[::1]), cache=True, nogil=True)
def _canonical(data, start, stop, out):  # type: ignore[no-untyped-def]
    """Writes ``host/path`` of an address into `out`: no scheme, user, port, `www.` or fragment; the host in lower case.

    Returns:
        Bytes of the host, and of all.
    """
    while start < stop and data[start] <= 32:
        start += 1
    while stop > start and data[stop - 1] <= 32:
        stop -= 1
    stop = min(stop, start + len(out))
    for at in range(start, stop - 2):
        if data[at] == _COLON and data[at + 1] == _SLASH and data[at + 2] == _SLASH:
            start = at + 3
            break
        if data[at] in (_SLASH, _QUERY, _FRAGMENT, _DOT):
            break
    host_stop = start
    while host_stop < stop and data[host_stop] not in (_SLASH, _QUERY, _FRAGMENT, _BACKSLASH):
        if data[host_stop] == _AT:
            start = host_stop + 1
        host_stop += 1
    port = host_stop
    for at in range(start, host_stop):
        if data[at] == _COLON:
            port = at
            break
    while port > start and data[port - 1] == _DOT:
        port -= 1
    if port - start > 4 and _lower(data[start]) == 119 and _lower(data[start + 1]) == 119 and _lower(data[start + 2]) == 119:
        start += 4 if data[start + 3] == _DOT else 0
    n = 0
    for at in range(start, port):
        out[n] = _lower(data[at])
        n += 1
    host = n
    for at in range(host_stop, stop):
        if data[at] == _FRAGMENT:
            break
        out[n] = data[at]
        n += 1
    return host, n


@nb.njit(nb.uint64[::1](OCTETS), cache=True, nogil=True)
def _hash_lines(data):  # type: ignore[no-untyped-def]
    lines = 1
    for octet in data:
        lines += octet == 10
    out = np.empty(lines, np.uint64)
    entry = np.empty(MAX_URL_BYTES, np.uint8)
    k = start = 0
    for at in range(len(data) + 1):
        if at == len(data) or data[at] == 10:
            if at > start and data[start] != _FRAGMENT:
                host, n = _canonical(data, start, at, entry)
                while n > host and entry[n - 1] == _SLASH:
                    n -= 1
                if host:
                    out[k] = xxh64(entry, 0, n, np.uint64(0)) & _HASH
                    k += 1
            start = at + 1
    return out[:k].copy()


@nb.njit(nb.types.Tuple((nb.int64[::1], nb.int64[::1]))(OCTETS, BOUNDS, SORTED), cache=True, nogil=True)
def _lookup(data, offsets, keys):  # type: ignore[no-untyped-def]
    """Address and category of each entry that is met."""
    rows, found = np.empty(1024, np.int64), np.empty(1024, np.int64)
    k = 0
    url = np.empty(MAX_URL_BYTES, np.uint8)
    for i in range(len(offsets) - 1):
        host, n = _canonical(data, offsets[i], offsets[i + 1], url)
        for at in range(n + 1):
            if at < host:
                # A domain, from each of its labels on.
                if at and url[at - 1] != _DOT:
                    continue
                hashed = xxh64(url, at, host, np.uint64(0)) & _HASH
            elif at > host and (at == n or url[at] == _SLASH or url[at] == _QUERY) and url[at - 1] != _SLASH:
                hashed = xxh64(url, 0, at, np.uint64(0)) & _HASH
            else:
                continue
            at_key = first_from(keys, hashed)
            while at_key < len(keys) and keys[at_key] & _HASH == hashed:
                if k == len(rows):
                    rows, found = np.concatenate((rows, rows)), np.concatenate((found, found))
                rows[k], found[k] = i, nb.int64(keys[at_key] & ~_HASH)
                k += 1
                at_key += 1
    return rows[:k].copy(), found[:k].copy()
