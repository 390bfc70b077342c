"""What the reference word rule knows: classes of characters, exceptions, units.

The facts are those of spaCy's blank English pipeline and of datatrove's filters, written down once by tests/kernels/make_word_tables.py,
so that signals depend on neither's installed version.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from dataplane.kernels.kept import kept
from dataplane.kernels.unicode import N_CODE_POINTS, U8

U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
KINDS = nb.types.Array(nb.uint16, 1, "C", readonly=True)
KEYS = nb.types.Array(nb.uint64, 1, "C", readonly=True)
CUTS = nb.types.Array(nb.int64, 1, "C", readonly=True)

# Bits of `word_classes()`.
ALPHABETIC = 1  # letters of the alphabets that spaCy knows
LOWER = 2  # of them those not in upper case
UPPER = 4  # of them those not in lower case
QUOTE = 8
PREFIX = 16  # is cut off in front of a word
SUFFIX = 32  # is cut off behind a word
ICON = 64  # is cut off wherever it stands
BEFORE_STOP = 128  # a full stop behind it is cut off
ACTIVE = 256  # can take part in a cut; a word without any is whole
SENTENCE_END = 512
SYMBOL = 1024  # a word of such alone is punctuation
LINE_END = 2048  # ends a line as FineWeb sees it
PUNCTUATION = 4096  # of a Unicode category P
CAPITAL = 8192  # upper or title case
SMALL = 16384  # lower case
INFIX = 32768  # may be cut out of a word

FACTS = "data/words_en.json"
MAX_EXCEPTION_CHARS = 12
# Bits of `shapes`.
IS_EXCEPTION, OPENS_EXCEPTION = 1, 2
SHAPES = 1 << 14
SLOTS = 1 << 12
PRIME = np.uint64(0x9E3779B185EBCA87)
SHIFT = np.uint64(32)
_INFIX_CHARS = "….+-*^,–—~:<>=/"
_SUFFIX_CHARS = "'’°"  # take part in suffixes of two characters


class WordTables(NamedTuple):
    """What `tokens.cut` takes.

    Attributes:
        kinds: uint16 [0x110000], bits by code point
        keys: uint64 [SLOTS], hash of each exception, 0 where the place is empty
        cuts: int64 [2 * SLOTS], where the exception ends words, as bits by character; then the same without exceptions, 0 where nothing
            cuts
        units: uint64, hashes of what is cut off behind a digit; 0 is the last
        shapes: uint8 [SHAPES], bits by `shape`: whether exceptions are of that shape, and whether such begin so as affixes cut
    """

    kinds: U16
    keys: U64
    cuts: I64
    units: U64
    shapes: U8


@lru_cache
def word_tables() -> WordTables:
    """The tables, read-only."""
    facts = _facts()
    keys, cuts = _exceptions(facts["exceptions"])
    units = np.array([*sorted({hash_of(unit) for unit in (*facts["currencies"], *facts["units"])}), 0], np.uint64)
    tables = WordTables(_kinds(), keys, cuts, units, _shapes(facts["exceptions"]))
    for table in tables:
        table.flags.writeable = False
    return tables


def hash_of(word: str) -> int:
    """The hash by which the kernels know a word: h = P, then for each code point h = (h xor c) * P, h = h xor (h >> 32)."""
    h = int(PRIME)
    for char in word:
        h = ((h ^ ord(char)) * int(PRIME)) & 0xFFFFFFFFFFFFFFFF
        h ^= h >> 32
    return h


@lru_cache
def _facts() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(files("dataplane.kernels").joinpath(FACTS).read_text(encoding="utf-8"))
    return facts


@kept(FACTS)
def _kinds() -> U16:
    facts, kinds = _facts(), np.zeros(N_CODE_POINTS, np.uint16)
    named = {
        "alpha": ALPHABETIC, "lower": LOWER, "upper": UPPER, "quote": QUOTE, "prefix": PREFIX | ACTIVE, "suffix": SUFFIX | ACTIVE,
        "icon": ICON | INFIX | PREFIX | SUFFIX | ACTIVE, "before_stop": BEFORE_STOP, "sentence_end": SENTENCE_END, "symbol": SYMBOL,
        "line_end": LINE_END,
    }  # fmt: skip
    for name, bits in named.items():
        for first, last in facts[name]:
            kinds[first : last + 1] |= bits
    kinds[[ord(char) for char in _INFIX_CHARS]] |= INFIX | ACTIVE
    kinds[[ord(char) for char in _SUFFIX_CHARS]] |= ACTIVE
    for code in range(0x20000):
        kinds[code] |= _unicode_bits(chr(code))
    return kinds


def _unicode_bits(char: str) -> int:
    if char.islower():
        return SMALL
    if char.isupper() or char.istitle():
        return CAPITAL
    return PUNCTUATION if unicodedata.category(char)[0] == "P" else 0


def _exceptions(exceptions: Mapping[str, Sequence[Sequence[int]]]) -> tuple[U64, I64]:
    keys, cuts = np.zeros(SLOTS, np.uint64), np.zeros(2 * SLOTS, np.int64)
    for orth, (parts, plain) in exceptions.items():
        key = hash_of(orth)
        at = key & (SLOTS - 1)
        while keys[at]:
            at = (at + 1) & (SLOTS - 1)
        keys[at] = key
        cuts[2 * at], cuts[2 * at + 1] = _mask(parts), _mask(plain)
    return keys, cuts


@nb.njit(nb.int64(nb.int64, nb.int64, nb.int64), cache=True, nogil=True, forceinline=True)
def shape(first, length, other):  # type: ignore[no-untyped-def]
    """Place in `shapes` of a word by its first character, length and last one, or of two by what the second begins with."""
    return (first + 61 * length + 257 * other) & (SHAPES - 1)


def _shapes(exceptions: Mapping[str, Sequence[Sequence[int]]]) -> U8:
    shapes = np.zeros(SHAPES, np.uint8)
    for orth, (_, plain) in exceptions.items():
        shapes[shape(ord(orth[0]), len(orth), ord(orth[-1]))] |= IS_EXCEPTION
        if len(plain) > 1:
            shapes[shape(ord(orth[0]), plain[0], ord(orth[plain[0]]))] |= OPENS_EXCEPTION
    return shapes


def _mask(lengths: Iterable[int]) -> int:
    """Bits where words end."""
    ends = np.cumsum([0, *lengths])[1:]
    return sum(1 << int(end) for end in ends)
