"""How near an instruction is to the nearest of a pool, by hashed words and pairs of words.

A text becomes a vector of small whole numbers: each word and each pair of neighbours adds its sign at its place, both out of its hash.
Sums of products of such numbers are exact in float32 in any order, so that a distance does not depend on the batch it is computed in.

Source: Weinberger et al. 2009, arXiv:0902.2206, section 2 (hashed features with signs keep inner products on average).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]

# 4096 places of at most 63: 4096 * 63 ** 2 < 2 ** 24, up to which float32 holds every whole number.
PLACES, MOST = 4096, 63
_ROWS = 4096  # of the pool that are multiplied at once
_NOWHERE = 1.0


@dataclass(frozen=True)
class Pool:
    """Instructions that others are held against.

    Attributes:
        doc_ids: Whose they are, sorted.
        vectors: int8 [n, PLACES]
    """

    doc_ids: tuple[str, ...]
    vectors: I8

    def save(self, path: Path) -> None:
        """Writes it to an .npz file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            np.savez_compressed(stream, doc_ids=np.array(self.doc_ids, "U"), vectors=self.vectors)

    @classmethod
    def load(cls, path: Path) -> Pool:
        """Reads what `save` wrote.

        Raises:
            ValueError: The file holds no pool.
        """
        with np.load(path, allow_pickle=False) as found:
            if set(found.files) != {"doc_ids", "vectors"} or found["vectors"].shape[1:] != (PLACES,):
                raise ValueError(f"{path} holds no instruction pool")
            return cls(tuple(found["doc_ids"].tolist()), found["vectors"])

    def nearest(self, vectors: I8, doc_ids: Sequence[str], *, earlier: bool) -> tuple[F64, list[str | None]]:
        """Cosine distance to the nearest instruction of the pool that is another record's, and whose it is.

        Args:
            vectors: int8 [b, PLACES]
            doc_ids: Of the vectors; a record is not held against itself.
            earlier: Whether it is held against those with smaller ids alone.

        Returns:
            float64 [b], 1 where there is none to be held against; and the ids.
        """
        best, place = np.full(len(vectors), -np.inf), np.full(len(vectors), -1)
        given, squares = vectors.astype(np.float32), _squares(vectors)
        ids = np.array(self.doc_ids, "U")
        for start in range(0, len(ids), _ROWS):
            part = self.vectors[start : start + _ROWS]
            products = (given @ part.astype(np.float32).T).astype(np.float64)
            # The root of the product, not the product of roots: equal vectors are at exactly 0.
            cosines = products / np.maximum(np.sqrt(squares[:, None] * _squares(part)[None, :]), 1e-12)
            _shut_out(cosines, ids[start : start + _ROWS], doc_ids, earlier)
            here = cosines.argmax(axis=1)
            value = cosines[np.arange(len(vectors)), here]
            better = value > best
            best[better], place[better] = value[better], start + here[better]
        names = [str(ids[i]) if i >= 0 else None for i in place]
        return np.where(place >= 0, np.maximum(0.0, 1 - best), _NOWHERE), names


def _shut_out(cosines: F64, ids: npt.NDArray[np.str_], doc_ids: Sequence[str], earlier: bool) -> None:
    """Sets what a record is not held against to minus infinity."""
    for row, doc_id in enumerate(doc_ids):
        first = int(np.searchsorted(ids, doc_id))
        if earlier:
            cosines[row, first:] = -np.inf
        elif first < len(ids) and ids[first] == doc_id:
            cosines[row, first] = -np.inf


def _squares(vectors: I8) -> F64:
    """Squared length of each vector: whole numbers, float64 [n]."""
    wide = vectors.astype(np.float64)
    return np.asarray(np.einsum("ij,ij->i", wide, wide))


def vector(tokens: Sequence[str]) -> I8:
    """The hashed words and pairs of words of a text: int8 [PLACES]."""
    found = np.zeros(PLACES, np.int64)
    for gram in (*tokens, *(f"{a} {b}" for a, b in pairwise(tokens))):
        value = xxhash.xxh3_64_intdigest(gram.encode("utf-8", "surrogatepass"))
        found[value % PLACES] += 1 if value >> 63 else -1
    return np.clip(found, -MOST, MOST).astype(np.int8)
