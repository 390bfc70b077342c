"""The tokenizer: nothing lost on any text, one file for one corpus, loads in transformers ready for chat."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, pre_tokenizers

from dataplane.corpus import round_trip
from dataplane.corpus import tokenizer as trained
from dataplane.corpus.tokenizer import (
    EOS,
    PAD,
    PATTERN,
    ROLES,
    SPECIAL_TOKENS,
    TokenizerParams,
    extend_vocabulary,
    fertility,
    load,
    read_terms,
    save,
    token_id,
    train,
    train_with_model,
)
from dataplane.corpus.tokenizer import given as given_vocabulary
from dataplane.errors import DataError, EnvironmentFault, ModelMissing

ENGLISH = "In the beginning the tokenizer learned the words it was given, and the words were good; 3.14 is not 2024.\n"
CHINESE = "我们在学习中文分词，分词器要把词语分好。二〇二四年，我们的词表有八千个词！\n"
CODE = "def add(a, b):\n    return a + b\n\nfor i in range(10):\n\tprint(add(i, 1))\n"
MODELS = ("bpe", "unigram", "sentencepiece_bpe", "sentencepiece_unigram")
TEXTS = [ENGLISH * 3, CHINESE * 3, CODE * 3] * 20


def params(**values: object) -> TokenizerParams:
    return TokenizerParams.parse({"vocab_size": 500, **values}, where="tokenizer")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("sentencepiece")
    paths = {model: tmp_path_factory.mktemp(model) for model in MODELS}
    for model, path in paths.items():
        save(*_swapped(train_with_model([pa.array(TEXTS)], params(model=model)), path))
    return paths


def _swapped(made: tuple[Tokenizer, bytes], path: Path) -> tuple[Tokenizer, Path, bytes]:
    return made[0], path, made[1]


@pytest.fixture(scope="module")
def made(folders: dict[str, Path]) -> dict[str, Tokenizer]:
    return {model: load(path) for model, path in folders.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    save(train([pa.array(TEXTS)], params()), path)
    return path


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return load(folder)


def test_a_file_of_ranks_gets_the_special_tokens_behind_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)))
    made = given_vocabulary(path, params(path=str(path)))[0]
    assert [token_id(made, token) for token in SPECIAL_TOKENS] == list(range(256, 256 + len(SPECIAL_TOKENS)))
    assert made.encode("é", add_special_tokens=False).ids == list("é".encode())


HOSTILE = (
    "e\u0301 \u0000 \ufeff \U0010ffff \u202e  \r\n\t 　",
    "<|endoftext|><|user|> 你好<|end|><unk><0x41>",
    "\u0301\u0301\u0301",
    *round_trip.HOSTILE.values(),
)


@pytest.mark.parametrize("model", MODELS)
@given(st.text())
def test_every_text_comes_back_byte_for_byte(made: dict[str, Tokenizer], model: str, text: str) -> None:
    for tried in (text, *HOSTILE):
        ids = made[model].encode(tried, add_special_tokens=False).ids
        kept = tried.replace("\u2581", " ") if model.startswith("sentencepiece") else tried
        assert made[model].decode(ids, skip_special_tokens=False) == kept
        assert min(ids, default=len(SPECIAL_TOKENS)) >= len(SPECIAL_TOKENS)


@pytest.mark.parametrize("model", MODELS)
def test_what_is_lost_is_told(made: dict[str, Tokenizer], model: str) -> None:
    texts = ["a plain text", "a \u2581 text"]
    lost = ["U+2581"] if model.startswith("sentencepiece") else []
    assert round_trip.round_trip(made[model], texts) == {"texts": 2, "changed": len(lost), "changed_hostile": lost}


def test_special_tokens_have_the_first_ids(tokenizer: Tokenizer) -> None:
    assert [token_id(tokenizer, token) for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))
    with pytest.raises(DataError, match="no token '<\\|bos\\|>'"):
        token_id(tokenizer, "<|bos|>")


def test_digits_stand_alone_and_han_runs_are_glued_to_nothing() -> None:
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    words = [word for word, _ in split.pre_tokenize_str("I don't know, 我们在2024年学AI技术。  x = f(1);\n\n  end")]
    expected = "I| don|'t| know|,| |我们在|2|0|2|4|年学|AI|技术|。| | x| =| f|(|1|);\n\n| | end"
    assert words == expected.split("|")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("parallel", ["false", "true"])
def test_training_again_gives_the_same_bytes_whatever_the_threads_and_the_order(
    folders: dict[str, Path], tmp_path: Path, model: str, parallel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "TOKENIZERS_PARALLELISM", parallel)
    batches = [pa.array(TEXTS[7:], pa.large_string()), pa.array([*TEXTS[:7], None, ""], pa.large_string())]
    save(*_swapped(train_with_model(batches, params(model=model)), tmp_path))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {p.name: p.read_bytes() for p in folders[model].iterdir()}


@pytest.mark.parametrize("model", MODELS[1:])
def test_a_unigram_or_sentencepiece_vocabulary_is_the_same_in_another_process(folders: dict[str, Path], tmp_path: Path, model: str) -> None:
    program = (
        "import sys, pyarrow as pa; from pathlib import Path; from tests.corpus import test_tokenizer as t; "
        "t.save(*t._swapped(t.train_with_model([pa.array(t.TEXTS)], t.params(model=sys.argv[1])), Path(sys.argv[2])))"
    )
    subprocess.run([sys.executable, "-c", program, model, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])
    assert (tmp_path / trained.FILE).read_bytes() == (folders[model] / trained.FILE).read_bytes()


@pytest.mark.parametrize("model", MODELS[2:])
def test_the_library_gives_the_ids_of_the_model_that_is_kept(
    folders: dict[str, Path], made: dict[str, Tokenizer], model: str, tmp_path: Path
) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    library = sentencepiece.SentencePieceProcessor(model_file=str(folders[model] / trained.MODEL_FILE))
    for text in (*TEXTS[:3], *HOSTILE):
        assert made[model].encode(text, add_special_tokens=False).ids == library.encode(text)
    again, data = given_vocabulary(folders[model] / trained.MODEL_FILE, params())
    save(again, tmp_path, data)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {p.name: p.read_bytes() for p in folders[model].iterdir()}


@pytest.mark.parametrize("model", MODELS)
def test_transformers_gives_the_same_ids_and_text(folders: dict[str, Path], made: dict[str, Tokenizer], model: str) -> None:
    transformers = pytest.importorskip("transformers")
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(folders[model])
    for text in TEXTS[:3]:
        ids = made[model].encode(text, add_special_tokens=False).ids
        assert loaded(text, add_special_tokens=False)["input_ids"] == ids
        assert loaded.decode(ids) == text


@pytest.mark.parametrize("model", MODELS)
def test_terms_get_ids_behind_and_change_no_others(folders: dict[str, Path], made: dict[str, Tokenizer], model: str) -> None:
    more = load(folders[model])
    size = more.get_vocab_size()
    (pieces,) = extend_vocabulary(more, ["photosynthesis"])
    text = "the words and the photosynthesis and the words"
    ids = more.encode(text, add_special_tokens=False).ids
    assert ids.count(size) == 1
    assert [i for old in ids for i in (pieces if old == size else [old])] == [
        i
        for part in ("the words and the ", "photosynthesis", " and the words")
        for i in made[model].encode(part, add_special_tokens=False).ids
    ]
    assert more.decode(ids, skip_special_tokens=False) == text


def test_too_many_pieces_for_the_text_are_an_error() -> None:
    with pytest.raises(DataError, match=r"tokenizer\.vocab_size"):
        train([pa.array(["a b c"])], params(model="sentencepiece_bpe", vocab_size=5000))


def test_a_vocabulary_without_the_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(EnvironmentFault, match=r"terraplane\[sentencepiece\]"):
        train([pa.array(["a b c"])], params(model="unigram"))


def test_no_text_is_an_error() -> None:
    with pytest.raises(DataError, match="no text to train"):
        train([pa.array([""], pa.string())], params())


def test_a_missing_or_damaged_file_names_the_command_that_mends_it(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="dvc repro tokenizer"):
        load(tmp_path)
    (tmp_path / trained.FILE).write_text("{}")
    with pytest.raises(ModelMissing, match="is not a tokenizer"):
        load(tmp_path)


def test_fertility_counts_by_group() -> None:
    documents = {
        "by_language": ["en", "zh", "en", "none", None],
        "n_bytes": [7, 9, 5, 0, 4],
        "n_tokens": [4, 3, 2, 0, 1],
        "n_words": [2, 3, 1, 0, 0],
    }
    assert fertility(pa.table(documents), ["by_language"]) == {
        "by_language": {
            "en": {"documents": 2, "tokens": 6, "bytes_per_token": 2.0, "tokens_per_word": 2.0},
            "none": {"documents": 1, "tokens": 0, "bytes_per_token": 0.0, "tokens_per_word": 0.0},
            "unknown": {"documents": 1, "tokens": 1, "bytes_per_token": 4.0, "tokens_per_word": 0.0},
            "zh": {"documents": 1, "tokens": 3, "bytes_per_token": 3.0, "tokens_per_word": 1.0},
        }
    }


def test_transformers_loads_the_folder_with_pad_apart_from_eos_and_marks_the_answer(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    loaded = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    assert (loaded.eos_token, loaded.pad_token, loaded.eos_token_id, loaded.pad_token_id) == (EOS, PAD, 0, 1)
    chat = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "你好"},
        {"role": "assistant", "content": "你好！ 2 words"},
    ]
    got = loaded.apply_chat_template(chat, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    marked = [i for i, mask in zip(got["input_ids"], got["assistant_masks"], strict=True) if mask]
    assert loaded.decode(marked) == "你好！ 2 words<|end|>"
    assert loaded.decode(got["input_ids"]) == ("<|system|>Be kind.<|end|><|user|>你好<|end|><|assistant|>你好！ 2 words<|end|>")
    prompt = loaded.apply_chat_template(chat[:2], tokenize=False, add_generation_prompt=True)
    assert prompt == "<|system|>Be kind.<|end|><|user|>你好<|end|><|assistant|>"
    assert got["input_ids"][: len(loaded(prompt, add_special_tokens=False)["input_ids"])] == loaded(prompt)["input_ids"]
    with pytest.raises(Exception, match="unknown role tool"):
        loaded.apply_chat_template([{"role": "tool", "content": ""}], tokenize=False)


def test_every_special_token_is_declared_in_the_config(folder: Path) -> None:
    config = json.loads((folder / trained.CONFIG_FILE).read_text())
    declared = [config["eos_token"], config["pad_token"], *config["additional_special_tokens"]]
    assert declared == list(SPECIAL_TOKENS)
    assert set(ROLES) == {"user", "assistant", "system"}


def test_terms_are_read_one_a_line(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text(" photosynthesis \n\n光合作用\n", encoding="utf-8")
    assert read_terms(tmp_path / "terms.txt") == ["photosynthesis", "光合作用"]
    with pytest.raises(ModelMissing, match=r"tokenizer\.terms"):
        read_terms(tmp_path / "none.txt")
