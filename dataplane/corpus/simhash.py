"""Near-duplicates by SimHash: every pair whose fingerprints differ in few bits, found by the pigeonhole principle.

Where k bits differ and 64 bits are cut into b > k blocks, at least b - k blocks are equal. So there is a table for each choice of b - k
blocks, and two documents are compared where they are equal in one of them: no pair is missed. More blocks make longer keys and more tables.

Source: Manku, Jain, Das Sarma 2007, "Detecting near-duplicates for web crawling", section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.corpus.banding import U32, U64, Work, find_sharers
from dataplane.corpus.clusters import Stars, greedy_stars
from dataplane.corpus.spill import spill_folder
from dataplane.kernels import simhash
from dataplane.params import Params

VERSION = simhash.VERSION  # of the definition of fingerprints
WIDTH = 2  # a fingerprint as uint32
MAX_TABLES = 60
_SPARE_BITS = 2  # of a key beyond those that number the documents, so that buckets of chance are small


class SimHashParams(Params):
    """Params of near-duplicate search by fingerprints."""

    shingle_words: int = Field(3, ge=1, le=50, description="Words in a shingle; a Chinese or Japanese character is a word.")
    distance: int = Field(3, ge=0, le=12, description="Most bits, of 64, in which the fingerprints of duplicates differ.")


def signatures(text: pa.Array, params: SimHashParams) -> U32:
    """The fingerprint of each document, lower half first.

    Args:
        text: large_string [n]
        params: Words in a shingle.

    Returns:
        uint32 [n, 2]; 0xFFFFFFFF twice for a text without words
    """
    return simhash.fingerprints(text, words=params.shingle_words).astype("<u8").view("<u4").reshape(-1, WIDTH)


@dataclass(frozen=True)
class Blocks:
    """Tables of equal blocks.

    Attributes:
        masks: The bits that a table compares, one number each.
    """

    masks: tuple[int, ...]

    @property
    def tables(self) -> int:
        """How many tables there are."""
        return len(self.masks)

    def keys(self, signed: U32, table: int) -> U64:
        """uint64 [k], what a table compares."""
        whole: U64 = np.ascontiguousarray(signed).view(np.uint64).reshape(-1) & np.uint64(self.masks[table])
        # Spread, as keys are put into files by their highest bits.
        spread: npt.NDArray[np.uint64] = whole * np.uint64(0x9E3779B97F4A7C15)
        return spread


def chosen_blocks(distance: int, n: int) -> Blocks:
    """As many blocks as make keys that tell n documents apart, and not more than `MAX_TABLES` tables."""
    wanted = n.bit_length() + _SPARE_BITS
    blocks = distance + 1
    while simhash.BITS * (blocks - distance) // blocks < wanted and comb(blocks + 1, distance) <= MAX_TABLES:
        blocks += 1
    bounds = [simhash.BITS * i // blocks for i in range(blocks + 1)]
    parts = [(1 << stop) - (1 << start) for start, stop in pairwise(bounds)]
    return Blocks(tuple(sum(chosen) for chosen in combinations(parts, blocks - distance)))


def find_duplicates(work: Work, params: SimHashParams, folder: Path) -> Stars:
    """Each document's kept document; similarity is the share of equal bits. A text without words is nobody's duplicate here.

    Args:
        work: Fingerprints and ranks.
        params: The distance.
        folder: Where arrays are spilled; it is gone afterwards.

    Raises:
        OSError: The disk is full.
    """
    least = 1 - params.distance / simhash.BITS
    with spill_folder(folder) as place:
        sharers = find_sharers(work, chosen_blocks(params.distance, len(work.rank)), place)
        return greedy_stars(sharers, len(work.rank), lambda _, __, shares: shares, least, least, place, bits=True)
