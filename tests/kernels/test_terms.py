"""Terms in text: those of a plain search, and evasions that a list of pairs names, none in innocent text."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.kernels.terms import INNOCENT, count_terms, index_terms

LISTED = [("shit", 0), ("fuck", 0), ("fucking", 0), ("kill yourself", 0), ("cunt", 0), ("傻逼", 0), ("畜生", 0), ("他妈的", 0)]


def found(terms: list[tuple[str, int]], *texts: str) -> tuple[list[list[int]], list[int], list[int]]:
    hits, evasions, words = count_terms(pa.array(texts, pa.large_string()), index_terms(terms))
    return hits.tolist(), evasions.tolist(), words.tolist()


@given(
    st.lists(st.sampled_from(["foo", "bar", "foo bar", "坏", "坏人", "o", "fo", "2x", "ré"]), min_size=1, max_size=4),
    st.text(st.sampled_from("fobar 坏人x2é-"), max_size=30),
)
def test_plain_hits_are_those_of_a_plain_search(terms: list[str], text: str) -> None:
    hits, evasions, _ = found([(term, 0) for term in terms], text)
    assert hits[0][0] - evasions[0] == plain_search(terms, text)


def plain_search(terms: list[str], text: str) -> int:
    """Leftmost-longest over every place, borders by regular expression."""
    ordered = sorted((term.replace("é", "e") for term in set(terms)), key=len, reverse=True)
    latin = r"(?<![a-z0-9]){}(?![a-z0-9])"
    alternatives = [re.escape(t) if not t.isascii() else latin.format(t.replace(" ", "[ -]+")) for t in ordered]
    return len(re.findall("|".join(alternatives), text.replace("é", "e")))


@pytest.mark.parametrize(
    "text",
    [
        *("f u c k", "f.u.c.k", "f-u-c-k you", "F*U*C*K", "fuuuuck", "sh1t", "$h1t sh1t", "f*ck", "c*nt", "fu<k f_u_c_k", "a s h i t b"),
        *("傻 逼", "傻.逼", "你这傻*逼吧", "他 妈 的", "sh!t", "shiiiit", "s\u200bh1t"),
    ],
)
def test_evasions_are_seen_and_told_apart(text: str) -> None:
    hits, evasions, _ = found(LISTED, text)
    assert (hits, evasions) == ([[1]], [1])


@pytest.mark.parametrize(
    "text", ["ｆｕｃｋ", "FÜCK", "f\u200buck", "fu\u00adck", "kill   yourself", "kill\nyourself", "fuck_you", "傻\u200b逼", "x fuck"]
)
def test_folded_spellings_are_plain_hits(text: str) -> None:
    assert found(LISTED, text)[:2] == ([[1]], [0])


@pytest.mark.parametrize(
    "text",
    [
        *("shitake", "Scunthorpe", "fuc k", "shi t", "sh 1 t", "f u", "kill. Yourself", "k i l l", "a fu ck", "5h17", "4*8*2", "f*"),
        *("畜牧 生产", "牲畜 生产", "他妈妈 的", "傻，逼", "傻\n\n逼了", "他们逼", "ab1t sh1tter", ""),
    ],
)
def test_innocent_text_has_no_hit(text: str) -> None:
    assert found(LISTED, text)[:2] == ([[0]], [0])


def test_categories_are_counted_apart_and_innocent_terms_not_at_all() -> None:
    terms = [("foo", 0), ("bar", 1), ("foo bar", 2), ("foo baz", INNOCENT)]
    assert found(terms, "foo bar foo baz foo bar! bar foo", "x") == ([[1, 1, 2], [0, 0, 0]], [0, 0], [8, 1])


def test_words_are_runs_of_letters_and_single_chinese_characters() -> None:
    assert found(LISTED, "two words", "中文 and 日本語", "x_y z9 '", " \n") == ([[0]] * 4, [0] * 4, [2, 6, 3, 0])


def test_slices_and_nulls_are_read_as_they_are() -> None:
    text = pa.array(["shit shit", None, "shit", "fuck fuck fuck"], pa.string())
    hits, *_ = count_terms(text.slice(1, 2), index_terms(LISTED))
    np.testing.assert_array_equal(hits, [[0], [1]])
