"""Texts and numbers as the report writes them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.report.blocks import Column
from dataplane.report.writing import DASH, MAX_MARKS, byte_size, cell, plain, share, snippet

ANY_TEXT = st.text(alphabet=st.characters(), max_size=2000)


@given(ANY_TEXT)
def test_no_control_or_reordering_character_survives(text: str) -> None:
    shown = snippet(text)
    assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Cs", "Cn", "Co", "Zl", "Zp"} and c != "\n"]
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\ufeff")


@given(ANY_TEXT, st.integers(1, 400))
def test_a_text_never_exceeds_its_limit_and_can_be_encoded(text: str, limit: int) -> None:
    shown = plain(text, limit)
    assert len(shown) <= limit
    shown.encode("utf-8")


def test_a_huge_text_is_cut_in_bounded_time() -> None:
    assert snippet("a" * 50_000_000) == "a" * 299 + "…"
    assert len(snippet("\u0301" * 50_000_000)) <= 300


def test_piled_up_marks_are_cut() -> None:
    assert plain("a" + "\u0301" * 50 + "b") == "a" + "\u0301" * MAX_MARKS + "b"


def test_chinese_joiners_and_indentation_stay() -> None:
    assert snippet("def f():\n\treturn 1\n\n中文。می\u200cخواهم") == "def f():\n    return 1\n中文。می\u200cخواهم"


def test_a_label_is_one_line() -> None:
    assert plain(" a\r\n\tb \x00c\u2028d ") == "a b c d"


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1234567, "int", "1,234,567"),
        (1234.5678, "decimal", "1,234.568"),
        (None, "int", DASH),
        (float("nan"), "decimal", DASH),
        ("<b>", "int", DASH),
        ("a\x1b[31m", "text", "a[31m"),
    ],
)
def test_cells_are_written_by_their_column(value: object, kind: str, expected: str) -> None:
    assert cell(value, Column("c", kind)) == expected  # type: ignore[arg-type]


def test_sizes_and_shares() -> None:
    assert [byte_size(n).replace("\u202f", " ") for n in (0, 999, 1000, 12_345_678, 5e15)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "12.3 MB",
        "5,000.0 TB",
    ]
    assert [share(x).replace("\u202f", " ") for x in (0, 0.00013, 0.341, 1)] == ["0.0 %", "0.01 %", "34.1 %", "100.0 %"]
