"""Exact duplicates: documents with one content hash, and the order that says which of them stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.corpus.clusters import duplicate_rows
from dataplane.kernels.hashing import hash128
from dataplane.kernels.unicode import letter_hashes
from dataplane.params import Params

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]


class ExactParams(Params):
    """Params of exact deduplication."""

    level: Literal["bytes", "unicode", "letters"] = Field(
        "unicode",
        description="What makes two texts equal. bytes: every byte. unicode: after NFKC and lower case, so that width and case do not "
        "count. letters: letters and numbers alone, so that white space, punctuation and accents do not count either.",
    )


def content_hashes(text: pa.Array, params: ExactParams) -> U64:
    """128-bit hash of each document's normalised text.

    Args:
        text: large_string [n]
        params: The level of normalisation. A text without letters or numbers is compared byte by byte at level `letters`.

    Returns:
        uint64 [n, 2]
    """
    if params.level == "letters":
        return letter_hashes(text)
    if params.level == "unicode":
        text = pc.utf8_lower(pc.utf8_normalize(text, form="NFKC"))
    return hash128(text)


def survival_rank(doc_ids: pa.Array, sources: pa.Array, lengths: pa.Array, source_priority: Sequence[str]) -> I64:
    """The order in which documents are preferred: listed sources first, then longer texts, then the smaller doc_id.

    Args:
        doc_ids: string [n], distinct
        sources: string [n]
        lengths: int64 [n], UTF-8 bytes
        source_priority: Sources, best first; others come after them, as equals.

    Returns:
        int64 [n], 0 for the document that is preferred to all others; a permutation that depends on no order of rows
    """
    standing = pc.fill_null(pc.index_in(sources, pa.array(list(source_priority), sources.type)), len(source_priority))
    table = pa.table({"standing": standing, "length": lengths, "doc_id": doc_ids})
    order = pc.sort_indices(table, sort_keys=[("standing", "ascending"), ("length", "descending"), ("doc_id", "ascending")])
    rank = np.empty(len(doc_ids), np.int64)
    rank[order.to_numpy()] = np.arange(len(doc_ids))
    return rank


def find_duplicates(doc_ids: pa.Array, hashes: U64, rank: I64) -> pa.Table:
    """Groups of equal documents.

    Args:
        doc_ids: string [n]
        hashes: uint64 [n, 2] of `content_hashes`
        rank: int64 [n] of `survival_rank`; the lowest of a group is kept.

    Returns:
        Rows of `duplicates` for every member of a group of two or more, kept ones included, sorted by cluster and rank
    """
    order = np.lexsort((rank, hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    leader = np.empty(len(order), np.int64)
    leader[order] = order[np.flatnonzero(fresh)][np.cumsum(fresh) - 1]
    return duplicate_rows(doc_ids, leader, np.ones(len(order)), rank, "exact")
