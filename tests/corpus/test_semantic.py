"""Near-duplicates by meaning against every pair: who goes, for whom, with which cosine, whatever the order and the blocks."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from dataplane.corpus import semantic
from dataplane.corpus.semantic import SemanticParams, Vectors, find_duplicates, read_vectors
from dataplane.errors import DataError
from dataplane.kernels.vectors import whole_numbers

NO_GROUPS = np.zeros(0, np.uint64)
WIDTH = 32


def params(**values: object) -> SemanticParams:
    return SemanticParams.parse({"vectors": "embedding.vector", **values}, where="dedup.semantic")


def made(n: int, seed: int = 0) -> npt.NDArray[np.int16]:
    """Vectors of which half are like another one, more or less."""
    draw = np.random.default_rng(seed)
    bases = draw.standard_normal((n // 2, WIDTH))
    near = bases[draw.integers(0, len(bases), n - len(bases))] + draw.standard_normal((n - len(bases), WIDTH)) * draw.uniform(
        0, 0.6, (n - len(bases), 1)
    )
    return whole_numbers(np.concatenate([bases, near]))


def brute_force(
    values: npt.NDArray[np.int16], rank: npt.NDArray[np.int64], threshold: float, groups: list[int]
) -> dict[int, tuple[int, float]]:
    """Row -> kept row and cosine, by a loop over pairs in Python's whole numbers."""
    kept: list[int] = []
    found: dict[int, tuple[int, float]] = {}
    rows = [list(map(int, row)) for row in values]
    size = [sum(x * x for x in row) ** 0.5 for row in rows]
    for row in np.argsort(rank).tolist():
        likeness = [
            (sum(a * b for a, b in zip(rows[row], rows[other], strict=True)) / (size[row] * size[other]), other)
            for other in kept
            if groups[row] == groups[other]
        ]
        best = max(likeness, key=lambda pair: (pair[0], -rank[pair[1]]), default=(-1.0, -1))
        if best[0] >= threshold:
            found[row] = (best[1], best[0])
        else:
            kept.append(row)
    return found


def stars_of(
    values: npt.NDArray[np.int16], rank: npt.NDArray[np.int64], groups: npt.NDArray[np.uint64] = NO_GROUPS, **of: object
) -> dict[int, tuple[int, float]]:
    rows = np.arange(len(values))
    spread = np.random.default_rng(5).permutation(len(values)).astype(np.uint64)
    stars, _ = find_duplicates(Vectors(values, rows), rank, groups, spread, params(**of))
    return {int(i): (int(stars.leader[i]), float(stars.similarity[i])) for i in np.flatnonzero(stars.leader != rows)}


@pytest.mark.parametrize("blocks", [(1024, 4096), (7, 5)])
@pytest.mark.parametrize("grouped", [False, True])
def test_documents_go_as_brute_force_says(blocks: tuple[int, int], grouped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantic, "_ROWS", blocks[0])
    monkeypatch.setattr(semantic, "_LEADERS", blocks[1])
    values, rank = made(300), np.random.default_rng(1).permutation(300)
    groups = np.arange(300) % 3 if grouped else np.zeros(300, np.int64)
    expected = brute_force(values, rank, 0.9, groups.tolist())
    assert 30 < len(expected) < 150
    found = stars_of(values, rank, groups.astype(np.uint64) if grouped else NO_GROUPS, threshold=0.9)
    assert {row: leader for row, (leader, _) in found.items()} == {row: leader for row, (leader, _) in expected.items()}
    assert [found[row][1] for row in sorted(found)] == pytest.approx([expected[row][1] for row in sorted(found)], abs=1e-12)


def test_clusters_miss_few_pairs_and_drop_nothing_that_is_not_alike() -> None:
    values, rank = made(4000), np.random.default_rng(1).permutation(4000)
    exact = stars_of(values, rank, threshold=0.9)
    found = stars_of(values, rank, threshold=0.9, exact_up_to=100, cluster_docs=500)
    whole = values.astype(np.int64)
    for row, (leader, likeness) in found.items():
        cosine = whole[row] @ whole[leader] / np.sqrt(float(whole[row] @ whole[row]) * float(whole[leader] @ whole[leader]))
        assert likeness == pytest.approx(cosine, abs=1e-12)
        assert likeness >= 0.9
        assert leader not in found
    assert len(found) > 0.8 * len(exact)  # directions by chance, which no cluster holds together


@pytest.mark.parametrize("exact_up_to", [0, 10_000])
def test_the_order_of_the_rows_does_not_matter(exact_up_to: int) -> None:
    values, n = made(900), 900
    draw = np.random.default_rng(3)
    rank, spread, moved = draw.permutation(n), draw.permutation(n).astype(np.uint64), draw.permutation(n)
    of = params(threshold=0.9, exact_up_to=exact_up_to, cluster_docs=100)
    first, parts = find_duplicates(Vectors(values, np.arange(n)), rank, NO_GROUPS, spread, of)
    other, _ = find_duplicates(Vectors(values[moved], np.arange(n)), rank[moved], NO_GROUPS, spread[moved], of)
    assert parts == (1 if exact_up_to else 9)
    assert np.array_equal(moved[other.leader], first.leader[moved])
    assert np.array_equal(other.similarity, first.similarity[moved])


def test_documents_without_a_vector_are_nobodys_duplicates(tmp_path: Path) -> None:
    kind = pa.list_(pa.int16())
    batches = [
        (np.array([2, 0, -1]), pa.array([[3, 4], None, [9, 9]], kind)),
        (np.array([1, 3]), pa.array([[6, 8], [4, -3]], kind)),
        (np.array([], np.int64), pa.array([], kind)),
    ]
    vectors = read_vectors(batches, 4, tmp_path)
    assert vectors.rows.tolist() == [1, 2, 3]
    assert np.asarray(vectors.values).tolist() == [[0, 0], [6, 8], [3, 4], [4, -3]]
    stars, _ = find_duplicates(vectors, np.arange(4), NO_GROUPS, np.arange(4, dtype=np.uint64), params())
    assert stars.leader.tolist() == [0, 1, 1, 3]
    nobody = read_vectors([(np.array([0]), pa.array([None], kind))], 1, tmp_path)
    assert find_duplicates(nobody, np.arange(1), NO_GROUPS, np.arange(1, dtype=np.uint64), params())[0].leader.tolist() == [0]


def test_vectors_of_two_models_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="vectors of 2 and of"):
        read_vectors([(np.arange(2), pa.array([[1, 2], [3, 4]])), (np.arange(1), pa.array([[1, 2, 3]]))], 2, tmp_path)
