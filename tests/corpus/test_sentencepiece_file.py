"""Files of SentencePiece give the ids of its own library: small ones made here, and published ones where they are."""

import io
import json
import random
import struct
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from dataplane.corpus.sentencepiece_file import BYTE, CONTROL, NORMAL, UNKNOWN, from_model, puts_prefix, read_model
from dataplane.corpus.tokenizer import SPECIAL_TOKENS, extend_vocabulary
from dataplane.corpus.tokens import TokenizeParams, tokenize
from dataplane.errors import DataError, ModelMissing
from tests.conformance.hostile_texts import NAUGHTY, TRAPS

sentencepiece = pytest.importorskip("sentencepiece")

LINES = [
    "the words of the tokenizer are words of the corpus",
    "分词器的词语是语料库的词语",
    "x = 1 and y = [2, 3]",
    "  indented   by  runs",
] * 40
GIVEN: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "bpe", "add_dummy_prefix": True},
    "bpe": {"model_type": "bpe", "add_dummy_prefix": False},
    "unigram": {"model_type": "unigram", "add_dummy_prefix": False},
    "unigram with a space before": {"model_type": "unigram", "add_dummy_prefix": True},
    "pieces of the user": {"model_type": "bpe", "add_dummy_prefix": False, "user_defined_symbols": ["▁▁", "▁▁▁▁", "<x>", "the"]},
    "pieces over spaces": {"model_type": "bpe", "add_dummy_prefix": False, "split_by_whitespace": False},
}  # fmt: skip
PATH = Path("x.model")


def trained(**options: Any) -> bytes:
    made = io.BytesIO()
    of = {
        "vocab_size": 420, "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
        "allow_whitespace_only_pieces": True, "hard_vocab_limit": False, "minloglevel": 3,
        "required_chars": "<>unks/0123456789xABCDEF", **options,
    }  # fmt: skip
    lines = [*LINES, "<>unks/0123456789xABCDEF"]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=made, **of)
    return made.getvalue()


FILES = {name: trained(**options) for name, options in GIVEN.items()}


def both(data: bytes) -> tuple[Tokenizer, Any]:
    tokenizer = from_model(read_model(data, PATH), SPECIAL_TOKENS)
    tokenizer.encode_special_tokens = True
    return tokenizer, sentencepiece.SentencePieceProcessor(model_proto=data)


MADE = {name: both(data) for name, data in FILES.items()}


def same_ids(made: tuple[Tokenizer, Any], texts: list[str]) -> None:
    tokenizer, library = made
    for text in texts:
        ids, expected = tokenizer.encode(text, add_special_tokens=False).ids, library.encode(text)
        if isinstance(tokenizer.model, models.Unigram) and ids != expected:  # two cuts that its float32 cannot tell apart
            assert sum(map(library.get_score, ids)) == pytest.approx(sum(map(library.get_score, expected)), rel=1e-6), repr(text)
        else:
            assert ids == expected, repr(text)
        assert tokenizer.decode(ids, skip_special_tokens=False) == text.replace("\u2581", " ")


@pytest.mark.parametrize("name", GIVEN)
@given(st.text(alphabet=st.one_of(st.sampled_from("thewords  \n1的词<x>0A\u2581"), st.characters(exclude_categories=["Cs"])), max_size=60))
@settings(deadline=None)
def test_ids_are_those_of_the_library_and_texts_come_back(name: str, text: str) -> None:
    same_ids(MADE[name], [text])


@pytest.mark.parametrize("name", GIVEN)
def test_hostile_texts_and_what_looks_like_tokens(name: str) -> None:
    runs = [" " * before + "the" + " " * behind for before in range(20) for behind in range(20)]
    same_ids(MADE[name], [*runs, *(t.encode("utf-8", "replace").decode() for t in NAUGHTY), "<0x41><s></s><unk>", "<|endoftext|>"])


def test_special_tokens_come_behind() -> None:
    tokenizer, library = MADE["llama"]
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [library.get_piece_size() + i for i in range(len(SPECIAL_TOKENS))]


@pytest.mark.parametrize("name", ["llama", "bpe", "unigram with a space before"])
@given(st.lists(st.text(st.sampled_from("the wo\n的  1"), min_size=30, max_size=200), min_size=2, max_size=8))
@settings(deadline=None, max_examples=40)
def test_ids_of_a_long_text_are_those_of_the_whole(name: str, parts: list[str]) -> None:
    tokenizer, _ = MADE[name]
    text = "the end. ".join([*parts, *parts, *parts, "x" * 400])
    params = TokenizeParams.parse({"piece_chars": 1 << 10}, where="tokenize")
    whole = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenize(pa.array(["a"]), pa.array([text]), tokenizer, params).column("input_ids").to_pylist() == [whole]
    same_ids(MADE[name], [text])


