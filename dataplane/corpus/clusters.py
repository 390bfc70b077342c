"""Clusters of duplicates: stars around a kept document, never chains.

Every dropped document is compared with the document that is kept for it. Two documents that resemble a third one but not
each other are therefore not thrown together, as the components of a graph of similar pairs would have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane import schema
from dataplane.corpus.banding import Sharers
from dataplane.corpus.spill import let_go, reserved
from dataplane.kernels.stars import MAX_LEADERS_IN_BUCKET, advance, lead

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

URL = "url"
SEMANTIC = "semantic"
HOW = ("", URL, "exact", "minhash", "simhash", SEMANTIC)  # what drops documents, in the order of the steps

# Where a component of documents is too large to be held, the pages of mapped arrays that were touched are let go after so many documents.
# The system maps a file's neighbouring pages with the one that is asked for, so that few documents touch much of it.
_HELD_BYTES = 256 << 20  # of signatures
_STEP = 500

# A document, some others [k], the share of hashes that each has in common with it [k] -> similarities [k].
Similar = Callable[[int, I64, F64], F64]


@dataclass(frozen=True)
class Stars:
    """Where each document stands.

    Attributes:
        leader: int64 [n], index of the document it stands behind, its own where it is kept.
        similarity: float64 [n], with it.
        full: How often a kept document found no room among the leaders of a bucket: those behind it were not compared with it.
    """

    leader: I64
    similarity: F64
    full: int


def greedy_stars(
    partitions: Iterable[Sharers], n: int, similar: Similar, chance: float, threshold: float, folder: Path, *, bits: bool = False
) -> Stars:
    """Puts each document behind the kept document most like it, or keeps it.

    Documents of a partition come by rank; each is compared with the documents kept so far that share a bucket with it, so the outcome
    depends on ranks and texts alone. Of equals, the one of the best rank is taken.

    Args:
        partitions: The documents that share buckets; those of two partitions share none.
        n: Documents in all.
        similar: Similarity of a document with each of some others.
        chance: Lowest share of equal hashes (or bits) that is worth a comparison.
        threshold: Lowest similarity of a duplicate.
        folder: Where arrays are spilled.
        bits: Whether signatures are compared bit by bit; else hash by hash.

    Raises:
        OSError: The disk is full.
    """
    stars = Stars(np.arange(n, dtype=np.int64), np.ones(n), 0)
    full = sum(_place(sharers, stars, similar, chance, threshold, folder / "leaders", bits) for sharers in partitions)
    return replace(stars, full=full)


def _place(sharers: Sharers, stars: Stars, similar: Similar, chance: float, threshold: float, path: Path, bits: bool) -> int:
    """Puts the documents of a partition where they belong; returns how often a bucket had no room for a leader."""
    bounds = np.minimum(sharers.sizes - 1, MAX_LEADERS_IN_BUCKET)
    room = np.concatenate([np.zeros(1, np.int64), np.cumsum(bounds, dtype=np.int64)])
    leaders = reserved(path, (int(room[-1]),), np.int32)
    widest = int(np.diff(sharers.starts).max(initial=0)) * MAX_LEADERS_IN_BUCKET
    found, estimates = np.empty(widest, np.int32), np.empty(widest)
    lists = (sharers.starts, sharers.buckets, room, leaders, np.zeros(len(bounds), np.uint8))
    about = (sharers.signatures, sharers.rows, sharers.groups, bits, chance)
    at, full, step = 0, 0, _STEP if sharers.signatures.nbytes > _HELD_BYTES else max(1, len(sharers.docs))
    for stop in [*range(step, len(sharers.docs), step), len(sharers.docs)]:
        while at < stop:
            at, count, missed = advance(at, *lists, *about, stop, found, estimates)
            full += missed
            if not count:
                break
            doc, others = int(sharers.docs[at]), sharers.docs[found[:count]]
            values = similar(doc, others, estimates[:count])
            best = int(np.argmax(values))
            if values[best] >= threshold:
                stars.leader[doc], stars.similarity[doc] = others[best], values[best]
            else:
                full += lead(at, *lists)
            at += 1
        for array in (sharers.signatures, sharers.buckets, leaders):
            let_go(array)
    path.unlink(missing_ok=True)
    return full


@dataclass(frozen=True)
class Standing:
    """Behind whom each document stands after some steps, and which step put it there.

    Attributes:
        leader: int64 [n], index of the kept document it stands behind; its own where it is kept.
        similarity: float64 [n], with it; NaN where nothing says how alike the texts are.
        how: int8 [n], place in `HOW`; 0 for kept ones.
    """

    leader: I64
    similarity: F64
    how: npt.NDArray[np.int8]

    @classmethod
    def alone(cls, n: int) -> Standing:
        """Every document by itself."""
        return cls(np.arange(n), np.ones(n), np.zeros(n, np.int8))

    def kept(self) -> I64:
        """The documents that no step has dropped, ascending."""
        return np.flatnonzero(self.how == 0)

    def then(self, leader: I64, similarity: F64, how: str) -> Standing:
        """After one more step among those that are kept.

        A document whose keeper is dropped now stands where that one does, and as similar to it: its text is its keeper's. Of one that was
        dropped for its address nobody knows how alike the texts are.

        Args:
            leader: int64 [n], its own index where a document is not dropped.
            similarity: float64 [n]
            how: Name of the step.
        """
        moved = leader[self.leader] != self.leader
        told = moved & (self.how != HOW.index(URL))
        return Standing(
            leader[self.leader],
            np.where(told, similarity[self.leader], self.similarity),
            np.where(told, HOW.index(how), self.how).astype(np.int8),
        )


def duplicate_rows(doc_ids: pa.Array, standing: Standing) -> pa.Table:
    """Rows of `duplicates`.

    Args:
        doc_ids: string [n]
        standing: Each document's representative.

    Returns:
        One row for each member of a cluster of two or more, by cluster_id, the kept one first, then by doc_id. The `how` of the kept
        one is the last step that dropped another for it.
    """
    leader = standing.leader
    how = standing.how.copy()
    np.maximum.at(how, leader, standing.how)
    members = np.flatnonzero(np.bincount(leader, minlength=len(leader))[leader] > 1)
    members = members[np.argsort(leader[members], kind="stable")]
    groups, starts = np.unique(leader[members], return_index=True)
    ids = doc_ids.take(pa.array(members))
    rows = pa.table(
        {
            "doc_id": ids,
            "cluster_id": _group_minimum(ids, leader[members], groups, starts),
            "kept": pa.array(leader[members] == members),
            "representative": doc_ids.take(pa.array(leader[members])),
            "similarity": pa.array(standing.similarity[members], pa.float64(), from_pandas=True),
            "how": pa.array(HOW, pa.string()).take(pa.array(how[members])),
        },
        schema=schema.DUPLICATES,
    )
    return rows.sort_by([("cluster_id", "ascending"), ("kept", "descending"), ("doc_id", "ascending")])


def _group_minimum(ids: pa.Array, group: I64, groups: I64, starts: I64) -> pa.Array:
    """The smallest id of each member's group; members of a group lie side by side."""
    if not len(ids):
        return ids
    order = pc.array_sort_indices(ids).to_numpy()
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids))
    lowest = order[np.minimum.reduceat(place, starts)]
    return ids.take(pa.array(lowest[np.searchsorted(groups, group)]))
