"""A tiny tokenizer and a tiny pretrained model, as the stages before leave them."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

TEXTS = [
    "What is the capital of France? The capital of France is Paris. Teachers assist students in the morning.",
    "老师辅助学生学习。这条评论是正面的。这条评论是负面的。今天天气很好，我们去公园。",
] * 4


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from dataplane.corpus.tokenizer import TokenizerParams, save, train

    folder = tmp_path_factory.mktemp("tokenizer")
    save(train([pa.array(TEXTS)], TokenizerParams(vocab_size=320)), folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tokenizer_folder: Path):  # type: ignore[no-untyped-def]
    from trainplane.tokenizer import load_tokenizer

    return load_tokenizer(tokenizer_folder)


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory, tokenizer_folder: Path, tokenizer) -> Path:  # type: ignore[no-untyped-def]
    """A folder like models/pretrain, with random weights."""
    from trainplane.model.build import build, save_model, weights_digest
    from trainplane.params import ModelParams

    folder = tmp_path_factory.mktemp("models") / "pretrain"
    params = ModelParams(hidden_size=32, n_layers=2, n_heads=2, n_kv_heads=2, intermediate_size=64, initializer_range=0.1)
    model = build(params, vocab_size=len(tokenizer), sequence_length=64, eos_id=0, pad_id=1, seed=3)
    save_model(model, folder)
    for path in tokenizer_folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "run.json").write_text(json.dumps({"stage": "pretrain", "digest": weights_digest(model)}))
    return folder
