"""Which documents share a key of their signatures, with the keys on disk: a band of MinHash, a choice of bits of SimHash.

Keys of a table are spread over files by their highest bits, and each file is sorted alone. Documents that share keys, or are joined by
others that do, make a component; no document is ever compared with one of another component. So components are put together to
partitions of about one size, and one partition after the other is read: memory is that of the largest file of keys, of the largest
partition, and a few numbers for each document. Cost is a sort of n keys a table; 12 bytes on disk for each document and table, then 8 for
each that is shared, and the signatures.

Source: Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dataplane.corpus.spill import Appender, mapped, reserved
from dataplane.errors import DataError
from dataplane.kernels import minhash
from dataplane.kernels.stars import BYTES_PER_BUCKET, join, partition, scatter

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
U16 = npt.NDArray[np.uint16]

# Index and signature of documents, in blocks; read more than once.
Signed = Callable[[], Iterable[tuple[I64, U32]]]

MAX_DOCUMENTS = (1 << 31) - 1
_PARTITION_KEYS = 1 << 21
_PARTITION_BYTES = 96 << 20  # of signatures and lists of buckets that are read together; a component is never cut, however large
_MOST_PARTITIONS = 256  # about: files are open for each of them at once
_RECORD = np.dtype([("key", "<u8"), ("doc", "<u4")])


@dataclass(frozen=True)
class Sharers:
    """The documents of a partition, by rank. Each shares a bucket with another of them.

    Attributes:
        docs: int64 [m], index of each.
        starts: int64 [m + 1], where the buckets of each begin.
        buckets: int32 [starts[m]], numbered from 0.
        sizes: int32 [buckets], documents in each.
        signatures: uint32 [m, hashes], in the order of their index.
        rows: int32 [m], which of the signatures is whose.
        groups: uint64 [m], or empty: documents of different groups are not compared.
    """

    docs: I64
    starts: I64
    buckets: I32
    sizes: I32
    signatures: U32
    rows: I32
    groups: U64


class Tables(Protocol):
    """How keys are made of signatures."""

    @property
    def tables(self) -> int:
        """How many keys each document has."""

    def keys(self, signed: U32, table: int) -> U64:
        """uint64 [k], the key of each signature (uint32 [k, width]) in a table."""


@dataclass(frozen=True)
class Work:
    """What near-duplicates are sought among.

    Attributes:
        signed: Signatures in blocks: index (int64 [k], ascending) and signature (uint32 [k, width]).
        rank: int64 [n] of `survival.survival_rank`; a document is only dropped for one of lower rank.
        groups: uint64 [n], documents are compared within a group; empty: with all.
    """

    signed: Signed
    rank: I64
    groups: U64


class Sharing:
    """The documents that share a bucket with another, partition by partition.

    Args:
        docs: int32 [m], index of each, by partition and rank
        bounds: int64 [partitions + 1], where each partition begins
        counts: uint16 [n], the buckets that each document shares
        groups: uint64 [n], or empty.
        width: Hashes of a signature.
        folder: Where members, sizes and signatures of each partition lie.
    """

    def __init__(self, docs: I32, bounds: I64, counts: U16, groups: U64, width: int, folder: Path) -> None:
        self.docs, self.bounds, self.counts, self.groups, self.width, self.folder = docs, bounds, counts, groups, width, folder

    def __iter__(self) -> Iterator[Sharers]:
        """Each partition; its files go when the next one is asked for.

        Raises:
            OSError: The disk is full.
        """
        place = np.zeros(len(self.counts), np.int32)
        for i in range(len(self.bounds) - 1):
            yield self._read(i, place)
            for name in ("members", "sizes", "buckets", "signatures"):
                (self.folder / _of(name, i)).unlink(missing_ok=True)

    def _read(self, i: int, place: I32) -> Sharers:
        """A partition."""
        docs = self.docs[self.bounds[i] : self.bounds[i + 1]].astype(np.int64)
        ascending = np.argsort(docs)
        rows = np.empty(len(docs), np.int32)
        rows[ascending] = np.arange(len(docs), dtype=np.int32)
        place[docs] = np.arange(len(docs), dtype=np.int32)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts[docs], dtype=np.int64)])
        members, sizes = mapped(self.folder / _of("members", i), np.uint32), mapped(self.folder / _of("sizes", i), np.int32)
        buckets = reserved(self.folder / _of("buckets", i), (int(starts[-1]),), np.int32)
        scatter(members, sizes, place, starts[:-1].copy(), buckets)
        signatures = mapped(self.folder / _of("signatures", i), np.uint32, self.width)
        return Sharers(docs, starts, buckets, sizes, signatures, rows, self.groups[docs] if len(self.groups) else self.groups)


def find_sharers(work: Work, tables: Tables, folder: Path) -> Sharing:
    """Finds them in two passes over the signatures. A signature of nothing but `minhash.NO_SHINGLE` shares nothing.

    Args:
        work: Signatures, ranks and groups.
        tables: How keys are made.
        folder: Where arrays are spilled; the result lies there too.

    Raises:
        DataError: There are more documents than one process can number.
        OSError: The disk is full.
    """
    rank = work.rank
    if len(rank) > MAX_DOCUMENTS:
        raise DataError(f"{len(rank)} documents are more than one process numbers", where="dedup", fix="use `within` and several projects")
    n_parts = 1 << max(0, (len(rank) - 1) // _PARTITION_KEYS).bit_length()
    width = _spill_keys(work, tables, n_parts, folder)
    counts, parents = np.zeros(len(rank), np.uint16), np.arange(len(rank), dtype=np.int32)
    parts = _spill_members(tables.tables, n_parts, counts, parents, folder)
    number = np.zeros(len(rank), np.uint16)
    n = partition(counts, parents, 4 * width, max(_PARTITION_BYTES, _bytes(counts, width) // _MOST_PARTITIONS), number)
    _split_members(parts, number, folder)
    _split_signatures(work.signed(), counts, number, folder)
    docs = np.flatnonzero(counts).astype(np.int32)
    held = number[docs]
    docs = docs[np.argsort(held, kind="stable")]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(held, minlength=n))])
    for i in range(n):
        own = docs[bounds[i] : bounds[i + 1]]
        own[:] = own[np.argsort(rank[own])]
    return Sharing(docs, bounds, counts, work.groups, width, folder)


def _bytes(counts: U16, width: int) -> int:
    """What all sharers take, as `partition` counts it."""
    return int(np.count_nonzero(counts)) * 4 * width + int(counts.sum(dtype=np.int64)) * BYTES_PER_BUCKET


def _spill_keys(work: Work, tables: Tables, n_parts: int, folder: Path) -> int:
    """Writes the keys; returns how many hashes a signature has."""
    groups, width = work.groups, 1
    with Appender(folder) as files:
        for docs, signature in work.signed():
            width = signature.shape[1]
            worded = (signature != minhash.NO_SHINGLE).any(axis=1)
            docs, signature = docs[worded], signature[worded]
            for table in range(tables.tables):
                records = np.empty(len(docs), _RECORD)
                records["doc"] = docs
                keys = tables.keys(signature, table)
                records["key"] = minhash.mixed(keys, groups[docs]) if len(groups) else keys
                for part, chosen in _split(records, n_parts):
                    files.append(_part(table, part), chosen)
    return width


def _split(records: npt.NDArray[Any], n_parts: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Records by the highest bits of their keys."""
    if n_parts == 1:
        yield 0, records
        return
    part = (records["key"] >> np.uint64(64 - (n_parts - 1).bit_length())).astype(np.uint16)
    for i, rows in _by_number(part):
        yield i, records[rows]


