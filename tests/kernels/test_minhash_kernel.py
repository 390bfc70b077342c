"""Signatures: as documented, stable for ever, and as good an estimate of Jaccard similarity as datasketch's."""

import random
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.kernels.minhash import NO_SHINGLE, jaccard, permutations, shared, shingle_sets, signatures
from dataplane.kernels.unicode import classes, fold_table, hash_words, text_buffers, words_room

N = 112
MASK = 2**64 - 1


def sign(*texts: str, n: int = N, words: int = 5, seed: int = 1) -> np.ndarray:
    return signatures(pa.array(texts, pa.large_string()), n=n, words=words, seed=seed)


def fmix64(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return h ^ h >> 33


def splitmix64(n: int, seed: int) -> list[int]:
    out = []
    for i in range(1, n + 1):
        z = seed + i * 0x9E3779B97F4A7C15 & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        out.append(z ^ z >> 31)
    return out


def documented_shingles(text: str, words: int) -> set[int]:
    data, offsets = text_buffers(pa.array([text], pa.large_string()))
    out = np.empty(words_room(offsets), np.uint64)
    hashes = [int(h) for h in out[: hash_words(data, offsets[0], offsets[1], fold_table(), classes(), out)]]
    width = min(words, len(hashes))
    found = set()
    for i in range(len(hashes) - width + 1 if hashes else 0):
        total = 0
        for h in hashes[i : i + width]:
            total = total * 0xC2B2AE3D27D4EB4F + h & MASK
        found.add(fmix64(total))
    return found


def documented_signature(text: str, n: int, words: int, seed: int) -> list[int]:
    draws = splitmix64(2 * n, seed)
    lows = [s & 0xFFFFFFFF for s in documented_shingles(text, words)]
    pairs = [((draws[2 * j] | 1) & 0xFFFFFFFF, draws[2 * j + 1] & 0xFFFFFFFF) for j in range(n)]
    return [min(((s ^ c) * a & 0xFFFFFFFF for s in lows), default=NO_SHINGLE) for a, c in pairs]


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=80), st.integers(1, 8), st.integers(0, 2**64 - 1))
def test_signatures_are_as_documented(text: str, words: int, seed: int) -> None:
    assert sign(text, n=9, words=words, seed=seed)[0].tolist() == documented_signature(text, 9, words, seed)
    values, _ = shingle_sets(pa.array([text], pa.large_string()), words=words)
    assert values.tolist() == sorted(documented_shingles(text, words))


def test_signatures_are_stable_for_ever() -> None:
    """A change here breaks every stored signature."""
    got = sign("The quick brown fox jumps over the lazy dog.", "敏捷的棕色狐狸跳过了懒狗。", n=4)
    assert got.tolist() == [[192604783, 539343351, 307057734, 327454931], [518499734, 1499314214, 492475945, 228787673]]


def test_case_width_and_punctuation_do_not_count_and_numbers_do() -> None:
    plain, other, number = sign("the cat: sat on 12 mats, twice", "THE  cat sat—on １２ mats twice!", "the cat sat on 13 mats twice")
    np.testing.assert_array_equal(plain, other)
    assert (plain != number).any()


def test_a_short_text_is_one_shingle_and_an_empty_one_none() -> None:
    values, bounds = shingle_sets(pa.array(["two words", "two, words", "", "!?", None, "你好吗"], pa.large_string()), words=5)
    assert np.diff(bounds).tolist() == [1, 1, 0, 0, 0, 1]
    assert values[0] == values[1]
    assert (sign("", "...") == NO_SHINGLE).all()


def test_chinese_shingles_are_runs_of_characters() -> None:
    values, bounds = shingle_sets(pa.array(["天地玄黄宇宙洪荒", "天地玄黄宇", "宙洪荒"], pa.large_string()), words=5)
    assert np.diff(bounds).tolist() == [4, 1, 1]
    assert values[bounds[1]] in values[: bounds[1]]


def test_a_long_text_in_blocks_has_the_signature_of_the_whole() -> None:
    text = " ".join(f"w{i}" for i in range(3000))
    assert sign(text, n=5)[0].tolist() == documented_signature(text, 5, 5, 1)


@given(st.sets(st.integers(0, 50)), st.sets(st.integers(0, 50)))
def test_jaccard_equals_the_definition(left: set[int], right: set[int]) -> None:
    a, b = (np.array(sorted(s), np.uint64) for s in (left, right))
    assert shared(a, b) == len(left & right)
    assert jaccard(a, b) == (len(left & right) / len(left | right) if left | right else 0.0)


def edited_pairs(n: int) -> list[tuple[str, str]]:
    rng = random.Random(7)
    vocabulary = [f"word{i}" for i in range(5000)]
    pairs = []
    for i in range(n):
        words = rng.choices(vocabulary, k=300)
        rate = 0.005 * (i % 12)
        pairs.append((" ".join(words), " ".join(rng.choice(vocabulary) if rng.random() < rate else word for word in words)))
    return pairs


def exact_jaccard(left: str, right: str) -> float:
    a, b = ({tuple(words[i : i + 5]) for i in range(len(words) - 4)} for words in (re.findall(r"\w+", left), re.findall(r"\w+", right)))
    return len(a & b) / len(a | b)


def test_the_estimate_is_unbiased_and_no_worse_than_datasketch() -> None:
    datasketch = pytest.importorskip("datasketch")
    pairs = edited_pairs(400)
    ours, theirs = [], []
    for left, right in pairs:
        exact = exact_jaccard(left, right)
        a, b = sign(left, right)
        ours.append(float((a == b).mean()) - exact)
        peers = []
        for text in (left, right):
            words = text.split()
            peer = datasketch.MinHash(num_perm=N, seed=1)
            peer.update_batch([" ".join(words[i : i + 5]).encode() for i in range(len(words) - 4)])
            peers.append(peer)
        theirs.append(peers[0].jaccard(peers[1]) - exact)
    assert abs(np.mean(ours)) < 0.006  # three standard errors of the mean of 400 estimates at s = 0.5
    assert np.mean(np.abs(ours)) < 1.15 * np.mean(np.abs(theirs))


def test_bands_meet_as_often_as_the_formula_says() -> None:
    """P = 1 - (1 - s^8)^14 on random sets of known similarity, three standard errors wide."""
    rng = np.random.default_rng(3)
    vocabulary = [f"t{i}" for i in range(100_000)]
    for similarity in (0.6, 0.75, 0.85):
        trials, met, wanted = 1500, 0, 0.0
        for _ in range(trials):
            n = 120
            common = round(n * similarity)
            picks = rng.choice(len(vocabulary), n, replace=False)
            half = common + (n - common) // 2
            left, right = picks[:half], np.concatenate([picks[:common], picks[half:]])
            a, b = sign(*(" ".join(vocabulary[i] for i in side) for side in (left, right)), words=1)
            met += bool((a == b).reshape(14, 8).all(axis=1).any())
            wanted += 1 - (1 - (common / n) ** 8) ** 14
        assert abs(met - wanted) < 3 * (trials * 0.25) ** 0.5


def test_constants_are_odd_multipliers_that_differ() -> None:
    a, c = permutations(N, 1)
    assert (a % 2 == 1).all()
    assert len({*a.tolist()}) == len({*c.tolist()}) == N
