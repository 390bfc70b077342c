"""Near-duplicates by meaning: documents whose embedding vectors point the same way.

Up to `exact_up_to` documents every pair is compared. More are put into clusters by spherical k-means and compared within them, so a
pair that a border parts is missed. As everywhere, a document goes only behind a kept one that it was compared with, and who is kept is
`survivor`'s to say, where the paper keeps the document farthest from the centre.

Source: Abbas et al. 2023, "SemDeDup", arXiv:2303.09540, section 3; k-means on the sphere, Dhillon, Modha 2001, doi:10.1023/A:1007612920971.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field

from dataplane.corpus.clusters import Stars
from dataplane.corpus.spill import let_go, reserved
from dataplane.errors import DataError
from dataplane.kernels.vectors import SCALE, cosines, lengths, products
from dataplane.params import Params

VERSION = "1"
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
U64 = npt.NDArray[np.uint64]

_ROWS, _LEADERS = 1024, 4096  # compared at once: 32 MB of cosines
_SAMPLE_PER_CLUSTER, _ROUNDS = 64, 10  # of k-means


class SemanticParams(Params):
    """Params of near-duplicate search by embedding vectors."""

    vectors: str = Field("", description="Signal that holds the vectors, as embedding.vector; empty compares none.")
    threshold: float = Field(0.95, gt=0, le=1, description="Lowest cosine of a duplicate.")
    exact_up_to: int = Field(
        100_000, ge=0, description="Documents up to which every pair is compared; more are compared within clusters of k-means."
    )
    cluster_docs: int = Field(10_000, ge=2, description="Documents in a cluster, on average.")


@dataclass(frozen=True)
class Vectors:
    """Vectors of documents, on disk.

    Attributes:
        values: int16 [n, width], directions as whole numbers; zeros where there is none.
        rows: int64 [k], the documents that have one, ascending.
    """

    values: I16
    rows: I64


def read_vectors(batches: Iterable[tuple[I64, pa.Array]], n: int, folder: Path) -> Vectors:
    """Spills vectors.

    Args:
        batches: Places of documents [b], -1 for one that is not compared, and their vectors, list<int16> [b].
        n: Documents in all.
        folder: Where they are spilled.

    Raises:
        DataError: Vectors are of different widths.
        OSError: The disk is full.
    """
    values: Any = np.zeros((n, 0), np.int16)
    has = np.zeros(n, np.bool_)
    for places, lists in batches:
        there = lists.is_valid().to_numpy(zero_copy_only=False) & (places >= 0)
        found = lists.filter(pa.array(there)).cast(pa.large_list(pa.int16()))
        if not len(found):
            continue
        widths = np.unique(np.diff(found.offsets.to_numpy()))
        if not values.shape[1]:
            values = reserved(folder / "vectors", (n, int(widths[0])), np.int16)
        if widths.tolist() != [values.shape[1]]:
            message = f"vectors of {values.shape[1]} and of {widths.tolist()} components"
            raise DataError(message, where="dedup.semantic", fix="run `clean` again, so that one model makes all of them")
        values[places[there]] = found.flatten().to_numpy(zero_copy_only=False).reshape(len(found), -1)
        has[places[there]] = True
        let_go(values)
    return Vectors(values, np.flatnonzero(has))


def find_duplicates(vectors: Vectors, rank: I64, groups: U64, spread: U64, params: SemanticParams) -> tuple[Stars, int]:
    """Each document's kept document.

    Args:
        vectors: Of n documents.
        rank: int64 [n], lower ones are preferred.
        groups: uint64 [n], documents are compared where it is equal; empty compares all.
        spread: uint64 [n], a hash of each doc_id, which chooses what k-means starts from.
        params: Threshold and sizes.

    Returns:
        The stars, and how many parts the documents were compared in.
    """
    n = len(rank)
    stars = Stars(np.arange(n, dtype=np.int64), np.ones(n), 0)
    parts = 0
    for rows in _by(groups[vectors.rows], vectors.rows) if len(groups) else [vectors.rows]:
        for part in _parts(vectors.values, rows, spread, params):
            parts += 1
            _lead(vectors.values, part[np.argsort(rank[part], kind="stable")], params.threshold, stars)
            let_go(vectors.values)
    return stars, parts


def pair_cosines(values: I16, left: I64, right: I64) -> F64:
    """Cosine of each pair of rows: float64 [k], NaN where one has no vector."""
    found = np.empty(len(left))
    for start in range(0, len(left), _ROWS):
        a, b = (values[rows[start : start + _ROWS]].astype(np.float64) for rows in (left, right))
        sizes = np.sqrt(np.einsum("ij,ij->i", a, a) * np.einsum("ij,ij->i", b, b))
        found[start : start + _ROWS] = np.einsum("ij,ij->i", a, b) / np.where(sizes > 0, sizes, np.nan)
    return found


def _by(labels: npt.NDArray[Any], rows: I64) -> list[I64]:
    """The rows of each label."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    return [part for part in np.split(rows[order], starts) if len(part)]