def test_a_vocabulary_that_puts_a_space_before_texts_takes_no_terms() -> None:
    assert [puts_prefix(MADE[name][0]) for name in ("llama", "bpe")] == [True, False]
    with pytest.raises(DataError, match="puts a space before each text"):
        extend_vocabulary(MADE["llama"][0], ["photosynthesis"])


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"normalization_rule_name": "nmt_nfkc"}, "rewrites texts"),
        ({"remove_extra_whitespaces": True}, "removes white space"),
        ({"byte_fallback": False}, "no bytes to fall back on"),
        ({"treat_whitespace_as_suffix": True}, "puts white space behind words"),
        ({"model_type": "char"}, "neither BPE nor unigram"),
        ({"add_dummy_prefix": True, "user_defined_symbols": ["<x>"]}, "pieces of its user"),
        ({"user_defined_symbols": ["a b"]}, "pieces with a space"),
        ({"required_chars": "", "control_symbols": ["<☃>"]}, "letters that are no pieces"),
    ],
)
def test_a_model_that_loses_text_is_refused_and_told_why(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ModelMissing, match=fault):
        read_model(trained(**{"model_type": "unigram", **options}), PATH)


@pytest.mark.parametrize("data", [b"", b"{}", b"\x0a\xff\xff", FILES["bpe"][:1000], b"\xff" * 40])
def test_a_damaged_file_is_named(data: bytes) -> None:
    with pytest.raises(ModelMissing, match=r"x\.model is no SentencePiece model"):
        read_model(data, PATH)


def _field(number: int, value: bytes | int | float) -> bytes:
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    if isinstance(value, int):
        return bytes([number << 3, value])
    size, length = len(value), b""
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + value


def _file(vocabulary: list[str]) -> bytes:
    """A BPE file of pieces in the order of their merges, as Llama's."""
    types = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, **{f"<0x{byte:02X}>": BYTE for byte in range(256)}}
    parts = [
        _field(1, _field(1, text.encode()) + _field(2, -float(i)) + _field(3, types.get(text, NORMAL))) for i, text in enumerate(vocabulary)
    ]
    training = _field(2, _field(3, 2) + bytes([35 << 3 & 0x7F | 0x80, 35 >> 4, 1]))
    return b"".join([*parts, training, _field(3, _field(1, b"identity") + _field(3, 1) + _field(4, 0) + _field(5, 1))])


def published_texts(shared_data: Path) -> list[str]:
    plays = next((shared_data / "shakespeare").glob("*.txt")).read_text(encoding="utf-8")
    chosen = random.Random(0)
    mixed = ["".join(chosen.choices("the in  a\n1\t的我é<0x41>\U0001f600", k=60)) for _ in range(2000)]
    runs = [" " * before + "x" + " " * behind for before in range(40) for behind in range(20)]
    texts = [
        *NAUGHTY,
        *(text[:500] for text in TRAPS.values()),
        *(plays[at : at + 20_000] for at in range(0, 400_000, 20_000)),
        *mixed,
        *runs,
    ]
    return [text.encode("utf-8", "replace").decode() for text in texts]


@pytest.mark.slow
def test_llama_2s_vocabulary_gives_the_ids_of_the_library(shared_data: Path) -> None:
    """The archive holds the vocabulary as a tokenizer.json; the file is rebuilt from it, with the same pieces in the same order."""
    with tarfile.open(shared_data / "tokenizers.tar.xz") as archive:
        stream = archive.extractfile("tokenizers/llama-test-tokenizer.json")
        assert stream is not None
        vocabulary = json.load(stream)["model"]["vocab"]
    assert len(vocabulary) == 32_000
    same_ids(both(_file(sorted(vocabulary, key=vocabulary.__getitem__))), published_texts(shared_data))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tokenizer.model.v1", "mistral_instruct_tokenizer_240216.model.v2"])
def test_mistrals_files_give_the_ids_of_the_library(shared_data: Path, name: str) -> None:
    found = find_spec("mistral_common")
    if found is None or not found.submodule_search_locations:
        pytest.skip("mistral-common, which holds the files, is not installed (pip install --no-deps mistral-common)")
    path = Path(next(iter(found.submodule_search_locations))) / "data" / name
    if not path.is_file():
        pytest.skip(f"this mistral-common holds no {name}")
    same_ids(both(path.read_bytes()), published_texts(shared_data))
