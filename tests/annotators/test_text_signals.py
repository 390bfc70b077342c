"""The annotator's contract: columns, types, params and what they change."""

import pyarrow as pa
import pytest

from dataplane.annotators.text_signals import TextSignals
from dataplane.errors import ParamsError
from dataplane.registry import operator_class

TEXTS = ["well-known, isn't it?", "的", ""]


def annotate(**params: str) -> dict[str, pa.Array]:
    return dict(TextSignals(params).annotate(pa.record_batch({"text": pa.array(TEXTS, pa.large_string())})))


def test_it_is_registered_under_its_name() -> None:
    assert operator_class("text_signals") is TextSignals


def test_columns_and_types_are_those_it_declares() -> None:
    assert {name: column.type for name, column in annotate().items()} == dict(TextSignals.writes)
    assert {len(column) for column in annotate().values()} == {len(TEXTS)}


def test_the_word_rule_changes_the_words() -> None:
    assert annotate()["n_words"].to_pylist() == [5, 1, 0]  # well known isn t it
    assert annotate(words="paper")["n_words"].to_pylist() == [3, 1, 0]
    assert TextSignals({"words": "paper"}).op_id != TextSignals({}).op_id


def test_an_unknown_word_rule_is_refused() -> None:
    with pytest.raises(ParamsError, match="'reference' or 'paper'"):
        TextSignals({"words": "spaces"})
