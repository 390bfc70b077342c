"""Exact duplicates against a dictionary, and the survivor that the policy names."""

import random
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane import schema
from dataplane.corpus.clusters import Standing, duplicate_rows
from dataplane.corpus.exact import ExactParams, content_hashes, leaders
from dataplane.corpus.survival import LONGEST, Criterion, survival_rank
from dataplane.kernels.hashing import hash128


def table(ids: list[str], texts: list[str], level: str, sources: list[str] | None = None, priority: tuple[str, ...] = ()) -> pa.Table:
    columns = {"source": pa.array(sources or ["s"] * len(ids)), "n_bytes": pa.array([len(t.encode()) for t in texts], pa.int64())}
    criteria = [Criterion(by="source", prefer=list(priority)), LONGEST]
    rank = survival_rank(pa.array(ids, pa.string()), criteria, columns.__getitem__)
    hashes = content_hashes(pa.array(texts, pa.large_string()), ExactParams(level=level))
    standing = Standing.alone(len(ids)).then(leaders(hashes, rank), np.ones(len(ids)), "exact")
    return duplicate_rows(pa.array(ids, pa.string()), standing)


def test_each_level_sees_what_it_says() -> None:
    texts = ["Hello, world", "Hello, world", "ｈｅｌｌｏ, WORLD", "hello world!", "héllo\nworld", "other"]
    ids = list("abcdef")
    dropped = {
        level: {row["doc_id"] for row in table(ids, texts, level).to_pylist() if not row["kept"]}
        for level in ("bytes", "unicode", "letters")
    }
    # the longest survives, then the smallest id
    assert dropped == {"bytes": {"b"}, "unicode": {"a", "b"}, "letters": {"a", "b", "d", "e"}}


def test_the_whole_table_of_a_small_case() -> None:
    got = table(["c", "b", "a", "z"], ["same", "same", "same", "alone"], "bytes", ["x", "y", "x", "y"], ("y",))
    assert got.schema == schema.DUPLICATES
    row = {"cluster_id": "a", "representative": "b", "similarity": 1.0, "how": "exact"}
    assert got.to_pylist() == [
        {"doc_id": "b", "kept": True, **row},
        {"doc_id": "a", "kept": False, **row},
        {"doc_id": "c", "kept": False, **row},
    ]


def test_no_documents_and_no_duplicates_give_no_rows() -> None:
    assert table([], [], "bytes").num_rows == 0
    assert table(["a", "b"], ["x", "y"], "letters").num_rows == 0


TEXTS = st.lists(st.sampled_from(["a", "A", "a ", "b", "", " ", "Ａ", "a.", "…"]), max_size=25)


@given(TEXTS, st.sampled_from(["bytes", "unicode"]), st.randoms(use_true_random=False))
def test_clusters_equal_a_dictionary_whatever_the_order(texts: list[str], level: str, rng: random.Random) -> None:
    ids = [f"{i:032x}" for i in range(len(texts))]
    groups: dict[str, list[int]] = {}
    for i, text in enumerate(texts):
        groups.setdefault(text if level == "bytes" else unicodedata.normalize("NFKC", text).lower(), []).append(i)
    want = set()
    for members in groups.values():
        if len(members) > 1:
            best = min(members, key=lambda i: (-len(texts[i].encode()), ids[i]))
            want |= {(ids[i], ids[min(members)], i == best, ids[best]) for i in members}
    shuffled = list(range(len(texts)))
    rng.shuffle(shuffled)
    got = table([ids[i] for i in shuffled], [texts[i] for i in shuffled], level)
    assert {(r["doc_id"], r["cluster_id"], r["kept"], r["representative"]) for r in got.to_pylist()} == want
    assert got.equals(table(ids, texts, level))


@pytest.mark.parametrize("level", ["bytes", "unicode", "letters"])
def test_hostile_texts_are_hashed_alone_as_together(level: str) -> None:
    texts = ["\x00", "\u0301", "\u202eabc", "a" * 100_000, "🙂", "", "\ufeff"]
    together = content_hashes(pa.array(texts, pa.large_string()), ExactParams(level=level))
    alone = [content_hashes(pa.array([text], pa.large_string()), ExactParams(level=level))[0] for text in texts]
    np.testing.assert_array_equal(together, np.array(alone))


def assert_hashes_are_those_of_arrow(texts: list[str]) -> None:
    column = pa.array(texts, pa.large_string())
    want = hash128(pc.utf8_lower(pc.utf8_normalize(column, form="NFKC")))
    np.testing.assert_array_equal(content_hashes(column, ExactParams(level="unicode")), want)


def test_every_character_among_others_takes_the_form_that_arrow_gives_it() -> None:
    characters = [chr(code) for code in range(0x33000) if not 0xD800 <= code < 0xE000]
    for text in ("{}", "e{}", "{}\u0301b", "\u1100{}\u1161"):
        assert_hashes_are_those_of_arrow([text.format(char) for char in characters])


def test_ascii_takes_its_form_wherever_another_character_or_the_end_comes() -> None:
    ascii_ = "".join(map(chr, range(128)))
    texts = [
        ascii_[at : at + size] + other + ascii_[at : at + 3] for at in range(0, 128, 5) for size in range(20) for other in ("", "é", "Ａ米")
    ]
    assert_hashes_are_those_of_arrow(texts)


LETTERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COMMON = st.text("aZ é　，Ａ米ｶﾞ가ᄀ́ẛİſΣς①Ⅷﬁ…⑾", max_size=12)


@given(st.lists(LETTERS | COMMON, max_size=6))
def test_the_form_of_level_unicode_is_that_of_arrow(texts: list[str]) -> None:
    assert_hashes_are_those_of_arrow(texts)
