"""Tokenizers made of ranks give the ids of tiktoken, on small vocabularies here and on published ones where they are."""

import base64
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dataplane.corpus.byte_ranks import PATTERNS, from_ranks, read_ranks
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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pattern"), [("EleutherAI_gpt-neox-20b", "gpt2"), ("meta-llama-3-8B", "llama3"), ("qwen", "qwen")])
def test_published_vocabularies_give_the_ids_of_tiktoken(shared_data: Path, tmp_path: Path, name: str, pattern: str) -> None:
    with tarfile.open(shared_data / "tokenizers.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    ranks = read_ranks(tmp_path / "tokenizers" / f"{name}.tiktoken")
    tokenizer, encoding = from_ranks(ranks, pattern, SPECIAL_TOKENS), reference(pattern, ranks)
    plays = next((shared_data / "shakespeare").glob("*.txt")).read_text(encoding="utf-8")
    texts = [*NAUGHTY, *(text[:500] for text in TRAPS.values()), *(plays[at : at + 20_000] for at in range(0, 400_000, 20_000))]
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    assert ours(tokenizer, clean) == [encoding.encode_ordinary(text) for text in clean]