def _by_number(numbers: U16) -> Iterator[tuple[int, I64]]:
    """Each number that occurs, and where, ascending."""
    order = np.argsort(numbers, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
    for i in np.flatnonzero(np.diff(bounds)):
        yield int(i), order[bounds[i] : bounds[i + 1]]


def _part(table: int, part: int) -> str:
    return f"keys-{table:04}-{part:05}"


def _of(name: str, number: int) -> str:
    return f"{name}-{number:05}"


def _spill_members(n_tables: int, n_parts: int, counts: U16, parents: I32, folder: Path) -> list[tuple[int, int]]:
    """Writes the members of each bucket, bucket by bucket, and how many each has; counts each document's buckets and joins their members.

    Returns:
        Members and buckets that came from each file of keys
    """
    parts = []
    with Appender(folder) as files:
        for name in (_part(table, part) for table in range(n_tables) for part in range(n_parts)):
            path = folder / name
            members, sizes = _shared(np.fromfile(path, _RECORD)) if path.exists() else _shared(np.zeros(0, _RECORD))
            path.unlink(missing_ok=True)
            counts[members] += 1  # a document is in one bucket of a table
            join(members, sizes, parents)
            files.append("members", members)
            files.append("sizes", sizes)
            parts.append((len(members), len(sizes)))
    return parts


def _shared(records: npt.NDArray[Any]) -> tuple[U32, I32]:
    """The documents of keys that occur more than once, key by key, and how many each key has."""
    keys = np.ascontiguousarray(records["key"])
    order = np.argsort(keys)
    keys = keys[order]
    fresh = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), np.bool_), keys[1:] != keys[:-1]]))
    sizes = np.diff(np.append(fresh, len(keys)))
    kept = np.repeat(sizes > 1, sizes)
    return records["doc"][order[kept]], sizes[sizes > 1].astype(np.int32)


def _split_members(parts: list[tuple[int, int]], number: U16, folder: Path) -> None:
    """Puts the buckets of each partition into files of their own."""
    with Appender(folder) as files, (folder / "members").open("rb") as all_members, (folder / "sizes").open("rb") as all_sizes:
        for n_members, n_buckets in parts:
            members, sizes = np.fromfile(all_members, np.uint32, n_members), np.fromfile(all_sizes, np.int32, n_buckets)
            held = number[members]
            for i, rows in _by_number(held):
                files.append(_of("members", i), members[rows])
            for i, rows in _by_number(held[np.cumsum(sizes) - sizes]):
                files.append(_of("sizes", i), sizes[rows])
    (folder / "members").unlink()
    (folder / "sizes").unlink()


def _split_signatures(signed: Iterable[tuple[I64, U32]], counts: U16, number: U16, folder: Path) -> None:
    """Puts the signatures of each partition's documents into files of their own."""
    with Appender(folder) as files:
        for docs, signature in signed:
            shared = np.flatnonzero(counts[docs])
            for i, rows in _by_number(number[docs[shared]]):
                files.append(_of("signatures", i), signature[shared[rows]])
