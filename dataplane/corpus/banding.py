"""Which documents share a key of their signatures, with the keys on disk: a band of MinHash, a choice of bits of SimHash.

Keys of a table are spread over files by their highest bits, and each file is sorted alone: memory is that of the largest of them, and a few
numbers for each document. Cost is a sort of n keys a table; 12 bytes on disk for each document and table, and 8 for each that is shared.

Source: Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dataplane.corpus.spill import Appender, let_go, mapped, reserved
from dataplane.errors import DataError
from dataplane.kernels import minhash
from dataplane.kernels.stars import scatter

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

# Index and signature of documents, in blocks; read more than once.
Signed = Callable[[], Iterable[tuple[I64, U32]]]

MAX_DOCUMENTS = (1 << 31) - 1
_PARTITION_KEYS = 1 << 21
_RECORD = np.dtype([("key", "<u8"), ("doc", "<u4")])
_SIGNATURES = "signatures"


@dataclass(frozen=True)
class Sharers:
    """The documents that share a bucket with another, by rank.

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


def find_sharers(work: Work, tables: Tables, folder: Path) -> Sharers:
    """Finds them in two passes over the signatures. A signature of nothing but `minhash.NO_SHINGLE` shares nothing.

    Args:
        work: Signatures, ranks and groups.
        tables: How keys are made.
        folder: Where arrays are spilled; the result lies there too.

    Raises:
        DataError: There are more documents than one process can number.
        OSError: The disk is full.
    """
    rank, groups = work.rank, work.groups
    if len(rank) > MAX_DOCUMENTS:
        raise DataError(f"{len(rank)} documents are more than one process numbers", where="dedup", fix="use `within` and several projects")
    n_parts = 1 << max(0, (len(rank) - 1) // _PARTITION_KEYS).bit_length()
    _spill_keys(work, tables, n_parts, folder)
    parts, counts = _spill_members(tables.tables, n_parts, len(rank), folder)
    sharers = np.flatnonzero(counts)
    by_rank = np.argsort(rank[sharers])
    docs = sharers[by_rank]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[docs], dtype=np.int64)])
    buckets = _by_document(parts, docs, starts, len(rank), folder)
    signatures = _spill_signatures(work.signed(), counts > 0, folder)
    of = groups[docs] if len(groups) else groups
    return Sharers(docs, starts, buckets, mapped(folder / "sizes", np.int32), signatures, by_rank.astype(np.int32), of)


def _spill_keys(work: Work, tables: Tables, n_parts: int, folder: Path) -> None:
    groups = work.groups
    with Appender(folder) as files:
        for docs, signature in work.signed():
            worded = (signature != minhash.NO_SHINGLE).any(axis=1)
            docs, signature = docs[worded], signature[worded]
            for table in range(tables.tables):
                records = np.empty(len(docs), _RECORD)
                records["doc"] = docs
                keys = tables.keys(signature, table)
                records["key"] = minhash.mixed(keys, groups[docs]) if len(groups) else keys
                for part, chosen in _split(records, n_parts):
                    files.append(_part(table, part), chosen)


def _split(records: npt.NDArray[Any], n_parts: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Records by the highest bits of their keys."""
    if n_parts == 1:
        yield 0, records
        return
    part = (records["key"] >> np.uint64(64 - (n_parts - 1).bit_length())).astype(np.int64)
    records = records[np.argsort(part, kind="stable")]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=n_parts))])
    for i in np.flatnonzero(np.diff(bounds)):
        yield int(i), records[bounds[i] : bounds[i + 1]]


def _part(table: int, part: int) -> str:
    return f"keys-{table:04}-{part:05}"


def _spill_members(n_tables: int, n_parts: int, n: int, folder: Path) -> tuple[list[tuple[int, int]], npt.NDArray[np.uint16]]:
    """Writes the members of each bucket, bucket by bucket, and how many each has.

    Returns:
        Members and buckets that came from each file of keys; uint16 [n], the buckets that each document shares
    """
    counts = np.zeros(n, np.uint16)
    parts = []
    with Appender(folder) as files:
        for name in (_part(table, part) for table in range(n_tables) for part in range(n_parts)):
            path = folder / name
            members, sizes = _shared(np.fromfile(path, _RECORD)) if path.exists() else _shared(np.zeros(0, _RECORD))
            path.unlink(missing_ok=True)
            counts[members] += 1  # a document is in one bucket of a table
            files.append("members", members)
            files.append("sizes", sizes)
            parts.append((len(members), len(sizes)))
    return parts, counts


def _shared(records: npt.NDArray[Any]) -> tuple[U32, I32]:
    """The documents of keys that occur more than once, key by key, and how many each key has."""
    keys = np.ascontiguousarray(records["key"])
    order = np.argsort(keys)
    keys = keys[order]
    fresh = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), np.bool_), keys[1:] != keys[:-1]]))
    sizes = np.diff(np.append(fresh, len(keys)))
    kept = np.repeat(sizes > 1, sizes)
    return records["doc"][order[kept]], sizes[sizes > 1].astype(np.int32)


def _by_document(parts: list[tuple[int, int]], docs: I64, starts: I64, n: int, folder: Path) -> I32:
    """Turns the lists of members into lists of buckets."""
    place = np.zeros(n, np.int32)
    place[docs] = np.arange(len(docs), dtype=np.int32)
    buckets = reserved(folder / "buckets", (int(starts[-1]),), np.int32)
    members, sizes = mapped(folder / "members", np.uint32), mapped(folder / "sizes", np.int32)
    fill = starts[:-1].copy()
    member = bucket = 0
    for n_members, n_buckets in parts:
        scatter(members[member : member + n_members], sizes[bucket : bucket + n_buckets], bucket, place, fill, buckets)
        member, bucket = member + n_members, bucket + n_buckets
        let_go(buckets)
        let_go(members)
    (folder / "members").unlink()
    return buckets


def _spill_signatures(signed: Iterable[tuple[I64, U32]], shares: npt.NDArray[np.bool_], folder: Path) -> U32:
    width = 1
    with Appender(folder) as files:
        for docs, signature in signed:
            width = signature.shape[1]
            files.append(_SIGNATURES, signature[shares[docs]])
    return mapped(folder / _SIGNATURES, np.uint32, width)
