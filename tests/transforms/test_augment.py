"""Variants are what EDA's four definitions allow, no more; chance is even, and hangs on the document's id and the seed alone."""

import math
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.errors import ParamsError
from dataplane.registry import operator_class
from dataplane.testing import Example, conformance
from dataplane.transforms.augment import Augment
from dataplane.transforms.word_edits import METHODS, Draws, Vocabulary, edited, words_of

SYNONYMS = {"big": ("huge", "large"), "dog": ("hound",), "run": ("dash", "race", "sprint"), "高兴": ("快乐", "开心")}
KNOWN = Vocabulary(SYNONYMS, frozenset({"the", "a", "run"}))
ALL = Vocabulary(SYNONYMS)
WORDS = st.lists(st.sampled_from(["big", "dog", "cat", "the", "run", "tree", "Dog", "it's"]), min_size=1, max_size=40)
SHARES = st.sampled_from([0.05, 0.1, 0.3, 1.0])


def n_edits(words: list[str], share: float) -> int:
    """Wei and Zou 2019, section 2: n = alpha l, one at least as in their code."""
    return max(1, int(share * len(words)))


def test_it_is_registered() -> None:
    assert operator_class("augment") is Augment


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_it_conforms(method: str, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("big, large\nquick, fast\n今天, 今日\n")
    examples = [Example("The big quick fox runs. `big = 1`"), Example("今天天气很好"), Example("")]
    conformance(Augment, examples=examples, params={"method": method, "synonyms": str(tmp_path / "s.txt"), "share": 0.3})


@given(WORDS, SHARES, st.integers(0, 99))
def test_synonyms_take_the_place_of_words_that_have_some(words: list[str], share: float, seed: int) -> None:
    text, count = edited(" ".join(words), "synonym", share, KNOWN, Draws(str(seed)))
    changed = [(old, new) for old, new in zip(words, text.split(" "), strict=True) if old != new]
    able = sum(word.lower() in ("big", "dog") for word in words)
    assert count == len(changed) == min(n_edits(words, share), able)
    assert [(old, new) for old, new in changed if new.lower() not in SYNONYMS[old.lower()] or old[0].isupper() != new[0].isupper()] == []


@given(WORDS, SHARES, st.integers(0, 99))
def test_insertions_add_synonyms_and_nothing_else(words: list[str], share: float, seed: int) -> None:
    text, count = edited(" ".join(words), "insertion", share, KNOWN, Draws(str(seed)))
    sources = {word.lower() for word in words} & {"big", "dog"}
    added = Counter(text.split(" ")) - Counter(words)
    assert count == sum(added.values()) == (n_edits(words, share) if sources else 0)
    assert set(added) <= {other for source in sources for other in SYNONYMS[source]}
    rest = iter(text.split(" "))
    assert all(word in rest for word in words)  # in their order


@given(WORDS, SHARES, st.integers(0, 99))
def test_swaps_keep_the_words_and_move_two_at_a_time(words: list[str], share: float, seed: int) -> None:
    text, count = edited(" ".join(words), "swap", share, ALL, Draws(str(seed)))
    moved = sum(old != new for old, new in zip(words, text.split(" "), strict=True))
    assert sorted(text.split(" ")) == sorted(words)
    assert count == (n_edits(words, share) if moved else 0)
    assert moved <= 2 * n_edits(words, share)


@given(WORDS, SHARES, st.integers(0, 99))
def test_deletions_leave_words_out_and_one_at_least_in(words: list[str], share: float, seed: int) -> None:
    text, count = edited(" ".join(words), "deletion", share, ALL, Draws(str(seed)))
    left = text.split()
    rest = iter(words)
    assert all(word in rest for word in left)
    assert (len(left), len(words) - len(left)) == (max(1, len(left)), count)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
def test_words_are_deleted_with_the_probability_asked_for(share: float) -> None:
    text, n = "word " * 100, 200
    deleted = sum(edited(text, "deletion", share, ALL, Draws(str(i)))[1] for i in range(n))
    assert deleted / (100 * n) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / (100 * n)))


def test_each_synonym_is_as_likely_as_the_others() -> None:
    found = Counter(edited("run", "synonym", 0.1, ALL, Draws(str(i)))[0] for i in range(3000))
    chi_square = sum((count - 1000) ** 2 / 1000 for count in found.values())
    assert (sorted(found), chi_square < 13.8) == (["dash", "race", "sprint"], True)  # 13.8: one in a thousand


def test_draws_are_even_and_a_function_of_their_salt() -> None:
    a, again, other = Draws("a"), Draws("a"), Draws("b")
    shares = [a.share() for _ in range(5000)]
    assert shares == [again.share() for _ in range(5000)]
    assert sum(shares) / 5000 == pytest.approx(0.5, abs=4 / math.sqrt(12 * 5000))
    assert len(set(shares) & {other.share() for _ in range(5000)}) == 0


@given(st.text(max_size=200))
def test_a_text_is_its_words_and_what_stands_between(text: str) -> None:
    assert words_of(text, ALL).joined() == text


@pytest.mark.parametrize("method", METHODS)
def test_code_addresses_and_numbers_stay(method: str) -> None:
    kept = ("`big = dog`", "https://big.example/dog?run", "ann@big.example", "3.14", "```\nrun big\n```")
    text = "A big dog, {} and a big {} run {}; the {} dog:\n{}\n".format(*kept)
    for i in range(30):
        found = edited(text, method, 0.5, ALL, Draws(str(i)))[0]
        assert [part for part in kept if part not in found] == []


def test_chinese_words_that_are_known_are_whole() -> None:
    assert words_of("我高兴，真高兴", ALL).words == ["我", "高兴", "真", "高兴"]
    assert {edited("我高兴", "synonym", 0.1, ALL, Draws(str(i)))[0] for i in range(30)} == {"我快乐", "我开心"}


def test_a_variant_hangs_on_the_id_and_the_seed() -> None:
    batch = pa.record_batch({"doc_id": ["a", "b", "a"], "text": pa.array(["one two three four five six seven"] * 3, pa.large_string())})

    def made(seed: int) -> list[str]:
        operator = Augment({"seed": seed})
        operator.open()
        texts: list[str] = operator.transform(batch).text.to_pylist()
        return texts

    first, second = made(0), made(1)
    assert first[0] == first[2]
    assert len({first[0], first[1], second[0], second[1]}) == 4
    assert made(0) == first


def test_synonyms_are_asked_for_where_a_method_needs_them(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="method 'synonym' needs synonyms"):
        Augment({"method": "synonym"}).open()
    with pytest.raises(ParamsError, match="no synonyms are at"):
        Augment({"method": "synonym", "synonyms": str(tmp_path / "none")}).open()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("piece", ["`", "```", "a.", "big ", "中", "http://", "a@", "-a", "1,", "\n"])
def test_time_is_bounded(method: str, piece: str) -> None:
    start = time.perf_counter()
    edited(piece * (200_000 // len(piece)), method, 0.1, ALL, Draws("a"))
    assert time.perf_counter() - start < 5
