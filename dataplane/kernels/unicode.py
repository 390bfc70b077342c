"""What the kernels know about characters: UTF-8 decoding, character classes, and the fold that makes texts comparable.

The tables are arrays indexed by code point.
"""

from __future__ import annotations

import sys
import unicodedata

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.hashing import xxh64
from dataplane.kernels.kept import kept
from dataplane.kernels.pointers import U8P

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

N_CODE_POINTS = sys.maxunicode + 1
REPLACEMENT = 0xFFFD

# Arrow buffers that come from a file or another process are read-only; numba casts writable arrays to these types.
OCTETS = nb.types.Array(nb.uint8, 1, "C", readonly=True)
BOUNDS = nb.types.Array(nb.int64, 1, "C", readonly=True)
FOLDS = nb.types.Array(nb.int32, 1, "C", readonly=True)

# Bits of `classes()`.
WORD = 1  # letters, marks, numbers, connectors, joiners: what a run of word characters is made of
SOLID = 2  # letters and numbers: a word without one is all punctuation
ALPHA = 4  # letters, as str.isalpha
SPACE = 8  # white space, as str.isspace
CJK = 16  # Han, Kana, Bopomofo: written without spaces, so that each character counts as a word
DIGIT = 32  # decimal digits of any script
TERMINAL = 64  # ends a sentence, or closes a CJK quotation that does

# Penedo et al. 2024 (arXiv:2406.17557, section 3.6) counts stops, quotation marks not; CJK: also what closes a clause or quotation.
TERMINAL_PUNCTUATION = ".?!。！？；…」』｡．؟۔।॥։።‼⁇⁈⁉‽"

_JOINERS = "\u200c\u200d\u00ad"  # inside words: zero-width (non-)joiner, soft hyphen
_CJK_RANGES = (
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3041, 0x3096),  # Hiragana
    (0x309D, 0x309F),
    (0x30A1, 0x30FA),  # Katakana
    (0x30FC, 0x312F),  # its marks, Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han compatibility
    (0xFF66, 0xFF9D),  # half-width Katakana
    (0x1B000, 0x1B16F),  # Kana supplement
    (0x20000, 0x3FFFD),  # Han extensions B and later
)


@kept()
def classes() -> U8:
    """Class bits of each code point: uint8 [0x110000]."""
    table = np.zeros(N_CODE_POINTS, np.uint8)
    for code in range(0x20000):
        table[code] = _class_of(chr(code))
    table[0x20000:0x3FFFE] = WORD | SOLID | ALPHA  # planes 2 and 3 hold Han only, assigned or to come
    table[0xE0100:0xE01F0] = WORD  # variation selectors of Han
    for first, last in _CJK_RANGES:
        table[first : last + 1] |= CJK
    return table


def _class_of(char: str) -> int:
    category = unicodedata.category(char)
    bits = SPACE if char.isspace() else 0
    if category[0] in "LMN" or category == "Pc" or char in _JOINERS:
        bits |= WORD
    if category[0] in "LN":
        bits |= SOLID
    if category[0] == "L":
        bits |= ALPHA
    if category == "Nd":
        bits |= DIGIT
    if char in TERMINAL_PUNCTUATION:
        bits |= TERMINAL
    return bits


# Soft hyphen, zero-width space and no-break space, and the half-width voicing marks, whatever category they once had.
_INVISIBLE = frozenset({0x00AD, 0x200B, 0x2060, 0xFEFF, 0xFF9E, 0xFF9F})
_SYMBOL_BLOCKS = ((0x2000, 0x206F), (0x20A0, 0x20CF), (0x2190, 0x2BFF), (0x2E00, 0x2E7F), (0x1F000, 0x1FBFF))


@kept()
def fold_table() -> I32:
    """What each code point becomes when texts are compared: int32 [0x110000], 0 where it separates words.

    Compatibility forms are taken (full width to half width, ligatures by their first letter), accents and the voicing marks
    of Kana stripped, letters in lower case; marks and invisible characters are left out (-1); white space, punctuation and
    symbols separate. Only characters of Unicode 3.2 are folded, by that version's own data; later ones stand for
    themselves, but for those in blocks of symbols. The fold therefore never changes with Python, and signatures made from
    it can be stored for ever.
    """
    table = np.arange(N_CODE_POINTS, dtype=np.int32)
    for code in range(0x20000):
        table[code] = _fold_of(chr(code))
    for code in range(0x2F800, 0x2FA1E):  # Han compatibility supplement: one-to-one
        table[code] = _fold_of(chr(code))
    table[0xE0000:] = -1  # tags, variation selectors and private planes carry no text
    return table


