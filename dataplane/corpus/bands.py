"""Bands and rows of a signature: given, or chosen for a threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dataplane.kernels.minhash import band_keys

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

_STEPS = 1000  # of the integrals, over similarities from 0 to 1


@dataclass(frozen=True)
class Bands:
    """How signatures are cut.

    Attributes:
        bands: Bands; two documents are compared where they agree in one.
        rows: Hash functions in each.
    """

    bands: int
    rows: int

    @property
    def tables(self) -> int:
        """How many tables of keys there are."""
        return self.bands

    def keys(self, signed: U32, table: int) -> U64:
        """uint64 [k], hash of a band of each signature (uint32 [k, hashes])."""
        return band_keys(signed, table, self.rows)

    def probability(self, similarity: float) -> float:
        """Probability that two documents of this similarity are compared: 1 - (1 - s^rows)^bands."""
        return float(1 - (1 - similarity**self.rows) ** self.bands)


def chosen_bands(threshold: float, hashes: int, miss_weight: float) -> Bands:
    """The bands and rows that err least around a threshold.

    What is weighed are the areas between the curve of `Bands.probability` and the step at the threshold: needless comparisons below
    it, misses above it.

    Args:
        threshold: Similarity from which on pairs are wanted.
        hashes: Hash functions at hand; bands * rows is at most that.
        miss_weight: Weight of misses; that of needless comparisons is the rest to 1.

    Source: Zhu, Nargesian, Pu and Miller 2016, "LSH Ensemble", section 5.5.
    """
    s = (np.arange(_STEPS) + 0.5) / _STEPS
    above = s >= threshold
    best, least = Bands(1, 1), np.inf
    for rows in range(1, hashes + 1):
        base = 1 - s**rows
        for bands in range(1, hashes // rows + 1):
            missed = base**bands
            cost = miss_weight * missed[above].sum() + (1 - miss_weight) * (1 - missed[~above]).sum()
            if cost < least:
                best, least = Bands(bands, rows), cost
    return best
