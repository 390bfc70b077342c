"""The n-gram search against brute force over letters, through block borders and equal beginnings."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.kernels import ngrams
from dataplane.kernels.ngrams import find_grams, folded, index_grams


def build(passages: list[str]) -> tuple[ngrams.Grams, np.ndarray]:
    parts = [folded(text)[0] for text in passages]
    lengths = np.array([len(part) for part in parts], np.int32)
    places = (np.cumsum(lengths) - lengths).astype(np.int64)
    return index_grams(np.concatenate([np.zeros(0, np.int32), *parts]), places, lengths)


def found(passages: list[str], texts: list[str]) -> set[tuple[int, str]]:
    index, which = build(passages)
    names = {int(gram): folded_text(passages[i]) for i, gram in enumerate(which)}
    docs, grams = find_grams(pa.array(texts, pa.large_string()), index)
    assert len(set(zip(docs.tolist(), grams.tolist(), strict=True))) == len(docs)
    assert (np.diff(docs) >= 0).all()
    return {(doc, names[gram]) for doc, gram in zip(docs.tolist(), grams.tolist(), strict=True)}


def folded_text(text: str) -> str:
    return "".join(map(chr, folded(text)[0].tolist()))


def brute(passages: list[str], texts: list[str]) -> set[tuple[int, str]]:
    return {(i, folded_text(p)) for i, text in enumerate(texts) for p in passages if folded_text(p) in folded_text(text)}


WORDS = st.text(st.sampled_from("ab 中.É"), min_size=1, max_size=12).filter(lambda text: folded_text(text) != "")


@settings(deadline=None, max_examples=200)
@given(st.lists(WORDS, max_size=6), st.lists(st.text(st.sampled_from("abAB 中\n.éÉ"), max_size=60), max_size=4))
def test_it_finds_what_brute_force_finds(passages: list[str], texts: list[str]) -> None:
    assert found(passages, texts) == brute(passages, texts)


@settings(deadline=None, max_examples=150)
@given(st.data(), st.sampled_from(["ab", "abcdefghij", "abé中文"]), st.sampled_from([40, 64, 100_000]))
def test_ngrams_of_any_length_are_found_at_any_place_in_any_writing(data: st.DataObject, alphabet: str, chunk: int) -> None:
    passages = data.draw(st.lists(st.text(st.sampled_from(alphabet), min_size=1, max_size=90), min_size=1, max_size=8))
    junk = st.text(st.sampled_from(alphabet + " ."), max_size=45)
    writing = st.text(st.sampled_from(" -\n.*\u200b\u0301\u3000，"), max_size=2)
    texts = []
    for passage in passages:
        letters = [char.upper() if data.draw(st.booleans()) else char for char in passage]
        written = "".join(letter + data.draw(writing) for letter in letters)
        texts.append(data.draw(junk) + written + data.draw(junk))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "_CHUNK_LETTERS", chunk)
        hits = found(passages, texts)
    assert {(i, folded_text(passage)) for i, passage in enumerate(passages)} <= hits
    assert hits == brute(passages, texts)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_ngrams_across_the_blocks_of_a_long_text_are_found(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(ngrams, "_CHUNK_LETTERS", chunk)
    text = " ".join(f"w{i}" for i in range(500))
    passages = [f"w{i} w{i + 1} w{i + 2}" for i in range(0, 498, 3)] + ["w1 w3 w5", "w499"]
    assert found(passages, [text, text[::-1]]) == brute(passages, [text, text[::-1]])


def test_more_hits_than_the_buffer_holds_are_all_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "_PAIRS_ROOM", 1)
    passages = ["alpha beta gamma", "beta gamma delta", "delta epsilon zeta"]
    texts = ["alpha beta gamma delta epsilon zeta"] * 20
    assert found(passages, texts) == brute(passages, texts)


def test_letters_words_and_cjk_are_counted() -> None:
    letters, starts, cjk = folded("Ab c，你好 ｄ")
    assert "".join(map(chr, letters.tolist())) == "abc你好d"
    assert starts.tolist() == [True, False, True, True, True, True]
    assert cjk == 2


def test_nothing_to_look_for_finds_nothing() -> None:
    assert found([], ["abc"]) == set()
    assert found(["abc"], []) == set()
