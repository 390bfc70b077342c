"""The operator perplexity: signals from the model, the rule only where asked, a missing model named with its fix."""

from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.annotators.perplexity import Perplexity
from dataplane.corpus.ngram_lm import TrainLmParams, train
from dataplane.errors import ModelMissing, ParamsError
from dataplane.registry import operator_class

TEXTS = ["In the beginning God created the heaven and the earth.", "我们要坚持改革开放，发展经济。"] * 3


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    batch = pa.record_batch({"source": ["good"] * len(TEXTS), "text": pa.array(TEXTS, pa.large_string())})
    path = Path("models/ngram_lm/model.npz")
    train([batch], TrainLmParams.parse(None, where="train_lm")).save(path)
    return path


def opened(**params: object) -> Perplexity:
    operator = Perplexity(params)
    operator.open()
    return operator


def test_signals_are_perplexity_by_character_and_its_logarithm(model: Path) -> None:
    operator = opened()
    text = pa.array(["God created", "dGo zdetaecr", "改革开放", "", " \n", None], pa.large_string())
    signals = operator.annotate(pa.record_batch({"text": text}))
    assert {name: array.type for name, array in signals.items()} == dict(Perplexity.writes)
    value, bits = signals["value"].to_pylist(), signals["bits_per_char"].to_pylist()
    assert 1 < value[0] < value[1]
    assert value == pytest.approx([2**b for b in bits])
    assert (value[3:], bits[3:]) == ([1.0] * 3, [0.0] * 3)


def test_the_rule_is_there_only_where_a_limit_is_set(model: Path) -> None:
    assert Perplexity().rules() == {}
    assert Perplexity({"max_perplexity": 50}).rules() == {"too_surprising": "perplexity.value > 50.0"}
    with pytest.raises(ParamsError):
        Perplexity({"max_perplexity": 1})


def test_another_model_is_another_operator(model: Path) -> None:
    before = Perplexity().op_id
    assert Perplexity().op_id == before
    batch = pa.record_batch({"source": ["good"], "text": pa.array(["other text"], pa.large_string())})
    train([batch], TrainLmParams.parse(None, where="train_lm")).save(model)
    assert Perplexity().op_id != before


@pytest.mark.parametrize("use", ["open", "files"])
def test_a_missing_model_names_the_command_that_makes_it(project: Path, use: str) -> None:
    with pytest.raises(ModelMissing, match="dvc repro train_lm") as caught:
        getattr(Perplexity(), use)()
    assert caught.value.exit_code == 3


def test_it_is_registered_under_its_name() -> None:
    assert operator_class("perplexity") is Perplexity