def _parts(values: I16, rows: I64, spread: U64, params: SemanticParams) -> list[I64]:
    """The rows in parts whose documents are compared with each other."""
    if len(rows) <= params.exact_up_to:
        return [rows] if len(rows) else []
    clusters = -(-len(rows) // params.cluster_docs)
    # A sample and starting points that depend on no order of rows.
    sample = rows[np.argsort(spread[rows], kind="stable")[: clusters * _SAMPLE_PER_CLUSTER]]
    centres = np.array(values[sample[:clusters]])
    for _ in range(_ROUNDS):
        centres = _moved(values, sample, centres)
    return _by(_nearest(values, rows, centres), rows)


def _nearest(values: I16, rows: I64, centres: I16) -> I32:
    """The centre of the highest cosine for each row, the first of equals: int32 [k]."""
    found = np.empty(len(rows), np.int32)
    sizes = lengths(centres)
    for start in range(0, len(rows), _ROWS):
        stop = start + _ROWS
        found[start:stop] = np.argmax(products(values[rows[start:stop]], centres) / sizes, axis=1)
        let_go(values)
    return found


def _moved(values: I16, rows: I64, centres: I16) -> I16:
    """The direction of the mean of each centre's rows; a centre without any stays. Sums are of whole numbers, in any order the same."""
    labels = _nearest(values, rows, centres)
    sums = np.zeros(centres.shape, np.int64)
    for start in range(0, len(rows), _ROWS):
        np.add.at(sums, labels[start : start + _ROWS], values[rows[start : start + _ROWS]].astype(np.int64))
    norms = np.sqrt(np.einsum("ij,ij->i", sums.astype(np.float64), sums.astype(np.float64)))
    moved = np.rint(sums / np.where(norms > 0, norms, 1)[:, None] * SCALE).astype(np.int16)
    return np.where((norms > 0)[:, None], moved, centres)


def _lead(values: I16, rows: I64, threshold: float, stars: Stars) -> None:
    """Puts each row behind the kept row most like it, of equals the one of the best rank, or keeps it.

    Args:
        values: int16 [n, width]
        rows: Places in it, by rank.
        threshold: Lowest cosine.
        stars: Is written to.
    """
    leaders = np.empty(len(rows), np.int64)
    count = 0
    for start in range(0, len(rows), _ROWS):
        block = rows[start : start + _ROWS]
        own = np.array(values[block])
        best, behind = np.full(len(block), -1.0), np.full(len(block), -1, np.int64)
        for at in range(0, count, _LEADERS):
            some = leaders[at : min(count, at + _LEADERS)]
            found = cosines(own, values[some])
            places = np.argmax(found, axis=1)
            values_of = found[np.arange(len(block)), places]
            better = values_of > best
            best[better], behind[better] = values_of[better], some[places[better]]
        count = _lead_block(block, cosines(own, own), best, behind, threshold, (leaders, count), stars)


def _lead_block(
    block: I64, alike: F64, best: F64, behind: I64, threshold: float, kept: tuple[I64, int], stars: Stars
) -> int:  # fmt: skip
    """One block after its rows were held against all kept before it; returns how many are kept now."""
    leaders, count = kept
    new = np.zeros(len(block), np.bool_)
    for i, row in enumerate(block.tolist()):
        likeness, leader = best[i], behind[i]
        if new.any():
            among = np.where(new[:i], alike[i, :i], -1.0)
            place = int(np.argmax(among))
            if among[place] > likeness:
                likeness, leader = among[place], block[place]
        if leader >= 0 and likeness >= threshold:
            stars.leader[row], stars.similarity[row] = leader, min(1.0, likeness)
        else:
            new[i] = True
            leaders[count] = row
            count += 1
    return count
