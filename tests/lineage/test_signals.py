"""Rules are asked over flat columns, and mean there what they mean over packed ones."""

import pyarrow as pa
import pytest

from dataplane.deciding import Rule
from dataplane.errors import ParamsError
from dataplane.lake.sql import private_connection
from dataplane.lineage.signals import FlatRules, any_of, check, stream

SCHEMA = pa.schema([("doc_id", pa.string()), ("kind", pa.string()), ("language__lang", pa.string()), ("text_signals__n_words", pa.int64())])


def rule(predicate: str, when: str = "") -> Rule:
    return Rule("r", "id", "reason", predicate, when)


@pytest.fixture
def flat() -> FlatRules:
    return FlatRules(private_connection("100MB"), SCHEMA)


@pytest.mark.parametrize(
    ("given", "flat_sql", "columns"),
    [
        (rule("language.lang = 'en'"), "(language__lang = 'en')", ["language__lang"]),
        (rule('"Language".LANG IS NULL'), "(language__lang IS NULL)", ["language__lang"]),
        (rule("kind = 'text_signals.n_words'"), "(kind = 'text_signals.n_words')", ["kind"]),
        (
            rule("text_signals.n_words < 5", when="kind <> 'code'"),
            "((kind != 'code') AND (text_signals__n_words < 5))",
            ["kind", "text_signals__n_words"],
        ),
        (
            rule("CASE WHEN language.lang = 'zh' THEN text_signals__n_words ELSE 2 * text_signals.n_words END > 3"),
            "(CASE  WHEN ((language__lang = 'zh')) THEN (text_signals__n_words) ELSE (2 * text_signals__n_words) END > 3)",
            ["language__lang", "text_signals__n_words"],
        ),
    ],
)
def test_signals_are_named_as_they_are_stored(flat: FlatRules, given: Rule, flat_sql: str, columns: list[str]) -> None:
    assert (flat.predicate(given), flat.columns([given])) == (flat_sql, columns)


def test_the_variable_of_a_lambda_is_no_column(flat: FlatRules) -> None:
    assert flat.columns([rule("len(list_filter([1, 2], lambda lang: lang > text_signals.n_words)) > 0")]) == ["text_signals__n_words"]


def test_null_is_not_true_and_no_rules_drop_nothing() -> None:
    connection = private_connection("100MB")
    assert connection.execute(f"SELECT {any_of(['NULL', 'false'])}, {any_of(['NULL', 'true'])}, {any_of([])}").fetchall() == [
        (False, True, False)
    ]


def test_a_stream_numbers_the_rows_in_stored_order(project, put) -> None:  # type: ignore[no-untyped-def]
    ids = [f"{i:032x}" for i in range(40_000)]
    rows = {"doc_id": ids, "kind": ["k"] * 40_000, "language__lang": ["en"] * 40_000, "text_signals__n_words": list(range(40_000))}
    data = put("documents", pa.table(rows, schema=SCHEMA)).open()
    table = stream(data, ["text_signals__n_words", "doc_id"], place=True).read_all()
    assert table.to_pydict() == {"text_signals__n_words": list(range(40_000)), "doc_id": ids, "place": list(range(40_000))}


def test_a_rule_over_what_is_not_there_is_named() -> None:
    with pytest.raises(ParamsError, match=r"r\.reason.*n_wrods"):
        check([rule("text_signals.n_wrods < 5")], SCHEMA, "whatif")
