"""How much of a document is maths and tables: formulas in LaTeX, mathematical characters, rows of Markdown, HTML and tabs.

Source: Pandoc's manual, tex_math_dollars, for what a dollar sign opens and closes; GitHub Flavored Markdown, section 4.10, for tables;
Unicode 15, UnicodeData.txt, category Sm and the blocks of mathematical alphanumerics, superscripts and subscripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from dataplane.operator import Annotator

MAX_INLINE_CHARS = 1_000  # a formula in a line of text; two dollar signs further apart are prices
MAX_DISPLAY_CHARS = 20_000
_ENVIRONMENTS = "equation|align|alignat|flalign|gather|multline|eqnarray|displaymath|math"
# Everything that opens, closes or breaks a formula, and what is escaped.
_MARK = re.compile(r"\\\\|\\\$|\\[\[\]()]|\\(?P<edge>begin|end)\{(?P<name>(?:" + _ENVIRONMENTS + r")\*?)\}|\$\$?|(?P<break>\n[ \t]*\n)")
_CLOSERS = {"\\(": "\\)", "\\[": "\\]", "$": "$", "$$": "$$"}
_DISPLAY_OPENERS = frozenset({"\\[", "$$"})
_DELIMITER_ROW = re.compile(r"[ \t]{0,3}\|?(?:[ \t]*:?-+:?[ \t]*\|)*[ \t]*:?-+:?[ \t]*\|?[ \t]*")
_UNESCAPED_PIPE = re.compile(r"(?<!\\)\|")
_HTML_TABLE = re.compile(r"<table[\s>]", re.IGNORECASE)
_HTML_ROW = re.compile(r"<tr[\s>]", re.IGNORECASE)
_HTML_TABLE_LINE = re.compile(r"</?(?:table|thead|tbody|tfoot|tr|t[dh])[\s>]", re.IGNORECASE)
_LATEX_TABLE = "\\begin{tabular"
MIN_TABBED_LINES = 3  # fewer lines with tabs are an indent or a list


class Structure(Annotator):
    """Measures maths and tables."""

    name, version = "structure", "1"
    reads = {"text": pa.large_string()}
    writes = {
        "maths_share": pa.float32(), "n_inline_formulas": pa.int32(), "n_display_formulas": pa.int32(), "maths_char_share": pa.float32(),
        "n_tables": pa.int32(), "n_table_rows": pa.int32(), "table_line_share": pa.float32(),
    }  # fmt: skip

    def annotate(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Signals of each text; shares of nothing are 0."""
        rows = [measures(text) for text in batch.column("text").to_pylist()]
        return {name: pa.array([row[name] for row in rows], kind) for name, kind in self.writes.items()}


def measures(text: str) -> dict[str, Any]:
    """The signals of one text."""
    found = list(formulas(text))
    n_chars = max(1, len(text))
    lines = text.split("\n")
    tables, rows, table_lines = _tables(lines)
    return {
        "maths_share": sum(end - start for start, end, _ in found) / n_chars,
        "n_inline_formulas": sum(not is_display for _, _, is_display in found),
        "n_display_formulas": sum(is_display for _, _, is_display in found),
        "maths_char_share": len(_maths_characters().findall(text)) / n_chars,
        "n_tables": tables + len(_HTML_TABLE.findall(text)) + text.count(_LATEX_TABLE),
        "n_table_rows": rows + len(_HTML_ROW.findall(text)),
        "table_line_share": table_lines / max(1, sum(not line.isspace() and line != "" for line in lines)),
    }


def formulas(text: str) -> Iterator[tuple[int, int, bool]]:
    """Start, end (delimiters included) and whether it is displayed, of each LaTeX formula.

    A formula ends with the mark that answers its opening one; where another opens first, or an inline formula meets an empty line or
    grows too long, the first was none. A dollar sign opens before what is no space and closes after what is no space and before no digit.
    """
    start, opener = 0, ""
    for mark in _MARK.finditer(text):
        what = mark[0] if mark["edge"] is None else mark["name"]
        if mark["break"] is not None:
            opener = "" if opener in ("$", "\\(") else opener
        elif opener and _closes(text, mark, opener) and mark.end() - start <= _limit(opener):
            if mark.start() > start + len(opener) or opener[0] not in "$\\":
                yield start, mark.end(), opener not in ("$", "\\(", "math")
            opener = ""
        elif (not opener or _limit(opener) == MAX_INLINE_CHARS or mark.end() - start > MAX_DISPLAY_CHARS) and _opens(text, mark):
            start, opener = mark.start(), what
        elif opener == "$" and what.startswith("$"):
            opener = ""


def _limit(opener: str) -> int:
    return MAX_INLINE_CHARS if opener in ("$", "\\(") else MAX_DISPLAY_CHARS


def _opens(text: str, mark: re.Match[str]) -> bool:
    if mark["edge"] is not None:
        return mark["edge"] == "begin"
    if mark[0] == "$":
        before, after = text[mark.start() - 1 : mark.start()], text[mark.end() : mark.end() + 1]
        return not before.isdigit() and after != "" and not after.isspace()
    return mark[0] in _CLOSERS


def _closes(text: str, mark: re.Match[str], opener: str) -> bool:
    if mark["edge"] is not None:
        return mark["edge"] == "end" and mark["name"] == opener
    if mark[0] == "$" == opener:
        return not text[mark.start() - 1].isspace() and not text[mark.end() : mark.end() + 1].isdigit()
    return mark[0] == _CLOSERS.get(opener)


@lru_cache
def _maths_characters() -> re.Pattern[str]:
    """Signs of maths outside ASCII, where + and < are signs of everything."""
    import sys
    import unicodedata

    alphabets = "\U0001d400-\U0001d7ff⁰ⁱ⁴-ₜ²³¹ℂℍℕℙℚℝℤℵℏ"
    signs = [chr(code) for code in range(0x80, sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Sm"]
    return re.compile(f"[{alphabets}{''.join(map(re.escape, signs))}]")


def _tables(lines: Sequence[str]) -> tuple[int, int, int]:
    """Tables, their rows (delimiters are none), and the lines they take, in Markdown, of tabs, and the lines of HTML tables."""
    tables = rows = taken = i = 0
    while i < len(lines):
        markdown = _markdown_lines(lines, i)
        length = markdown or _tabbed_lines(lines, i)
        if length:
            tables, rows, taken = tables + 1, rows + length - bool(markdown), taken + length
            i += length
            continue
        taken += "<" in lines[i] and _HTML_TABLE_LINE.search(lines[i]) is not None
        i += 1
    return tables, rows, taken


def _markdown_lines(lines: Sequence[str], i: int) -> int:
    """Lines of the Markdown table that starts here; 0 where none does."""
    if i + 1 >= len(lines) or "|" not in lines[i] or "-" not in lines[i + 1]:
        return 0
    if not _DELIMITER_ROW.fullmatch(lines[i + 1].rstrip("\r")) or _n_cells(lines[i]) != _n_cells(lines[i + 1]):
        return 0
    end = i + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return end - i


def _n_cells(line: str) -> int:
    return len(_UNESCAPED_PIPE.findall(line.strip().removeprefix("|").removesuffix("|"))) + 1


def _tabbed_lines(lines: Sequence[str], i: int) -> int:
    """Lines from here on with the same number of inner tabs; 0 where they are too few to be a table."""
    n_tabs = lines[i].strip().count("\t")
    end = i
    while n_tabs and end < len(lines) and lines[end].strip().count("\t") == n_tabs:
        end += 1
    return end - i if end - i >= MIN_TABBED_LINES else 0
