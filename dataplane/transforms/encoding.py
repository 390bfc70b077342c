"""Repairs text that was decoded wrongly somewhere on its way, and takes out characters that are not text.

Mojibake is ftfy's to repair, line by line as `ftfy.fix_text` does. It reads 1-4 MB/s, and clean text is nearly all there is, so
ftfy's own test for badness runs first, over whole batches in RE2.

Source: ftfy 6.3, https://ftfy.readthedocs.io (heuristic of ftfy.badness).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams

# RE2 patterns over whole columns.
# C0 and C1 controls but tab and newline (carriage returns and NEL are line ends), and noncharacters.
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\x{fdd0}-\x{fdef}\x{fffe}\x{ffff}]"
# Soft hyphen, zero-width space, word joiner, invisible operators, BOM. Not ZWJ and ZWNJ: emoji, Persian and Indic scripts need them.
_ZERO_WIDTH = r"[\x{ad}\x{200b}\x{2060}-\x{2064}\x{feff}]"
# Marks, embeddings, overrides and isolates of direction, and the deprecated format characters beside them.
_BIDI = r"[\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{206f}]"
_PRIVATE_USE = r"[\x{e000}-\x{f8ff}\x{f0000}-\x{ffffd}\x{100000}-\x{10fffd}]"
# Full-width letters and digits, half-width Katakana with its voice marks. Not punctuation: full width is right in Chinese.
_WIDTH = r"[\x{ff10}-\x{ff19}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{ff66}-\x{ff9f}]"
_WIDTH_RUN = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f]+")
_NEWLINE = r"\r\n?|[\x{85}\x{2028}\x{2029}]"
# Normalisation sorts a run of combining marks by insertion, a million of them in an hour; longer runs than this are sorted before.
_LONG_RUN_MARKS = 1000
_NON_ASCII = r"[^\x00-\x7f]"
_REPLACED = {
    "newline": (_NEWLINE, "\n"), "control": (_CONTROL, ""), "zero_width": (_ZERO_WIDTH, ""), "bidi": (_BIDI, ""),
    "private_use": (_PRIVATE_USE, ""),
}  # fmt: skip
# One token of a verbose pattern: a comment, an escape, a character class, white space, or anything else.
_VERBOSE = re.compile(r"#[^\n]*|\\.|\[(?:\\.|[^\]\\])*\]|\s+|.", re.DOTALL)
# Unicode-aware in Python and ASCII in RE2: widened, since the first look may find too much and never too little.
_WIDENED = {r"\w": r"[\w\x{80}-\x{10ffff}]", r"\s": r"[\s\x{80}-\x{10ffff}]"}


class EncodingRepair(Transform):
    """Repairs mojibake, drops characters that are not text, makes line ends \\n and the text NFC.

    Edits: `mojibake` counts lines, `nfc` documents, the others characters (a line end of two counts once).
    """

    name, version = "encoding_repair", "3"
    reads = {"text": pa.large_string()}
    edits = ("mojibake", "newline", "control", "zero_width", "bidi", "private_use", "width", "nfc")

    class Params(BaseParams):
        """What is repaired."""

        mojibake: bool = Field(True, description="Whether text decoded with the wrong charset is repaired.")
        newline: bool = Field(True, description="Whether other line ends become \\n.")
        control: bool = Field(True, description="Whether control characters are taken out.")
        zero_width: bool = Field(True, description="Whether zero-width spaces, soft hyphens and the like are taken out.")
        bidi: bool = Field(True, description="Whether controls of writing direction are taken out.")
        private_use: bool = Field(True, description="Whether characters of private use (icon fonts) are taken out.")
        width: bool = Field(False, description="Whether full-width letters and digits and half-width Katakana get their usual width.")
        nfc: bool = Field(True, description="Whether the text is composed to Unicode NFC.")

    def open(self) -> None:
        """Prepares ftfy."""
        from ftfy import TextFixerConfig
        from ftfy.badness import BADNESS_RE

        self._bad = verbose_to_re2(BADNESS_RE.pattern)
        self._config = TextFixerConfig(
            unescape_html=False,
            remove_terminal_escapes=False,
            fix_latin_ligatures=False,
            fix_character_width=False,
            uncurl_quotes=False,
            fix_line_breaks=False,
            fix_surrogates=False,
            remove_control_chars=False,
            normalization=None,
            explain=False,
        )

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text, and counts by kind."""
        text = batch.column("text")
        counts = {kind: _zeros(len(batch)) for kind in self.edits}
        # Mojibake first: its bytes read as controls and line ends until they are put right.
        if self.params.mojibake:
            text, counts["mojibake"] = _where(text, self._bad, self._repair)
        for kind, (pattern, replacement) in _REPLACED.items():
            if getattr(self.params, kind):
                text, counts[kind] = _replaced(text, pattern, replacement)
        if self.params.width:
            text, counts["width"] = _where(text, _WIDTH, _usual_width)
        if self.params.nfc:
            text, counts["nfc"] = _where(text, _NON_ASCII, _composed)
        return Rewrite(text, counts)

    def _repair(self, text: str) -> tuple[str, int]:
        from ftfy import fix_text

        before = text.split("\n")
        after = [line if line.isascii() else fix_text(line, self._config) for line in before]
        changed = sum(old != new for old, new in zip(before, after, strict=True))
        return ("\n".join(after), changed) if changed else (text, 0)


