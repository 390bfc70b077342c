"""How the recognisers of personal data see a text, and how they tell what a number beside a word is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

Found = Iterator[tuple[int, int]]

CONTEXT_CHARS, AFTER_CHARS = 48, 32
# Full-width ASCII variants U+FF01-U+FF5E lie 0xFEE0 above their twins; spaces and dashes of typesetters stand for plain ones.
_NARROW = (
    {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys((0xA0, 0x202F, 0x3000), " ")
    | dict.fromkeys(range(0x2010, 0x2016), "-")
)
_WIDE = re.compile("[０-９Ａ-Ｚａ-ｚ＠]|[（＋－\xa0\u202f\u3000\u2010-\u2015][0-9]")
# Thai to Lao, Burmese, Khmer, CJK with kana, Hangul, and the planes of rarer CJK.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")
_STOP = "。"  # no word character, and no ASCII dot, which would join what stands on both sides
_BARE_CHARS = 48


@dataclass(frozen=True)
class Look:
    """A text, or a part of one, in two spellings of the same length.

    Attributes:
        seen: Full-width characters are ASCII, and characters of scripts that put no space around numbers are full stops: so there is
            a border between "电话" and a digit. Numbers are read here.
        said: Full-width characters are ASCII. Words are read here.
        bare: Whether it is a whole document that has no room for more than a number.
    """

    seen: str
    said: str
    bare: bool = False

    @classmethod
    def at(cls, text: str, start: int, stop: int) -> Look:
        """A text from one code point to before another."""
        part = text[start:stop]
        said = narrow(part)
        return cls(said if part.isascii() else _UNSPACED.sub(_STOP, said), said, len(part) == len(text) <= _BARE_CHARS)

    def alone(self, start: int, stop: int) -> bool:
        """Whether the document is nothing but this place: there is no word that could name it, and nothing is lost with it."""
        return self.bare and not self.said[:start].strip() and not self.said[stop:].strip()

    def near(self, word: re.Pattern[str], start: int, stop: int) -> bool:
        """Whether a word stands shortly before the place, or just behind it, on the same line."""
        before = self.said[max(0, start - CONTEXT_CHARS) : start].rpartition("\n")[2]
        after = self.said[stop : stop + AFTER_CHARS].partition("\n")[0]
        return word.search(before) is not None or word.search(after) is not None

    def before(self, start: int) -> str:
        """What stands before a place."""
        return self.said[max(0, start - CONTEXT_CHARS) : start]


def narrow(text: str) -> str:
    """The text with full-width ASCII variants as ASCII, of the same length."""
    # Translating is slow, and most full-width characters are punctuation of Chinese that no recogniser asks about.
    return text.translate(_NARROW) if not text.isascii() and _WIDE.search(text) else text
