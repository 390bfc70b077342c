"""Exact duplicates: documents with one content hash."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.kernels import minhash
from dataplane.kernels.hashing import hash128
from dataplane.kernels.plain_form import plain_hashes
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
        return plain_hashes(text)
    return hash128(text)


def mixed(hashes: U64, groups: U64) -> U64:
    """Hashes (uint64 [n, 2]) that differ between groups (uint64 [n])."""
    return np.stack([minhash.mixed(hashes[:, 0], groups), hashes[:, 1]], axis=1)


def leaders(hashes: U64, rank: I64) -> I64:
    """The document of lowest rank among those that equal each document.

    Args:
        hashes: uint64 [n, 2] of `content_hashes`
        rank: int64 [n] of `survival.survival_rank`

    Returns:
        int64 [n], its own index where a document stays
    """
    order = np.lexsort((rank, hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    leader = np.empty(len(order), np.int64)
    leader[order] = order[np.flatnonzero(fresh)][np.cumsum(fresh) - 1]
    return leader