def verbose_to_re2(pattern: str) -> str:
    """A verbose Python pattern as RE2, such that it matches wherever the original does (and sometimes elsewhere)."""
    kept = []
    for token in _VERBOSE.findall(pattern):
        if not token.isspace() and not token.startswith("#"):
            kept.append(_WIDENED.get(token, token))
    return f"(?m){''.join(kept)}"


def _zeros(n: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int32()), n)


def _replaced(text: pa.Array, pattern: str, replacement: str) -> tuple[pa.Array, pa.Array]:
    found = pc.match_substring_regex(text, pattern)
    if not pc.any(found).as_py():
        return text, _zeros(len(text))
    rows = text.filter(found)  # finding is ten times as fast as counting
    counts = pc.count_substring_regex(rows, pattern).cast(pa.int32())
    return (
        pc.replace_with_mask(text, found, pc.replace_substring_regex(rows, pattern, replacement)),
        pc.replace_with_mask(_zeros(len(text)), found, counts),
    )


def _where(text: pa.Array, pattern: str, edit: Callable[[str], tuple[str, int]]) -> tuple[pa.Array, pa.Array]:
    """Edits the rows that the pattern is found in, and counts."""
    found = pc.match_substring_regex(text, pattern)
    rows = pc.indices_nonzero(found).to_pylist()
    counts = [0] * len(text)
    changed: dict[int, Any] = {}
    for row, value in zip(rows, text.filter(found).to_pylist(), strict=True):
        new, counts[row] = edit(value)
        if counts[row]:
            changed[row] = new
    if changed:
        mask = pa.array([row in changed for row in range(len(text))])
        text = pc.replace_with_mask(text, mask, pa.array(list(changed.values()), text.type))
    return text, pa.array(counts, pa.int32())


def _usual_width(text: str) -> tuple[str, int]:
    """Compatibility forms by run, so that a half-width voice mark joins its letter; counts characters."""
    count = sum(len(run[0]) for run in _WIDTH_RUN.finditer(text))
    return _WIDTH_RUN.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text), count


def _composed(text: str) -> tuple[str, int]:
    # A run that long holds one of the characters that are so far apart.
    held = len(text) >= _LONG_RUN_MARKS and not _marks().isdisjoint(text[:: _LONG_RUN_MARKS // 2])
    ordered = re.sub(f"[{''.join(sorted(_marks()))}]{{{_LONG_RUN_MARKS},}}", _in_canonical_order, text) if held else text
    if ordered == text and unicodedata.is_normalized("NFC", text):
        return text, 0
    composed = unicodedata.normalize("NFC", ordered)
    return composed, int(composed != text)


@cache
def _marks() -> frozenset[str]:
    """The characters that are combining marks, or decompose into nothing else."""
    return frozenset(char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.combining(unicodedata.normalize("NFD", char)[0]))


def _in_canonical_order(run: re.Match[str]) -> str:
    """The same marks, decomposed, by combining class. Source: Unicode Standard, 3.11, D109."""
    marks = "".join(unicodedata.normalize("NFD", mark) for mark in run[0])
    return "".join(sorted(marks, key=unicodedata.combining))
