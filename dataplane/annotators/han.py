"""Tells Simplified Chinese, Traditional Chinese and Japanese apart by their characters.

Each national standard lists the characters of its script, the frequent ones first: GB 2312 (1980) Simplified, Big5 (1984)
Traditional, JIS X 0208 (1990) Japanese. A text is in the script whose standard explains its characters best. The lists are those of
Python's codecs, so there is no data to carry. Names are those of ISO 15924: Hans, Hant, Jpan, and Hani where nothing tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

SCRIPTS = ("Hans", "Hant", "Jpan")
UNTOLD = "Hani"
# Of each standard: codec, and the lead bytes of its frequent and of its other characters.
STANDARDS = (
    ("gb2312", range(0xB0, 0xD8), range(0xD8, 0xF8)),
    ("big5", range(0xA4, 0xC7), range(0xC9, 0xFA)),
    ("euc_jp", range(0xB0, 0xD0), range(0xD0, 0xF5)),
)
# Log-likelihoods in nats, relative to a frequent character.
RARE, FOREIGN = -3.0, -8.0
MIN_MARGIN = 4.0  # nats by which the best script must lead: one character that is rare in the other and a half
KANA_SHARE = 0.1  # of kana and Han; Japanese has a third and more, Chinese at most a quoted name
_KANA, _HAN, _HANGUL = 1, 2, 4
_RANGES = ((0x3041, 0x3096, _KANA), (0x30A1, 0x30FA, _KANA), (0x3400, 0x4DBF, _HAN), (0x4E00, 0x9FFF, _HAN), (0xAC00, 0xD7A3, _HANGUL))
BMP = 1 << 16


def scripts(texts: Sequence[str]) -> list[str | None]:
    """Script of each text; None where neither Han nor kana is there, or where Hangul outweighs them."""
    joined = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds()[np.minimum(joined, BMP - 1)]
    places = np.flatnonzero(kinds)  # most text has none of them, and what follows costs nothing there
    ends = np.searchsorted(places, np.cumsum([0, *map(len, texts)]))
    codes, kinds = joined[places], kinds[places]
    tables = _log_likelihoods()
    return [_script(codes[a:b], kinds[a:b], tables) if b > a else None for a, b in pairwise(ends)]


def _script(codes: npt.NDArray[np.uint32], kinds: npt.NDArray[np.uint8], tables: npt.NDArray[np.float32]) -> str | None:
    kana, hangul = int((kinds == _KANA).sum()), int((kinds == _HANGUL).sum())
    han = len(kinds) - kana - hangul
    if hangul > han + kana:
        return None
    if kana >= KANA_SHARE * (kana + han):
        return "Jpan"
    scores = tables[:, codes[kinds == _HAN]].sum(axis=1)
    order = np.argsort(scores)
    return SCRIPTS[order[-1]] if scores[order[-1]] - scores[order[-2]] >= MIN_MARGIN else UNTOLD


@lru_cache
def _kinds() -> npt.NDArray[np.uint8]:
    """Kind of each code point: uint8 [65536]."""
    table = np.zeros(BMP, np.uint8)
    for first, last, kind in _RANGES:
        table[first : last + 1] = kind
    return table


@lru_cache
def _log_likelihoods() -> npt.NDArray[np.float32]:
    """Of each Han character in each script: float32 [3, 65536], nats."""
    table = np.full((len(SCRIPTS), BMP), FOREIGN, np.float32)
    for row, (codec, frequent, others) in enumerate(STANDARDS):
        for leads, value in ((others, RARE), (frequent, 0.0)):
            table[row, [ord(char) for lead in leads for char in _characters(codec, lead)]] = value
    return table


def _characters(codec: str, lead: int) -> str:
    """The characters that a standard writes with this first byte."""
    pairs = (bytes((lead, trail)).decode(codec, "ignore") for trail in range(0x40, 0xFF))
    return "".join(char for char in pairs if len(char) == 1 and ord(char) < BMP and ord(char) >= 0x3400)
