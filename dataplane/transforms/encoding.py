"""Repairs text that was decoded wrongly somewhere on its way, and takes out characters that are not text.

Mojibake is ftfy's to repair; a prefilter over the bytes finds the documents in which it could change anything, since clean
text is nearly all there is and ftfy reads about 1 MB/s.

Source: ftfy 6.3, https://ftfy.readthedocs.io; its own test for badness looks for runs that hold at least one character of
U+0080-U+024F or of the symbols that single-byte code pages map high bytes to.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from dataplane.operator import Rewrite, Transform
from dataplane.params import Params as BaseParams

# C0 and C1 controls but tab and newline (carriage returns are line ends), and noncharacters.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
# Zero-width space, word joiner, BOM, bidi controls, invisible operators, soft hyphen. Not ZWJ and ZWNJ: emoji, Persian and
# Indic scripts need them.
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")
_NEWLINE = re.compile("\r\n?|\u2028|\u2029|\x85")
# UTF-8 read as a single-byte code page begins with what the bytes C2-F4 become, followed by what 80-BF become. In every
# code page that ftfy tries those are letters of U+00A0-U+05FF or symbols of U+2000-U+25FF and a few more.
_SUSPECT = re.compile("[\u0080-\u024f\u02c6-\u02dd\u0370-\u05ff][\u0080-\u02dd\u0370-\u05ff\u2010-\u25ff\uf8ff\ufb01\ufb02 ]")
_PLAIN = r"^[\x09\x0a\x20-\x7e]*$"


class EncodingRepair(Transform):
    """Repairs mojibake, drops control and invisible characters, makes line ends \\n and the text NFC."""

    name, version = "encoding_repair", "1"
    reads = {"text": pa.large_string()}
    edits = ("mojibake", "newline", "control", "invisible", "nfc")

    class Params(BaseParams):
        """What is repaired."""

        mojibake: bool = Field(True, description="Whether text decoded with the wrong charset is repaired.")
        control: bool = Field(True, description="Whether control characters are taken out.")
        invisible: bool = Field(True, description="Whether zero-width, bidi and soft-hyphen characters are taken out.")
        nfc: bool = Field(True, description="Whether the text is composed to Unicode NFC.")

    def transform(self, batch: pa.RecordBatch) -> Rewrite:
        """New text, and counts by kind; text that is plain ASCII is not looked at further."""
        text = batch.column("text")
        counts = {kind: [0] * len(batch) for kind in self.edits}
        plain = pc.match_substring_regex(text, _PLAIN).to_pylist()
        if all(plain):
            return Rewrite(text, _arrays(counts))
        values = text.to_pylist()
        for i, value in enumerate(values):
            if not plain[i]:
                values[i] = self._repair(value, i, counts)
        return Rewrite(pa.array(values, pa.large_string()), _arrays(counts))

    def _repair(self, text: str, row: int, counts: dict[str, list[int]]) -> str:
        if self.params.mojibake:
            fixed = repair_mojibake(text)
            counts["mojibake"][row] = int(fixed != text)
            text = fixed
        text = _count(_NEWLINE, "\n", text, counts["newline"], row)
        if self.params.control:
            text = _count(_CONTROL, "", text, counts["control"], row)
        if self.params.invisible:
            text = _count(_INVISIBLE, "", text, counts["invisible"], row)
        if self.params.nfc and not unicodedata.is_normalized("NFC", text):
            text = unicodedata.normalize("NFC", text)
            counts["nfc"][row] = 1
        return text


def _arrays(counts: dict[str, list[int]]) -> dict[str, pa.Array]:
    return {kind: pa.array(values, pa.int32()) for kind, values in counts.items()}


def _count(pattern: re.Pattern[str], replacement: str, text: str, counts: list[int], row: int) -> str:
    text, counts[row] = pattern.subn(replacement, text)
    return text


def repair_mojibake(text: str) -> str:
    """What `ftfy.fix_encoding` makes of a text; found unchanged by the prefilter where that can be told."""
    if not _SUSPECT.search(text):
        return text
    import ftfy

    fix: Callable[[str], str] = ftfy.fix_encoding
    return fix(text)
