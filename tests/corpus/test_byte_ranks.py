"""Tokenizers made of ranks give the ids of tiktoken, on small vocabularies here and on published ones where they are."""

import base64
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dataplane.corpus.byte_ranks import PATTERNS, from_ranks, read_merges, read_ranks
from dataplane.corpus.tokenizer import SPECIAL_TOKENS
from dataplane.corpus.tokens import TokenizeParams, tokenize
from dataplane.errors import ModelMissing
from tests.conformance.hostile_texts import NAUGHTY, TRAPS

tiktoken = pytest.importorskip("tiktoken")

WORDS = [b"th", b"the", b" t", b" the", b"in", b"ing", b"an", b"and", b" a", b" and", "的".encode(), b"  ", b"\n\n", b"'s", b"12", b"123"]
RANKS = {bytes([byte]): byte for byte in range(256)} | {word: 256 + i for i, word in enumerate(WORDS)}
PARAMS = TokenizeParams.parse(None, where="tokenize")


def reference(pattern: str, ranks: dict[bytes, int]) -> "tiktoken.Encoding":
    return tiktoken.Encoding("x", pat_str=PATTERNS[pattern], mergeable_ranks=ranks, special_tokens={})


MADE = {pattern: (from_ranks(RANKS, pattern, SPECIAL_TOKENS), reference(pattern, RANKS)) for pattern in PATTERNS}


def ours(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    tokenizer.encode_special_tokens = True
    ids = pa.array([str(i) for i in range(len(texts))])
    found: list[list[int]] = tokenize(ids, pa.array(texts, pa.large_string()), tokenizer, PARAMS).column("input_ids").to_pylist()
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
@given(st.text(alphabet=st.one_of(st.sampled_from("thein gad's123\n\t的"), st.characters(exclude_categories=["Cs"])), max_size=60))
def test_ids_are_those_of_tiktoken_and_texts_come_back(pattern: str, text: str) -> None:
    tokenizer, encoding = MADE[pattern]
    (ids,) = ours(tokenizer, [text])
    assert ids == encoding.encode_ordinary(text)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("content", [b"", b"!!!! 0\n", base64.b64encode(b"a") + b" x\n", base64.b64encode(b"a") + b" 0\n"])
def test_files_that_are_no_ranks_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tiktoken"
    with pytest.raises(ModelMissing):
        read_ranks(path)
    path.write_bytes(content)
    with pytest.raises(ModelMissing):
        read_ranks(path)


def test_merges_of_gpt_2_become_ranks_behind_its_order_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "merges.txt"
    path.write_text("#version: 0.2\nt h\nĠ th\n# #\nĊ Ċ\n", encoding="utf-8")
    ranks = read_merges(path)
    assert [ranks[token] for token in (b"!", b"~", "¡".encode("latin-1"), b"\x00", b" ", b"\xad")] == [0, 93, 94, 188, 220, 255]
    assert [ranks[token] for token in (b"th", b" th", b"##", b"\n\n")] == [256, 257, 258, 259]
    texts = ["the th ###\n\n\n", " thth"]
    assert ours(from_ranks(ranks, "gpt2", SPECIAL_TOKENS), texts) == [reference("gpt2", ranks).encode_ordinary(text) for text in texts]
    for damaged in ("t h x\n", "t h\nt h\n", "\u4e00 a\n"):
        path.write_text(damaged, encoding="utf-8")
        with pytest.raises(ModelMissing):
            read_merges(path)
    with pytest.raises(ModelMissing):
        read_merges(tmp_path / "none.txt")


def published_texts(shared_data: Path) -> list[str]:
    plays = next((shared_data / "shakespeare").glob("*.txt")).read_text(encoding="utf-8")
    texts = [*NAUGHTY, *(text[:500] for text in TRAPS.values()), *(plays[at : at + 20_000] for at in range(0, 400_000, 20_000))]
    return [text.encode("utf-8", "replace").decode() for text in texts]


@pytest.mark.slow
def test_gpt_2s_merges_give_the_ids_of_tiktoken_and_transformers(shared_data: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    with tarfile.open(shared_data / "tokenizers.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    path = tmp_path / "tokenizers" / "merges_gpt2.txt"
    ranks = read_merges(path)
    tokenizer = from_ranks(ranks, "gpt2", SPECIAL_TOKENS)
    assert (len(ranks), tokenizer.token_to_id("<|endoftext|>")) == (50_256, 50_256)
    vocabulary = {token: number for token, number in tokenizer.get_vocab(with_added_tokens=True).items() if number <= 50_256}
    merges = [tuple(line.split(" ")) for line in path.read_text(encoding="utf-8").split("\n")[1:] if line]
    library = transformers.GPT2Tokenizer(vocab=vocabulary, merges=merges)
    encoding, texts = reference("gpt2", ranks), published_texts(shared_data)
    found = ours(tokenizer, texts)
    assert found == [encoding.encode_ordinary(text) for text in texts]
    plain = [(text, ids) for text, ids in zip(texts, found, strict=True) if "<|endoftext|>" not in text]
    assert [ids for _, ids in plain] == library([text for text, _ in plain], add_special_tokens=False)["input_ids"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pattern"), [("EleutherAI_gpt-neox-20b", "gpt2"), ("meta-llama-3-8B", "llama3"), ("qwen", "qwen")])
def test_published_vocabularies_give_the_ids_of_tiktoken(shared_data: Path, tmp_path: Path, name: str, pattern: str) -> None:
    with tarfile.open(shared_data / "tokenizers.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    ranks = read_ranks(tmp_path / "tokenizers" / f"{name}.tiktoken")
    tokenizer, encoding = from_ranks(ranks, pattern, SPECIAL_TOKENS), reference(pattern, ranks)
    texts = published_texts(shared_data)
    assert ours(tokenizer, texts) == [encoding.encode_ordinary(text) for text in texts]
