"""The tokenizer through the stages: trained on the shares asked for, and tokens and sequences that give the texts back."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tokenizers import Tokenizer

from dataplane import schema
from dataplane.stages import tokenize, tokenizer

ENGLISH = [f"The river number {i} runs to the sea, and the mill by the river grinds grain.\n" for i in range(30)]
CHINESE = [f"第{i}条河流向大海，河边的水车磨着谷物。\n" for i in range(30)]
TEXTS = ENGLISH + CHINESE


@pytest.fixture
def root(put, project: Path) -> Path:  # type: ignore[no-untyped-def]
    n = len(TEXTS)
    of: dict[str, list[Any]] = {
        "doc_id": [f"{i:032x}" for i in range(n)], "source": ["s"] * n,
        "kind": ["en"] * len(ENGLISH) + ["zh"] * len(CHINESE), "text": TEXTS, "n_bytes": [len(text.encode()) for text in TEXTS],
        "weight": [1.0] * n, "epoch": [0] * n, "position": list(range(n)),
    }  # fmt: skip
    for name, columns in (("documents", schema.DOCUMENTS), ("mixture", schema.MIXTURE)):
        put(name, pa.table({f.name: pa.array(of.get(f.name, [None] * n), f.type) for f in columns}, schema=columns))
    put("cuts", schema.CUTS.empty_table())
    put("held_out", schema.HELD_OUT.empty_table())
    return project


def put_params(root: Path, **params: Any) -> None:
    values = {"tokenizer": {"vocab_size": 400, **params}, "tokenize": {}, "pack": {"sequence_length": 32}}
    (root / "params.yaml").write_text(yaml.safe_dump(values))


def metrics(root: Path, stage: str) -> Any:
    return json.loads((root / f"metrics/{stage}.json").read_text())


def test_a_tokenizer_is_trained_on_the_shares_asked_for_which_its_metrics_tell(root: Path) -> None:
    put_params(root, max_bytes=2000, sample={"by": "kind", "targets": {"zh": 1}, "rest": 0})
    tokenizer.main()
    only = (root / tokenizer.FOLDER / "tokenizer.json").read_text()
    vocabulary = json.loads(only)["model"]["vocab"]
    assert [token for token in vocabulary if "river" in token] == []
    told = metrics(root, "tokenizer")["sample"]
    assert (told["by"], told["largest_gap"]) == ("kind", 0.0)
    assert abs(told["total"] - 2000) < max(len(text.encode()) for text in CHINESE)
    put_params(root, max_bytes=2000, sample={"by": "kind", "targets": {"zh": 1, "en": 1}})
    tokenizer.main()
    groups = metrics(root, "tokenizer")["sample"]["groups"]
    assert {name: round(group["achieved"], 1) for name, group in groups.items()} == {"en": 0.5, "zh": 0.5}
    assert (root / tokenizer.FOLDER / "tokenizer.json").read_text() != only


@pytest.mark.parametrize("model", ["bpe", "unigram", "sentencepiece_bpe", "sentencepiece_unigram"])
def test_every_model_tells_what_it_loses_and_how_many_bytes_a_token_takes(root: Path, model: str) -> None:
    if model != "bpe":
        pytest.importorskip("sentencepiece")
    put_params(root, vocab_size=360, model=model)
    tokenizer.main()
    told = metrics(root, "tokenizer")
    lost = ["U+2581"] if model.startswith("sentencepiece") else []
    assert told["round_trip"] == {"texts": len(TEXTS), "changed": 0, "changed_hostile": lost}
    assert told["model"] == model
    tokenize.main()
    by_kind = metrics(root, "tokenize")["by_kind"]
    made = Tokenizer.from_file(str(root / tokenizer.FOLDER / "tokenizer.json"))
    for kind, texts in (("en", ENGLISH), ("zh", CHINESE)):
        tokens = sum(len(made.encode(text, add_special_tokens=False).ids) for text in texts)
        assert (by_kind[kind]["documents"], by_kind[kind]["tokens"]) == (len(texts), tokens)
        assert by_kind[kind]["bytes_per_token"] == pytest.approx(sum(len(text.encode()) for text in texts) / tokens)


def test_a_sentencepiece_file_is_taken_and_kept_beside_the_tokenizer(root: Path) -> None:
    pytest.importorskip("sentencepiece")
    put_params(root, vocab_size=360, model="sentencepiece_bpe")
    tokenizer.main()
    folder = root / tokenizer.FOLDER
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (root / "own.model").write_bytes(before["tokenizer.model"])
    put_params(root, path="own.model")
    tokenizer.main()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert metrics(root, "tokenizer")["path"] == "own.model"
    put_params(root)
    tokenizer.main()
    assert not (folder / "tokenizer.model").exists()
