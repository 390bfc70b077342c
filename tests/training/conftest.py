"""A tiny tokenizer and a tiny pretrained model, as the stages before leave them."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

TEXTS = [
    "What is the capital of France? The capital of France is Paris. Teachers assist students in the morning.",
    "老师辅助学生学习。这条评论是正面的。这条评论是负面的。今天天气很好，我们去公园。",
] * 4


def make_tokenizer(folder: Path) -> Path:
    from dataplane.corpus.tokenizer import TokenizerParams, save, train

    save(train([pa.array(TEXTS)], TokenizerParams(vocab_size=320)), folder)
    return folder


def make_pretrained(folder: Path, tokenizer_folder: Path) -> Path:
    """A folder like models/pretrain, with random weights."""
    from trainplane.model.build import build, save_model, weights_digest
    from trainplane.params import ModelParams
    from trainplane.tokenizer import load_tokenizer

    params = ModelParams(hidden_size=32, n_layers=2, n_heads=2, n_kv_heads=2, intermediate_size=64, initializer_range=0.1)
    n_tokens = len(load_tokenizer(tokenizer_folder))
    model = build(params, vocab_size=n_tokens, sequence_length=64, eos_id=0, pad_id=1, seed=3)
    save_model(model, folder)
    for path in tokenizer_folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "run.json").write_text(json.dumps({"stage": "pretrain", "digest": weights_digest(model)}))
    return folder


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def tokenizer(tokenizer_folder: Path):  # type: ignore[no-untyped-def]
    from trainplane.tokenizer import load_tokenizer

    return load_tokenizer(tokenizer_folder)


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory, tokenizer_folder: Path) -> Path:
    """A folder like models/pretrain, with random weights."""
    return make_pretrained(tmp_path_factory.mktemp("models") / "pretrain", tokenizer_folder)
