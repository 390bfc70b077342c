"""Formulas and tables are those that markdown-it finds; signs of maths are those of Unicode."""

import re
import sys
import time
import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from dataplane.annotators.structure import Structure, formulas, measures
from dataplane.registry import operator_class
from dataplane.testing import Example, conformance


def found(text: str) -> list[tuple[str, bool]]:
    return [(text[start:end], is_display) for start, end, is_display in formulas(text)]


def test_it_is_registered_and_conforms() -> None:
    assert operator_class("structure") is Structure
    conformance(Structure, examples=[Example("$x$ and $$y$$"), Example("a|b\n-|-\n1|2"), Example("中文 ∑ ≤"), Example("")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Let $x_1$ be $y$.", [("$x_1$", False), ("$y$", False)]),
        ("It costs $5 or $10, not $ 3.", []),
        ("from 3$ to 4$", []),
        ("a \\$x$ b", []),
        (r"\(a\) and \[b\]", [(r"\(a\)", False), (r"\[b\]", True)]),
        ("$$\nx = 1\n$$", [("$$\nx = 1\n$$", True)]),
        ("\\begin{align*}\na &= b \\\\[4pt]\n\\end{align*}", [("\\begin{align*}\na &= b \\\\[4pt]\n\\end{align*}", True)]),
        ("\\begin{math}x\\end{math}", [("\\begin{math}x\\end{math}", False)]),
        (
            "\\begin{equation}\nx = 1 \\text{ if $y$}\n\\end{equation}",
            [("\\begin{equation}\nx = 1 \\text{ if $y$}\n\\end{equation}", True)],
        ),
        ("\\begin{align}x\\end{equation}", []),
        ("open $x and\n\nthen $y$", [("$y$", False)]),
        ("the $x is $y$", [("$y$", False)]),
        ("$" + "x" * 2000 + "$", []),
        ("$$$$ $$", []),
        (r"\[ never closed, $a$", []),
        ("能量 $E=mc^2$ 守恒", [("$E=mc^2$", False)]),
    ],
)
def test_formulas_are_found(text: str, expected: list[tuple[str, bool]]) -> None:
    assert found(text) == expected


PIECES = st.sampled_from(["$", "a", "x^2", " ", "5", "\\$", ",", " word ", "b+c"])
READER = MarkdownIt("zero").use(dollarmath_plugin, allow_space=False, allow_digits=False)


# At the start of a text the plugin looks at its last character for the one before.
@given(st.lists(PIECES, max_size=14).map(lambda pieces: "a " + "".join(pieces)))
def test_inline_formulas_are_those_of_markdown_it(text: str) -> None:
    assume("$$" not in text and text == text.strip())
    inline = [child for token in READER.parse(text) for child in token.children or () if child.type == "math_inline"]
    assert found(text) == [(f"${child.content}$", False) for child in inline]


CELLS = st.lists(st.sampled_from(["a", "1", "x y", "\\|", "中"]), min_size=1, max_size=3)
ROWS = CELLS.map(lambda cells: "| " + " | ".join(cells) + " |")
DELIMITERS = st.integers(1, 3).map(lambda n: "|" + "|".join([" :-- ", " --- ", "-:"][:n]) + "|")
BLOCKS = st.lists(st.one_of(ROWS, DELIMITERS, st.sampled_from(["", "text", "a | b", "--- | ---"])), max_size=12).map("\n".join)


@given(BLOCKS)
def test_tables_are_those_of_markdown_it(text: str) -> None:
    tokens: list[Any] = MarkdownIt("zero").enable("table").parse(text)
    # A line without a bar is a row to GFM; prose that follows a table is not, to us.
    assume(not re.search(r"(?:\||b|---)\ntext", text))
    expected = [sum(token.type == kind for token in tokens) for kind in ("table_open", "tr_open")]
    assert [measures(text)[name] for name in ("n_tables", "n_table_rows")] == expected


@pytest.mark.parametrize(
    ("text", "tables", "rows", "share"),
    [
        ("a\tb\n1\t2\n3\t4\n\nprose", 1, 3, 3 / 4),
        ("a\tb\n1\t2\nprose", 0, 0, 0.0),
        ("\tindented\n\tindented\n\tindented", 0, 0, 0.0),
        ("<table>\n<tr><td>1</td></tr>\n</table>", 1, 1, 1.0),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nprose", 1, 3, 4 / 5),
        ("\\begin{tabular}{ll}\n1 & 2\n\\end{tabular}", 1, 0, 0.0),
        ("a | b, or not", 0, 0, 0.0),
    ],
)
def test_tables_are_counted(text: str, tables: int, rows: int, share: float) -> None:
    signals = measures(text)
    assert (signals["n_tables"], signals["n_table_rows"], signals["table_line_share"]) == (tables, rows, share)


def test_signs_of_maths_are_those_of_unicode() -> None:
    signs = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000 and unicodedata.category(chr(code)) == "Sm"]
    beyond_ascii = [sign for sign in signs if not sign.isascii()]
    assert measures("".join(beyond_ascii))["maths_char_share"] == 1.0
    assert measures("+<=>|~ abc 中文")["maths_char_share"] == 0.0
    assert measures("𝑥²ℝ∑")["maths_char_share"] == 1.0


def test_shares_are_of_the_characters() -> None:
    assert measures("ab $x$ cd")["maths_share"] == 3 / 9


HOSTILE = (
    "$",
    "$a ",
    "$$",
    "\\[",
    "\\(",
    "\\begin{math}",
    "\\begin{align}x",
    "|",
    "|-|\n",
    "a|b\n-|-\n",
    "\t",
    "a\tb\n",
    "<tr",
    "\\\\",
    "\n \n",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_is_linear(piece: str) -> None:
    start = time.perf_counter()
    measures(piece * (1_000_000 // len(piece)))
    assert time.perf_counter() - start < 5
