"""Stars of duplicates, one document after the other: whom it has to be compared with, and where it goes."""

from __future__ import annotations

import numba as nb
import numpy as np

# A document is compared with at most this many kept documents of a bucket, its best by rank. Thousands of short documents
# that share a bucket and are not alike would otherwise cost the square of their number.
MAX_LEADERS_IN_BUCKET = 64
BYTES_PER_BUCKET = 16  # of a document: among its members, in the document's list, and among its leaders

_I32 = nb.types.Array(nb.int32, 1, "C", readonly=True)
_U32 = nb.types.Array(nb.uint32, 1, "C", readonly=True)
_SIGNED = nb.types.Array(nb.uint32, 2, "C", readonly=True)


@nb.njit(nb.int32(nb.int32[::1], nb.int64), cache=True, nogil=True)
def _root(parents, doc):  # type: ignore[no-untyped-def]
    """The document that stands for a document's component; the way to it is halved."""
    while parents[doc] != doc:
        parents[doc] = parents[parents[doc]]
        doc = parents[doc]
    return doc


@nb.njit(nb.void(_U32, _I32, nb.int32[::1]), cache=True, nogil=True)
def join(members, sizes, parents):  # type: ignore[no-untyped-def]
    """Joins the components of each bucket's members; the lowest document stands for a component.

    Args:
        members: uint32, documents, bucket by bucket
        sizes: int32, documents in each bucket
        parents: int32 [n], a document of the component of each, lower than it or itself

    Source: Tarjan and van Leeuwen 1984, "Worst-case analysis of set union algorithms": path halving.
    """
    at = 0
    for size in sizes:
        low = _root(parents, members[at])
        for i in range(at + 1, at + size):
            other = _root(parents, members[i])
            if other < low:
                low, other = other, low
            parents[other] = low
        at += size


@nb.njit(nb.int64(nb.uint16[::1], nb.int32[::1], nb.int64, nb.int64, nb.uint16[::1]), cache=True, nogil=True)
def partition(counts, parents, bytes_per_document, limit, number):  # type: ignore[no-untyped-def]
    """Puts components together to partitions, in the order of the documents that stand for them.

    Args:
        counts: uint16 [n], the buckets that each document shares; one that shares none is in no partition
        parents: int32 [n] of `join`
        bytes_per_document: What a document takes, beside `BYTES_PER_BUCKET` for each of its buckets.
        limit: Bytes of a partition; one that a larger component is in has more.
        number: uint16 [n], filled with the partition of each document

    Returns:
        How many partitions there are
    """
    weights = np.zeros(len(parents), np.int64)
    for doc in range(len(parents)):
        if counts[doc]:
            weights[_root(parents, doc)] += bytes_per_document + BYTES_PER_BUCKET * counts[doc]
    n, filled = 0, nb.int64(0)
    for doc in range(len(parents)):
        if weights[doc]:
            if not n or filled + weights[doc] > limit:
                n, filled = n + 1, 0
            filled += weights[doc]
            weights[doc] = n - 1
        if counts[doc]:  # whatever stands for its component is not behind it
            number[doc] = weights[_root(parents, doc)]
    return n


@nb.njit(nb.void(_U32, _I32, nb.int32[::1], nb.int64[::1], nb.int32[::1]), cache=True, nogil=True)
def scatter(members, sizes, place, fill, buckets):  # type: ignore[no-untyped-def]
    """Writes each bucket's number to its members.

    Args:
        members: uint32, documents, bucket by bucket
        sizes: int32, documents in each bucket
        place: int32, place of each document
        fill: int64, where each place writes next
        buckets: int32, the numbers by place
    """
    at = 0
    for i in range(len(sizes)):
        for _ in range(sizes[i]):
            p = place[members[at]]
            buckets[fill[p]] = i
            fill[p] += 1
            at += 1


