"""SimHash against its definition in Python, and the search against all pairs."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.corpus.banding import Work
from dataplane.corpus.simhash import Blocks, SimHashParams, chosen_blocks, find_duplicates, signatures
from dataplane.kernels.minhash import shingle_sets
from dataplane.kernels.simhash import NO_SHINGLE, fingerprints

NO_GROUPS = np.zeros(0, np.uint64)


def plain_fingerprint(shingles: list[int]) -> int:
    """More than half of the shingles have the bit."""
    return sum(1 << b for b in range(64) if 2 * sum(s >> b & 1 for s in shingles) > len(shingles))


def numbered(shingle: str) -> int:
    return int(shingle_sets(pa.array([shingle], pa.large_string()), words=99)[0][0])


@given(st.lists(st.sampled_from(["river", "mill", "GRAIN", "boat", "米", "é"]), min_size=1, max_size=40), st.integers(1, 4))
def test_fingerprints_are_those_of_the_definition(words: list[str], k: int) -> None:
    shingles = Counter(" ".join(words[i : i + k]) for i in range(max(1, len(words) - k + 1)))
    want = plain_fingerprint([numbered(shingle) for shingle, count in shingles.items() for _ in range(count)])
    assert fingerprints(pa.array([" ".join(words)], pa.large_string()), words=k).tolist() == [want]


def test_hostile_texts_are_hashed_alone_as_together() -> None:
    texts = ["\x00", "\u0301", "\u202eabc", "a " * 70_000, "🙂", "", "\ufeff", None]
    together = fingerprints(pa.array(texts, pa.large_string()), words=2)
    assert together.tolist() == [int(fingerprints(pa.array([text], pa.large_string()), words=2)[0]) for text in texts]
    assert [i for i, value in enumerate(together.tolist()) if value == NO_SHINGLE] == [0, 1, 4, 5, 6, 7]


def stars_of(values: np.ndarray, params: SimHashParams, folder: Path) -> tuple[list[int], list[float]]:
    signed = values.view(np.uint32).reshape(-1, 2)
    work = Work(lambda: iter([(np.arange(len(signed)), signed)]), np.arange(len(signed)), NO_GROUPS)
    stars = find_duplicates(work, params, folder / "spill")
    return stars.leader.tolist(), stars.similarity.tolist()


@pytest.mark.parametrize("distance", [0, 1, 3, 7])
def test_every_pair_within_the_distance_is_found(distance: int, tmp_path: Path) -> None:
    """Against comparisons of all with all, over fingerprints that differ in 0 to 10 bits."""
    rng = random.Random(distance)
    bases = [rng.getrandbits(64) for _ in range(150)]
    flipped = [base ^ sum(1 << b for b in rng.sample(range(64), rng.randint(0, 10))) for base in bases for _ in range(3)]
    values = np.array(bases + flipped, np.uint64)
    leader, similarity = list(range(len(values))), [1.0] * len(values)
    kept: list[int] = []
    for i, value in enumerate(values.tolist()):
        apart = [(bin(value ^ int(values[other])).count("1"), other) for other in kept]
        least = min(apart, default=(65, -1))
        if least[0] <= distance:
            leader[i], similarity[i] = least[1], 1 - least[0] / 64
        else:
            kept.append(i)
    assert stars_of(values, SimHashParams(distance=distance), tmp_path) == (leader, similarity)
    assert len(kept) < len(values)


@pytest.mark.parametrize(("distance", "n"), [(0, 100), (3, 1000), (3, 10_000_000), (5, 1_000_000), (12, 1_000)])
def test_any_bits_that_differ_leave_a_table_in_which_all_are_equal(distance: int, n: int) -> None:
    blocks: Blocks = chosen_blocks(distance, n)
    rng = random.Random(1)
    assert blocks.tables <= 60
    for _ in range(300):
        changed = sum(1 << b for b in rng.sample(range(64), distance))
        assert min(mask & changed for mask in blocks.masks) == 0


def test_tables_for_ten_million_documents_have_keys_that_tell_them_apart() -> None:
    masks = chosen_blocks(3, 10_000_000).masks
    assert len(masks) == 20
    assert {bin(mask).count("1") for mask in masks} == {31, 32, 33}


def test_texts_without_words_are_nobodys_duplicates(tmp_path: Path) -> None:
    texts = pa.array(["...", "", "two words", "Two  words!"], pa.large_string())
    values = signatures(texts, SimHashParams()).reshape(-1).view(np.uint64)
    assert stars_of(values, SimHashParams(), tmp_path)[0] == [0, 1, 2, 2]
