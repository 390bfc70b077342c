"""Rules decide in SQL: nulls never drop, every failing rule is kept with its values, faults are named before any work."""

import json

import pyarrow as pa
import pytest

from dataplane.deciding import Condition, Decider, Rule
from dataplane.errors import ParamsError

BATCH = pa.record_batch(
    {
        "doc_id": ["a", "b", "c", "d"],
        "kind": ["web", "code", "web", "web"],
        "text_signals__n_words": pa.array([10, 10, 500, None], pa.int64()),
        "language__lang": ["en", "en", "de", None],
        "text": ["w", "x", "y", "z"],
    }
)
SHORT = Rule("gopher_quality", "id1", "too_few_words", "text_signals.n_words < 50", when="kind <> 'code'")
FOREIGN = Rule("language", "id2", "other_language", "language.lang NOT IN ('en', 'zh')")
LONG = Rule("gopher_quality", "id1", "too_many_words", "text_signals.n_words > 400")


def decider(*rules: Rule) -> Decider:
    return Decider(rules, BATCH.schema, stage="select", run_id="r1")


def test_every_failing_rule_is_recorded_with_the_signals_that_decided() -> None:
    kept, decisions = decider(SHORT, FOREIGN, LONG).decide(BATCH)
    assert kept.tolist() == [False, True, False, True]
    got = [(row["doc_id"], row["operator"], row["op_id"], row["reason"], json.loads(row["signals"])) for row in decisions.to_pylist()]
    assert got == [
        ("a", "gopher_quality", "id1", "too_few_words", {"text_signals.n_words": 10}),
        ("c", "language", "id2", "other_language", {"language.lang": "de"}),
        ("c", "gopher_quality", "id1", "too_many_words", {"text_signals.n_words": 500}),
    ]
    assert set(decisions.column("stage").to_pylist()) == {"select"}
    assert set(decisions.column("run_id").to_pylist()) == {"r1"}


def test_without_rules_everything_stays() -> None:
    kept, decisions = decider().decide(BATCH)
    assert (kept.tolist(), len(decisions)) == ([True] * 4, 0)


def test_an_empty_batch_gives_no_decision() -> None:
    kept, decisions = decider(SHORT).decide(BATCH.slice(0, 0))
    assert (kept.tolist(), len(decisions)) == ([], 0)


def test_faults_of_all_rules_are_named_at_once() -> None:
    wrong = Rule("gopher_quality", "id1", "a", "text_signals.n_wrods < 50")
    broken = Rule("language", "id2", "b", "language.lang = = 'en'")
    with pytest.raises(ParamsError) as error:
        decider(SHORT, wrong, broken)
    assert "gopher_quality.a" in str(error.value)
    assert "language.b" in str(error.value)
    assert "too_few_words" not in str(error.value)


def test_a_predicate_cannot_read_files() -> None:
    with pytest.raises(ParamsError):
        decider(Rule("x", "i", "r", "(SELECT count(*) FROM read_text('/etc/passwd')) > 0"))


def test_a_condition_is_false_where_it_is_null() -> None:
    assert Condition("text_signals.n_words < 50", where="w").holds(BATCH).tolist() == [True, True, False, False]


def test_a_condition_on_an_unknown_signal_is_a_params_error() -> None:
    with pytest.raises(ParamsError, match=r"clean\.pipeline\[0\]\.when"):
        Condition("nothing.here > 1", where="clean.pipeline[0].when").holds(BATCH)
