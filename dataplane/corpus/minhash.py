"""Near-duplicates: MinHash signatures, banding on disk, and clusters whose every member is verified.

A document is dropped only for a kept document that it was compared with (`clusters.greedy_stars`), so no cluster grows by
chaining. Cost for n documents: n signatures of 4 bytes a hash function, one sort of n keys a band (`banding`), and the texts of those
documents alone that share a bucket.

Source: Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, 3.4; bands and rows of FineWeb (arXiv:2406.17557, 3.4).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.corpus.banding import Work, find_sharers
from dataplane.corpus.bands import Bands, chosen_bands
from dataplane.corpus.clusters import Stars, greedy_stars
from dataplane.corpus.similarities import Similarities
from dataplane.corpus.spill import spill_folder
from dataplane.kernels import minhash
from dataplane.params import Params

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

# Indices of documents [k] -> their texts [k], in that order.
TextsOf = Callable[[I64], pa.Array]

VERSION = minhash.VERSION  # of the definition of signatures

_CHUNK_DOCUMENTS = 256  # whose texts are fetched together
_CACHE_BYTES = 256 << 20  # of shingle sets kept for comparison
_PREFILTER_SIGMAS = 4.0


class MinHashParams(Params):
    """Params of near-duplicate search."""

    bands: Annotated[int, Field(ge=1, le=1000)] | Literal["auto"] = Field(
        14, description="Bands; two documents are compared where they agree in one. auto: bands and rows by the threshold."
    )
    rows: int = Field(8, ge=1, le=64, description="Hash functions in a band; unused where bands are auto.")
    hashes: int = Field(112, ge=1, le=1024, description="Hash functions that auto may use; unused where bands are given.")
    miss_weight: float = Field(0.5, gt=0, lt=1, description="What a missed pair weighs against a needless comparison, for auto.")
    shingle_words: int = Field(5, ge=1, le=50, description="Words in a shingle; a Chinese or Japanese character is a word.")
    seed: int = Field(1, ge=0, lt=1 << 64, description="Start of the hash functions.")
    threshold: float = Field(0.8, gt=0, le=1, description="Lowest Jaccard similarity of a duplicate, by shingles.")
    verify: Literal["exact", "estimate"] = Field(
        "exact", description="exact: candidates are compared by their shingle sets. estimate: by their signatures, without the texts."
    )

    def cut(self) -> Bands:
        """The bands and rows that are used."""
        if self.bands == "auto":
            return chosen_bands(self.threshold, self.hashes, self.miss_weight)
        return Bands(self.bands, self.rows)

    def width(self) -> int:
        """Hash functions of a signature."""
        return self.hashes if self.bands == "auto" else self.bands * self.rows


def signatures(text: pa.Array, params: MinHashParams) -> U32:
    """The signature of each document.

    Args:
        text: large_string [n]
        params: Hash functions, shingle and seed.

    Returns:
        uint32 [n, hashes]; 0xFFFFFFFF throughout for a text without words
    """
    return minhash.signatures(text, n=params.width(), words=params.shingle_words, seed=params.seed)


def find_duplicates(work: Work, texts_of: TextsOf, known: Similarities, params: MinHashParams, folder: Path) -> Stars:
    """Each document's kept document. A text without words is nobody's duplicate here.

    Args:
        work: Signatures, ranks and groups.
        texts_of: Texts of documents by index; asked only for those that may be duplicates, and only to verify.
        known: What earlier runs have compared.
        params: Bands, threshold and how to verify.
        folder: Where arrays are spilled; it is gone afterwards.

    Raises:
        OSError: The disk is full.
    """
    with spill_folder(folder) as place:
        sharers = find_sharers(work, params.cut(), place)
        if params.verify == "estimate":
            return greedy_stars(sharers, len(work.rank), lambda _, __, shares: shares, params.threshold, params.threshold, place)
        spread = (params.threshold * (1 - params.threshold) / params.width()) ** 0.5
        compare = _Comparison(texts_of, known, params.shingle_words, sharers.docs, len(work.rank))
        return greedy_stars(sharers, len(work.rank), compare, params.threshold - _PREFILTER_SIGMAS * spread, params.threshold, place)


class _Comparison:
    """Similarity of documents by their shingle sets.

    Args:
        texts_of: Texts by index.
        known: What was compared before.
        words: Words in a shingle.
        sequence: int32, the documents in the order in which they will be asked for.
        n: Documents in all.
    """

    def __init__(self, texts_of: TextsOf, known: Similarities, words: int, sequence: I32, n: int) -> None:
        self.texts_of, self.known, self.words, self.sequence = texts_of, known, words, sequence
        self._place = np.empty(n, np.int32)
        self._place[sequence] = np.arange(len(sequence), dtype=np.int32)
        self._sets: OrderedDict[int, U64] = OrderedDict()
        self._bytes = 0

    def __call__(self, doc: int, others: I64, _: F64) -> F64:
        """Similarity of `doc` with each of `others`."""
        return np.array([self._similarity(doc, int(other)) for other in others])

    def _similarity(self, doc: int, other: int) -> float:
        value = self.known.get(doc, other)
        if value is None:
            value = minhash.jaccard(self._set(doc, ahead=_CHUNK_DOCUMENTS), self._set(other, ahead=1))
            self.known.put(doc, other, value)
        return value

    def _set(self, doc: int, *, ahead: int) -> U64:
        if doc not in self._sets:
            self._fetch(doc, ahead)
        self._sets.move_to_end(doc)
        return self._sets[doc]

    def _fetch(self, doc: int, ahead: int) -> None:
        """Reads the document, and with it some of those that will be asked for after it."""
        start = self._place[doc]
        wanted = [int(i) for i in self.sequence[start : start + ahead] if int(i) not in self._sets]
        values, bounds = minhash.shingle_sets(self.texts_of(np.array(wanted, np.int64)), words=self.words)
        for i, other in enumerate(wanted):
            self._sets[other] = values[bounds[i] : bounds[i + 1]].copy()
            self._bytes += self._sets[other].nbytes
        self._sets.move_to_end(doc)
        while self._bytes > _CACHE_BYTES and len(self._sets) > _CHUNK_DOCUMENTS:
            self._bytes -= self._sets.popitem(last=False)[1].nbytes
