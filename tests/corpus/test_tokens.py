"""Token ids: those of the library, whatever the batch and the piece, and never a special one out of a text."""

import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dataplane import schema
from dataplane.corpus.tokenizer import SPECIAL_TOKENS, TokenizerParams, train
from dataplane.corpus.tokens import TokenizeParams, pieces, tokenize

TEXTS = ["the words of the tokenizer are words of the corpus. ", "分词器的词语是语料库的词语。", "x = 1\n\n    y = [2, 3]\n"] * 20
PIECE = 1 << 10


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    made = train([pa.array(TEXTS)], TokenizerParams.parse({"vocab_size": 400}, where="tokenizer"))
    made.encode_special_tokens = True
    return made


def batch_of(texts: list[str | None], tokenizer: Tokenizer) -> pa.RecordBatch:
    ids = pa.array([f"{i:032x}" for i in range(len(texts))])
    return tokenize(ids, pa.array(texts, pa.large_string()), tokenizer, TokenizeParams.parse({"piece_chars": PIECE}, where="tokenize"))


@given(st.lists(st.text(max_size=60), max_size=8))
@settings(deadline=None)
def test_ids_are_those_of_the_library(tokenizer: Tokenizer, texts: list[str]) -> None:
    batch = batch_of(list(texts), tokenizer)
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert batch.column("input_ids").to_pylist() == expected
    assert batch.column("n_tokens").to_pylist() == [len(ids) for ids in expected]
    assert batch.schema == schema.TOKENS


def test_words_are_counted_as_text_signals_counts_them(tokenizer: Tokenizer) -> None:
    assert batch_of(["one two", "我们好", "three", None], tokenizer).column("n_words").to_pylist() == [2, 3, 1, 0]


@given(st.lists(st.text(st.sampled_from("ab 1\n\r\t.我，'\u3000\u0301"), min_size=50, max_size=400), min_size=3, max_size=8))
@settings(deadline=None, max_examples=60)
def test_ids_of_a_long_text_are_those_of_the_whole(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "the end.\n".join([*parts, *parts, *parts])
    assert batch_of([text], tokenizer).column("input_ids").to_pylist() == [tokenizer.encode(text, add_special_tokens=False).ids]


@given(st.text(st.sampled_from("a \n我"), max_size=3000), st.integers(1024, 1100))
def test_pieces_are_the_text_and_no_longer_than_allowed(text: str, size: int) -> None:
    cut = list(pieces(text, size))
    assert "".join(cut) == text
    assert [piece for piece in cut if len(piece) > size] == []
    assert "" not in cut[:-1]


def test_special_tokens_in_a_text_are_text(tokenizer: Tokenizer) -> None:
    text = "".join(SPECIAL_TOKENS)
    (ids,) = batch_of([text], tokenizer).column("input_ids").to_pylist()
    assert min(ids) >= len(SPECIAL_TOKENS)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_empty_and_null_texts_have_no_tokens(tokenizer: Tokenizer) -> None:
    batch = batch_of(["", None, "x"], tokenizer)
    assert batch.column("n_tokens").to_pylist() == [0, 0, 1]
    assert batch_of([], tokenizer).num_rows == 0


@pytest.mark.parametrize("unit", ["a", " ", "我", "\n", "!", "9", "e\u0301", "\u0000"])
def test_a_long_run_of_one_character_is_encoded_in_bounded_time(tokenizer: Tokenizer, unit: str) -> None:
    text = unit * (300_000 // len(unit))
    (ids,) = batch_of([text], tokenizer).column("input_ids").to_pylist()
    assert tokenizer.decode(ids) == text


def test_ids_equal_those_of_published_vocabularies_as_the_library_reads_them(shared_data: Path) -> None:
    archive = shared_data / "tokenizers.tar.xz"
    with tarfile.open(archive) as tar:
        names = [m for m in tar.getnames() if m.endswith("tokenizer.json")]
        if not names:
            pytest.skip("the archive holds no tokenizer.json")
        loaded = Tokenizer.from_str(tar.extractfile(names[0]).read().decode())  # type: ignore[union-attr]
    texts = [*TEXTS[:3], "naïve café 你好 123456"]
    expected = [loaded.encode(text, add_special_tokens=False).ids for text in texts]
    assert batch_of(list(texts), loaded).column("input_ids").to_pylist() == expected