@nb.njit(nb.int64(nb.int64, nb.int64[::1], _I32, nb.int64[::1], nb.int32[::1], nb.uint8[::1], nb.int32[::1]), cache=True, nogil=True)
def _gather(at, starts, buckets, room, leaders, filled, out):  # type: ignore[no-untyped-def]
    """The leaders of a document's buckets, ascending, each once; returns how many."""
    n = 0
    for i in range(starts[at], starts[at + 1]):
        bucket = buckets[i]
        first = room[bucket]
        for j in range(filled[bucket]):
            out[n] = leaders[first + j]
            n += 1
    if n < 2:
        return n
    out[:n].sort()
    distinct = 1
    for i in range(1, n):
        if out[i] != out[distinct - 1]:
            out[distinct] = out[i]
            distinct += 1
    return distinct


@nb.njit(nb.int64(nb.int64, nb.int64[::1], _I32, nb.int64[::1], nb.int32[::1], nb.uint8[::1]), cache=True, nogil=True)
def lead(at, starts, buckets, room, leaders, filled):  # type: ignore[no-untyped-def]
    """Makes a document a leader of its buckets; returns in how many there was no room for it."""
    full = 0
    for i in range(starts[at], starts[at + 1]):
        bucket = buckets[i]
        if room[bucket] + filled[bucket] < room[bucket + 1]:
            leaders[room[bucket] + filled[bucket]] = at
            filled[bucket] += 1
        elif filled[bucket] == MAX_LEADERS_IN_BUCKET:
            full += 1
    return full


@nb.njit(nb.float64(_SIGNED, nb.int64, nb.int64, nb.boolean), cache=True, nogil=True)
def shared_part(signed, left, right, bits):  # type: ignore[no-untyped-def]
    """The share of hash functions, or of bits, on which two signatures agree."""
    equal = 0
    if not bits:
        for j in range(signed.shape[1]):
            equal += signed[left, j] == signed[right, j]
        return equal / signed.shape[1]
    for j in range(signed.shape[1]):
        rest = signed[left, j] ^ signed[right, j]
        while rest:
            rest &= rest - np.uint32(1)
            equal -= 1
    return 1 + equal / (32 * signed.shape[1])


@nb.njit(
    nb.types.UniTuple(nb.int64, 3)(
        nb.int64, nb.int64[::1], _I32, nb.int64[::1], nb.int32[::1], nb.uint8[::1],
        _SIGNED, _I32, nb.types.Array(nb.uint64, 1, "C", readonly=True), nb.boolean, nb.float64, nb.int64, nb.int32[::1], nb.float64[::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def advance(at, starts, buckets, room, leaders, filled, signed, rows, groups, bits, chance, stop, found, estimates):  # type: ignore[no-untyped-def]
    """Makes leaders of documents until one comes that may be a duplicate.

    Args:
        at: Document to begin with, by rank.
        starts: int64 [m + 1], where the buckets of each document begin
        buckets: int32
        room: int64 [buckets + 1], where the leaders of each bucket begin
        leaders: int32, places by rank
        filled: uint8 [buckets], leaders that a bucket has
        signed: uint32 [m, hashes]
        rows: int32 [m], the document's signature
        groups: uint64 [m] or empty; those of other groups are not compared
        bits: Whether signatures are compared bit by bit; else hash by hash.
        chance: Lowest estimate that is worth a comparison.
        stop: Document not to go to.
        found: int32, filled with the leaders that it may be a duplicate of, ascending
        estimates: float64, filled with the share that is equal

    Returns:
        The document, `stop` where none came before it; how many leaders were found; how often a bucket had no room for a leader
    """
    full = 0
    while at < stop:
        n = 0
        for i in range(_gather(at, starts, buckets, room, leaders, filled, found)):
            other = found[i]
            if len(groups) and groups[other] != groups[at]:
                continue
            estimate = shared_part(signed, rows[at], rows[other], bits)
            if estimate >= chance:
                found[n] = other
                estimates[n] = estimate
                n += 1
        if n:
            return at, n, full
        full += lead(at, starts, buckets, room, leaders, filled)
        at += 1
    return at, 0, full
