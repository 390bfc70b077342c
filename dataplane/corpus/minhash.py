"""Near-duplicates: MinHash signatures, banding, and clusters whose every member is verified.

A document is dropped only for a kept document that it was compared with (`clusters.greedy_stars`), so no cluster grows by
chaining. Cost for n documents: n signatures of 4 bytes a hash function, one sort of n keys a band, and the texts of those
documents alone that share a bucket.

Source: Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4; bands and rows of FineWeb (arXiv:2406.17557, 3.4).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.corpus.clusters import duplicate_rows, greedy_stars, ranked_sharers
from dataplane.corpus.exact import ExactParams
from dataplane.kernels import minhash
from dataplane.params import Params

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

# Indices of documents [k] -> their texts [k], in that order.
TextsOf = Callable[[I64], pa.Array]

_CHUNK_DOCUMENTS = 256  # whose texts are fetched together
_CACHE_BYTES = 256 << 20  # of shingle sets kept for comparison
_PREFILTER_SIGMAS = 4.0


class MinHashParams(Params):
    """Params of near-duplicate search."""

    bands: int = Field(14, ge=1, le=1000, description="Bands; two documents are compared where they agree in one.")
    rows: int = Field(8, ge=1, le=64, description="Hash functions in a band.")
    shingle_words: int = Field(5, ge=1, le=50, description="Words in a shingle; a Chinese or Japanese character is a word.")
    seed: int = Field(1, ge=0, lt=1 << 64, description="Start of the hash functions.")
    threshold: float = Field(0.8, gt=0, le=1, description="Lowest Jaccard similarity of a duplicate, by shingles.")
    verify: Literal["exact", "estimate"] = Field(
        "exact", description="exact: candidates are compared by their shingle sets. estimate: by their signatures, without the texts."
    )


class DedupParams(Params):
    """Params of the dedup stage."""

    exact: ExactParams = Field(default_factory=lambda: ExactParams.model_validate({}), description="Exact duplicates, found first.")
    minhash: MinHashParams = Field(
        default_factory=lambda: MinHashParams.model_validate({}), description="Near-duplicates among what is left."
    )
    source_priority: list[str] = Field(
        [],
        description="Sources whose documents survive those of others, best first; then the longer text survives, then the smaller doc_id.",
    )


def candidate_probability(similarity: float, params: MinHashParams) -> float:
    """Probability that two documents of this similarity are compared: 1 - (1 - s^rows)^bands."""
    return float(1 - (1 - similarity**params.rows) ** params.bands)


def signatures(text: pa.Array, params: MinHashParams) -> U32:
    """The signature of each document.

    Args:
        text: large_string [n]
        params: Bands, rows, shingle and seed.

    Returns:
        uint32 [n, bands * rows]; 0xFFFFFFFF throughout for a text without words
    """
    return minhash.signatures(text, n=params.bands * params.rows, words=params.shingle_words, seed=params.seed)


def find_duplicates(doc_ids: pa.Array, signed: U32, rank: I64, texts_of: TextsOf, params: MinHashParams) -> pa.Table:
    """Clusters of near-duplicates.

    Args:
        doc_ids: string [n]
        signed: uint32 [n, bands * rows] of `signatures`; may be memory-mapped.
        rank: int64 [n] of `exact.survival_rank`; a document is only dropped for one of lower rank.
        texts_of: Texts of documents by index; asked only for those that share a bucket, and only to verify.
        params: Bands, rows, threshold and how to verify.

    Returns:
        Rows of `duplicates` for every member of a cluster of two or more, kept ones included, sorted by cluster and rank.
        A text without words is nobody's duplicate here.
    """
    buckets = bucket_ids(signed, params)
    compare = _Comparison(signed, texts_of, params, ranked_sharers(buckets, rank))
    leader, similarity = greedy_stars(buckets, rank, compare, params.threshold)
    return duplicate_rows(doc_ids, leader, similarity, rank, "minhash")


def bucket_ids(signed: U32, params: MinHashParams) -> I32:
    """The bucket of each document in each band.

    Args:
        signed: uint32 [n, bands * rows]
        params: Bands and rows.

    Returns:
        int32 [n, bands], ids distinct across bands; -1 where no other document is in the bucket
    """
    out = np.full((len(signed), params.bands), -1, np.int32)
    worded = np.flatnonzero((signed != minhash.NO_SHINGLE).any(axis=1))
    used = 0
    for band in range(params.bands):
        keys = minhash.band_keys(signed, band, params.rows)[worded]
        order = np.argsort(keys, kind="stable")
        _, inverse, counts = np.unique(keys[order], return_inverse=True, return_counts=True)
        several = counts > 1
        names = np.where(several, np.cumsum(several) - 1 + used, -1).astype(np.int32)
        out[worded[order], band] = names[inverse]
        used += int(several.sum())
    return out


class _Comparison:
    """Similarity of documents, by signature first and by shingle set where that leaves a chance.

    Args:
        signed: uint32 [n, bands * rows]
        texts_of: Texts by index.
        params: Threshold and how to verify.
        sequence: int64, the documents in the order in which they will be asked for.
    """

    def __init__(self, signed: U32, texts_of: TextsOf, params: MinHashParams, sequence: I64) -> None:
        self.signed, self.texts_of, self.params, self.sequence = signed, texts_of, params, sequence
        spread = (params.threshold * (1 - params.threshold) / signed.shape[1]) ** 0.5 if signed.shape[1] else 0.0
        self._chance = params.threshold - _PREFILTER_SIGMAS * spread
        self._place = {int(doc): i for i, doc in enumerate(sequence)}
        self._sets: OrderedDict[int, U64] = OrderedDict()
        self._bytes = 0

    def __call__(self, doc: int, others: I64) -> F64:
        """Similarity of `doc` with each of `others`; 0 where the estimate leaves no chance of reaching the threshold."""
        estimates: F64 = (self.signed[others] == self.signed[doc]).mean(axis=1)
        if self.params.verify == "estimate":
            return estimates
        exact = np.zeros(len(others))
        for i in np.flatnonzero(estimates >= self._chance):
            own = self._set(doc, ahead=_CHUNK_DOCUMENTS)
            exact[i] = minhash.jaccard(own, self._set(int(others[i]), ahead=1))
        return exact

    def _set(self, doc: int, *, ahead: int) -> U64:
        if doc not in self._sets:
            self._fetch(doc, ahead)
        self._sets.move_to_end(doc)
        return self._sets[doc]

    def _fetch(self, doc: int, ahead: int) -> None:
        """Reads the document, and with it some of those that will be asked for after it."""
        start = self._place[doc]
        wanted = [int(i) for i in self.sequence[start : start + ahead] if int(i) not in self._sets]
        values, bounds = minhash.shingle_sets(self.texts_of(np.array(wanted, np.int64)), words=self.params.shingle_words)
        for i, other in enumerate(wanted):
            self._sets[other] = values[bounds[i] : bounds[i + 1]].copy()
            self._bytes += self._sets[other].nbytes
        self._sets.move_to_end(doc)
        while self._bytes > _CACHE_BYTES and len(self._sets) > _CHUNK_DOCUMENTS:
            self._bytes -= self._sets.popitem(last=False)[1].nbytes
