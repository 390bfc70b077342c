"""Clusters of duplicates: stars around a kept document, never chains.

Every dropped document is compared with the document that is kept for it. Two documents that resemble a third one but not
each other are therefore not thrown together, as the components of a graph of similar pairs would have them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane import schema

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# A document is compared with at most this many kept documents of a bucket, its best by rank. Thousands of short documents
# that share a bucket and are not alike would otherwise cost the square of their number.
MAX_LEADERS_IN_BUCKET = 64


def greedy_stars(buckets: I32, rank: I64, similar: Callable[[int, I64], F64], threshold: float) -> tuple[I64, F64]:
    """Puts each document behind the kept document most like it, or keeps it.

    Documents come in the order of `rank`; each is compared with the documents kept so far that share a bucket with it,
    so the outcome depends on ranks and texts alone.

    Args:
        buckets: int32 [n, bands], the bucket of each document in each band, -1 where it is alone there; ids are distinct
            across bands.
        rank: int64 [n], a permutation; 0 is preferred to all others.
        similar: Similarity of a document with each of some others, float64.
        threshold: Lowest similarity of a duplicate.

    Returns:
        int64 [n], index of the document it stands behind, its own where it is kept; float64 [n], similarity with it
    """
    leader, similarity = np.arange(len(rank), dtype=np.int64), np.ones(len(rank))
    leaders: dict[int, list[int]] = {}
    for doc in ranked_sharers(buckets, rank):
        own = [int(bucket) for bucket in buckets[doc] if bucket >= 0]
        candidates = np.unique(np.array([other for bucket in own for other in leaders.get(bucket, ())], np.int64))
        if len(candidates):
            candidates = candidates[np.argsort(rank[candidates])]  # of equals, the one of the best rank
            values = similar(int(doc), candidates)
            best = int(np.argmax(values))
            if values[best] >= threshold:
                leader[doc], similarity[doc] = candidates[best], values[best]
                continue
        for bucket in own:
            members = leaders.setdefault(bucket, [])
            if len(members) < MAX_LEADERS_IN_BUCKET:
                members.append(int(doc))
    return leader, similarity


def ranked_sharers(buckets: I32, rank: I64) -> I64:
    """Documents that share a bucket with another, by rank."""
    sharers = np.flatnonzero((buckets >= 0).any(axis=1))
    return sharers[np.argsort(rank[sharers])]


def duplicate_rows(doc_ids: pa.Array, leader: I64, similarity: npt.NDArray[np.float64], rank: I64, how: str) -> pa.Table:
    """Rows of `duplicates` from each document's representative.

    Args:
        doc_ids: string [n]
        leader: int64 [n], index of the kept document it stands behind; its own where it is kept
        similarity: float64 [n], with the representative
        rank: int64 [n]
        how: exact | minhash

    Returns:
        One row for each member of a cluster of two or more, sorted by cluster_id, then rank
    """
    size = np.bincount(leader, minlength=len(leader))
    members = np.flatnonzero(size[leader] > 1)
    members = members[np.lexsort((rank[members], leader[members]))]
    groups, starts = np.unique(leader[members], return_index=True)
    ids = doc_ids.take(pa.array(members))
    smallest = _group_minimum(ids, leader[members], groups, starts)
    rows = pa.table(
        {
            "doc_id": ids,
            "cluster_id": smallest,
            "kept": pa.array(leader[members] == members),
            "representative": doc_ids.take(pa.array(leader[members])),
            "similarity": pa.array(similarity[members], pa.float64()),
            "how": pa.array([how] * len(members), pa.string()),
            "rank": pa.array(rank[members]),
        }
    )
    rows = rows.sort_by([("cluster_id", "ascending"), ("rank", "ascending")])
    return rows.drop_columns(["rank"]).cast(schema.DUPLICATES)


def _group_minimum(ids: pa.Array, group: I64, groups: I64, starts: I64) -> pa.Array:
    """The smallest id of each member's group; members of a group lie side by side."""
    if not len(ids):
        return ids
    order = pc.array_sort_indices(ids).to_numpy()
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids))
    lowest = order[np.minimum.reduceat(place, starts)]
    return ids.take(pa.array(lowest[np.searchsorted(groups, group)]))