def _fold_of(char: str) -> int:
    frozen = unicodedata.ucd_3_2_0
    category = frozen.category(char)
    if ord(char) in _INVISIBLE:
        return -1
    if category in ("Cn", "Co"):
        return 0 if any(first <= ord(char) <= last for first, last in _SYMBOL_BLOCKS) else ord(char)
    if category[0] == "M" or category == "Cf":
        return -1
    if category[0] not in "LN":
        return 0
    base = next((c for c in frozen.normalize("NFKD", char) if frozen.category(c)[0] in "LN"), char)
    lower = base.lower()
    base = lower if len(lower) == 1 and frozen.category(lower) != "Cn" else base
    # Hangul syllables would fall apart into letters of which only the first was taken.
    if 0xAC00 <= ord(char) <= 0xD7A3:
        base = char
    return ord(base)


def text_buffers(array: pa.Array) -> tuple[U8, I64]:
    """The UTF-8 bytes of a string array, and where each value lies in them; nulls read as empty.

    Args:
        array: string, large_string or a chunked array of them [n].

    Returns:
        uint8 [bytes] and int64 [n + 1] offsets into it, both without a copy where the type is large_string.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.null_count:
        array = array.fill_null("")
    array = array.cast(pa.large_string())
    _, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return octets, np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)


@nb.njit(
    [nb.types.UniTuple(nb.int64, 2)(OCTETS, nb.int64, nb.int64), nb.types.UniTuple(nb.int64, 2)(U8P, nb.int64, nb.int64)],
    cache=True,
    nogil=True,
)
def decode(data, at, stop):  # type: ignore[no-untyped-def]
    """The code point at `at` and where the next one starts; a damaged or cut sequence reads as U+FFFD, one byte long."""
    lead = nb.int64(data[at])
    if lead < 0x80:
        return lead, at + 1
    if lead < 0xC2 or lead > 0xF4:
        return nb.int64(0xFFFD), at + 1
    size = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if at + size > stop:
        return nb.int64(0xFFFD), at + 1
    code = lead & (0x7F >> size)
    for i in range(1, size):
        tail = nb.int64(data[at + i])
        if tail & 0xC0 != 0x80:
            return nb.int64(0xFFFD), at + 1
        code = (code << 6) | (tail & 0x3F)
    if code > 0x10FFFF:
        return nb.int64(0xFFFD), at + 1
    return code, at + size


@nb.njit([nb.int64(OCTETS, nb.int64, nb.int64), nb.int64(U8P, nb.int64, nb.int64)], cache=True, nogil=True)
def previous(data, at, start):  # type: ignore[no-untyped-def]
    """Where the character before `at` starts, not before `start`."""
    at -= 1
    floor = max(start, at - 3)
    while at > floor and data[at] & 0xC0 == 0x80:
        at -= 1
    return at


@nb.njit(
    [nb.types.UniTuple(nb.int64, 2)(OCTETS, nb.int64, nb.int64, OCTETS), nb.types.UniTuple(nb.int64, 2)(U8P, nb.int64, nb.int64, U8P)],
    cache=True,
    nogil=True,
)
def strip(data, start, stop, table):  # type: ignore[no-untyped-def]
    """Bounds of ``data[start:stop]`` without the white space around it."""
    while start < stop:
        code, after = decode(data, start, stop)
        if not table[code] & SPACE:
            break
        start = after
    while stop > start:
        at = previous(data, stop, start)
        if not table[decode(data, at, stop)[0]] & SPACE:
            break
        stop = at
    return start, stop


@nb.njit([nb.int64(OCTETS, nb.int64, nb.int64), nb.int64(U8P, nb.int64, nb.int64)], cache=True, nogil=True)
def count_chars(data, start, stop):  # type: ignore[no-untyped-def]
    """Code points in ``data[start:stop]``."""
    total = 0
    for i in range(start, stop):
        total += data[i] & 0xC0 != 0x80
    return total


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, FOLDS, OCTETS, nb.uint64[::1]), cache=True, nogil=True)
def hash_words(data, start, stop, folds, table, out):  # type: ignore[no-untyped-def]
    """Hashes the folded words of ``data[start:stop]``; each CJK character is a word. Returns how many there are.

    Args:
        data: uint8, UTF-8
        start: First byte.
        stop: Byte after the last.
        folds: `fold_table()`
        table: `classes()`
        out: uint64, room for one word in two bytes and one more; word hashes in order

    The hash of a word: h = P, then for each folded code point h = (h xor c) * P, h = h xor (h >> 32), modulo 2^64, with
    P = 0x9E3779B185EBCA87. It is part of every stored signature and must not change.
    """
    prime, half = np.uint64(0x9E3779B185EBCA87), np.uint64(32)
    words = 0
    inside = False
    h = prime
    at = start
    while at < stop:
        code, at = decode(data, at, stop)
        folded = folds[code]
        if folded < 0:
            continue
        alone = folded > 0 and table[folded] & CJK != 0
        if inside and (folded == 0 or alone):
            out[words] = h
            words += 1
            inside = False
        if folded == 0:
            continue
        if not inside:
            h = prime
        h = (h ^ np.uint64(folded)) * prime
        h ^= h >> half
        inside = True
        if alone:
            out[words] = h
            words += 1
            inside = False
    if inside:
        out[words] = h
        words += 1
    return words


@nb.njit(nb.types.UniTuple(nb.int64, 2)(OCTETS, nb.int64, nb.int64, FOLDS, OCTETS, nb.int32[::1], nb.boolean[::1]), cache=True, nogil=True)
def fold_letters(data, start, stop, folds, table, letters, starts):  # type: ignore[no-untyped-def]
    """Folds text to letters and numbers alone, until `stop` or until `letters` is full.

    Args:
        data: uint8, UTF-8
        start: First byte.
        stop: Byte after the last.
        folds: `fold_table()`
        table: `classes()`
        letters: int32, filled with folded code points
        starts: bool, filled with whether a word begins at the letter; a CJK character is a word

    Returns:
        letters filled, and the byte to go on from
    """
    filled = 0
    fresh = True
    at = start
    while at < stop and filled < len(letters):
        if data[at] < 0x80:  # of ASCII nothing is left out or CJK; words and gaps take turns too often to branch at each
            folded = folds[data[at]]
            letters[filled], starts[filled] = folded, fresh
            filled += folded != 0
            fresh = folded == 0
            at += 1
            continue
        code, at = decode(data, at, stop)
        folded = folds[code]
        if folded < 0:
            continue
        if folded == 0:
            fresh = True
            continue
        alone = table[folded] & CJK != 0
        letters[filled] = folded
        starts[filled] = fresh or alone
        filled += 1
        fresh = alone
    return filled, at


def words_room(offsets: I64) -> int:
    """Most words that any value between these offsets can have, plus one."""
    return int(np.diff(offsets).max(initial=0)) // 2 + 2


def letter_hashes(text: pa.Array) -> npt.NDArray[np.uint64]:
    """128-bit hash of each text's letters and numbers, folded; of its bytes where it has none.

    Args:
        text: string or large_string [n]

    Returns:
        uint64 [n, 2]
    """
    data, offsets = text_buffers(text)
    out = np.empty((len(offsets) - 1, 2), np.uint64)
    room = int(np.diff(offsets).max(initial=0))
    _hash_letters(data, offsets, fold_table(), classes(), room, out)
    return out


@nb.njit(cache=True, nogil=True)  # compiled when it is called: most kernels do without it
def _hash_letters(data, offsets, folds, table, room, out):  # type: ignore[no-untyped-def]
    letters, starts = np.empty(room, np.int32), np.empty(room, np.bool_)
    octets = letters.view(np.uint8)
    for i in range(len(offsets) - 1):
        n, _ = fold_letters(data, offsets[i], offsets[i + 1], folds, table, letters, starts)
        for lane in range(2):
            seed = np.uint64(lane)
            out[i, lane] = xxh64(octets, 0, 4 * n, seed) if n else xxh64(data, offsets[i], offsets[i + 1], seed)
