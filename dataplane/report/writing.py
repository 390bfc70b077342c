"""How texts and numbers are written in the report. Every text that comes from data is hostile until `plain` saw it."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from dataplane.report.blocks import Column

MAX_SNIPPET_CHARS = 300
MAX_LABEL_CHARS = 120
TAB_CHARS = 4
# Marks on one letter: Indic and Thai letters carry up to four; more would paint over the lines around them.
MAX_MARKS = 4
DASH = "\u2013"
THIN_SPACE = "\u202f"
# Joiners shape Indic and Persian words; every other format character can reorder or hide what stands around it.
_JOINERS = frozenset("\u200c\u200d")
_STRIPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Me"})
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")


def plain(text: object, limit: int = MAX_LABEL_CHARS, *, keep_lines: bool = False) -> str:
    """A text without control, format and unassigned characters, cut to `limit` characters.

    Escaping for HTML is the template's task.

    Args:
        text: Anything; what is not a string is written out.
        limit: Most characters kept, the ellipsis included.
        keep_lines: Whether indented lines stay lines, without the empty ones; otherwise each run of white space becomes one space.
    """
    # Stripping only shortens, so a bounded prefix is enough, whatever the length of the text.
    head = str(text)[: 4 * limit + 64]
    cleaned = _without_controls(head)
    lines = (line.expandtabs(TAB_CHARS).rstrip() for line in cleaned.split("\n"))
    joined = "\n".join(line for line in lines if line) if keep_lines else " ".join(cleaned.split())
    cut = len(joined) > limit or len(str(text)) > len(head)
    return joined[: limit - 1].rstrip() + "…" if cut else joined


def snippet(text: object) -> str:
    """A sample's text as it is shown: at most 300 characters, lines kept."""
    return plain(text, MAX_SNIPPET_CHARS, keep_lines=True)


def _without_controls(text: str) -> str:
    kept, marks = [], 0
    for char in text.replace("\r\n", "\n").replace("\r", "\n"):
        category = unicodedata.category(char)
        marks = marks + 1 if category in _MARKS else 0
        if marks > MAX_MARKS:
            continue
        if char in "\n\t" or char in _JOINERS or category not in _STRIPPED:
            kept.append(char)
        elif category in {"Zl", "Zp"}:
            kept.append("\n")
    return "".join(kept)


def number(value: float | int, digits: int = 0) -> str:
    """A number with thousands separators; what is not finite is a dash."""
    if not math.isfinite(value):
        return DASH
    return f"{value:,.{digits}f}"


def share(value: float) -> str:
    """A share as percent, with more digits where it is small."""
    percent = 100 * value
    return f"{number(percent, 2 if 0 < abs(percent) < 1 else 1)}{THIN_SPACE}%"


def byte_size(value: float) -> str:
    """Bytes in decimal units."""
    unit = 0
    while abs(value) >= 1000 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{number(value, 1 if unit else 0)}{THIN_SPACE}{_BYTE_UNITS[unit]}"


def cell(value: Any, column: Column) -> str:
    """A cell as text, in the way of its column."""
    if value is None:
        return DASH
    if not column.numeric or column.kind == "figure":
        return plain(value)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return DASH
    if column.kind == "share":
        return share(value)
    if column.kind == "bytes":
        return byte_size(value)
    return number(value, column.digits if column.kind == "decimal" else 0)
