"""One pass over UTF-8 that finds where personal data could stand, so that exact recognisers read nothing else.

What it looks for are shapes of bytes: an at sign in a word, six digits with little between them, colons among hexadecimal digits,
words that mix letters with digits, runs of dashes before capitals, a Chinese province before a capital. Full-width characters
count as their ASCII twins.
"""

from __future__ import annotations

from functools import lru_cache

import numba as nb
import numpy as np
import pyarrow as pa

# ruff: noqa: SIM109  # numba compiles comparisons to jumps, and a tuple to a loop
from dataplane.kernels.unicode import BOUNDS, I64, OCTETS, U8

# Bits of a candidate.
AT = 1
NUMBER = 2
ADDRESS = 4
WORD = 8
PEM = 16
PLATE = 32
ALL = 63

# Classes of ASCII characters.
_OTHER, _DIGIT, _HEX, _LETTER, _GAP, _COLON, _AT, _DOT, _DASH, _LOW = range(10)
_MIN_DIGITS = 6  # of the shortest number that is looked for (UK NINO)
_MAX_GAP_CHARS = 3
_MIN_WORD_CHARS, _MIN_WORD_DIGITS = 7, 3
_MIN_KEY_CHARS = 20
_PEM_DASHES = 5
_PROVINCES = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"  # GA 36-2018


@lru_cache
def _classes() -> U8:
    table = np.zeros(128, np.uint8)
    for kind, characters in (
        (_DIGIT, "0123456789"), (_HEX, "abcdefABCDEF"), (_LETTER, "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ"),
        (_GAP, " ()/+"), (_COLON, ":"), (_AT, "@"), (_DOT, "."), (_DASH, "-"), (_LOW, "_%"),
    ):  # fmt: skip
        table[[ord(character) for character in characters]] = kind
    return table


@lru_cache
def _provinces() -> U8:
    table = np.zeros(1 << 16, np.uint8)
    table[[ord(character) for character in _PROVINCES]] = 1
    return table


@nb.njit(nb.types.UniTuple(nb.int64, 2)(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def _decode(data, at, stop):  # type: ignore[no-untyped-def]  # numba infers the types of what it compiles
    """A non-ASCII character as its ASCII twin if it has one, else as its code point (0 beyond the BMP), and its length in bytes."""
    lead = data[at]
    if lead >= 0xF0:
        return 0, min(4, stop - at)
    if lead < 0xE0:
        return (0x20 if lead == 0xC2 and at + 1 < stop and data[at + 1] == 0xA0 else 0x80), min(2, stop - at)
    if at + 2 >= stop:
        return 0x80, stop - at
    code = (lead & 0x0F) << 12 | (data[at + 1] & 0x3F) << 6 | (data[at + 2] & 0x3F)
    if 0xFF01 <= code <= 0xFF5E:
        return code - 0xFEE0, 3
    if code == 0x3000 or code == 0x202F:
        return 0x20, 3
    return (0x2D if 0x2010 <= code <= 0x2015 else code), 3


@nb.njit(nb.int64(nb.int64[:, ::1], nb.int64, nb.int64, nb.int64, nb.int64, nb.int64), cache=True, nogil=True)
def _emit(found, n, row, start, stop, flags):  # type: ignore[no-untyped-def]
    """Writes a candidate, where there is room, and counts it."""
    if n < len(found):
        found[n, 0], found[n, 1], found[n, 2], found[n, 3] = row, start, stop, flags
    return n + 1


@nb.njit(nb.boolean(nb.uint8[::1], nb.int64), cache=True, nogil=True)
def _in_word(classes, code):  # type: ignore[no-untyped-def]
    """Whether a character can stand beside the at sign of an address."""
    if code >= 0x80:
        return code < 0x100  # the lead byte of what follows; before the sign it is decoded already
    kind = classes[code]
    return kind == _DIGIT or kind == _HEX or kind == _LETTER or kind == _LOW or kind == _DASH


@nb.njit(nb.int64(OCTETS, BOUNDS, nb.uint8[::1], nb.uint8[::1], nb.int64[:, ::1]), cache=True, nogil=True)
def _scan(data, offsets, classes, provinces, found):  # type: ignore[no-untyped-def]
    """Writes (row, first, last, bits) in code points to `found`; returns how many there are, which may be more than fit."""
    n = 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        place = 0
        digits = number = last = gap = dots = 0
        word = word_digits = word_letters = dashes = 0
        net = net_chars = colons = pairs = 0
        before = code = 0
        while at <= stop:  # one step beyond the end closes what is open
            before = code
            size = 1
            if at == stop:
                code = 0
            elif data[at] < 0x80:
                code = nb.int64(data[at])
            else:
                code, size = _decode(data, at, stop)
            kind = classes[code] if code < 0x80 else _OTHER

            if kind == _DIGIT:
                if digits == 0:
                    number, dots = place, 0
                digits += 1
                gap = 0
                last = place + 1
            elif digits > 0:
                gap += 1
                dots += kind == _DOT
                if gap > _MAX_GAP_CHARS or (kind != _GAP and kind != _DOT and kind != _DASH):
                    if digits >= _MIN_DIGITS or dots >= 3:
                        n = _emit(found, n, row, number, last, NUMBER | (ADDRESS if dots >= 3 else 0))
                    digits = 0

            if kind == _DIGIT or kind == _HEX or kind == _LETTER or kind == _LOW or kind == _DASH:
                if word == 0:
                    word_digits = word_letters = dashes = 0
                word += 1
                word_digits += kind == _DIGIT
                word_letters += kind == _HEX or kind == _LETTER
                dashes += kind == _DASH
                if word_letters == 1 and before < 0x10000 and provinces[before] == 1:
                    n = _emit(found, n, row, place - 1, place + 1, PLATE)
            elif word > 0:
                if word_letters > 0 and word >= _MIN_WORD_CHARS:
                    if word_digits >= _MIN_WORD_DIGITS or (word_digits > 0 and word >= _MIN_KEY_CHARS):
                        n = _emit(found, n, row, place - word, place, WORD)
                    elif dashes >= _PEM_DASHES:
                        n = _emit(found, n, row, place - word, place, PEM)
                word = 0

            if kind == _COLON or (net_chars > 0 and (kind == _DIGIT or kind == _HEX or kind == _DOT)):
                if net_chars == 0:
                    net, colons, pairs = place, 0, 0
                net_chars += 1
                colons += kind == _COLON
                pairs += kind == _COLON and before == 0x3A
            elif net_chars > 0:
                if colons >= 3 or (pairs > 0 and (net_chars > 2 or code == 0x2F)):
                    n = _emit(found, n, row, net, place, ADDRESS)
                net_chars = 0

            # The characters beside an at sign that are no ASCII may be full-width ones: the recogniser looks closer.
            if (
                kind == _AT
                and place > 0
                and at + size < stop
                and _in_word(classes, before)
                and _in_word(classes, nb.int64(data[at + size]))
            ):
                n = _emit(found, n, row, place, place + 1, AT)
            at += size
            place += 1
            if digits == 0 and net_chars == 0:
                # Most text is words without digits and Han characters, of which there is nothing more to know. A letter behind a
                # character that is no ASCII may be that of a plate, and is left to the loop.
                if code < 0x80 and (word == 0 or (word_digits == 0 and dashes == 0)):
                    while at < stop and data[at] < 0x80:
                        kind = classes[data[at]]
                        if kind == _LETTER or kind == _HEX:
                            if word == 0:
                                word_digits = word_letters = dashes = 0
                            word, word_letters = word + 1, word_letters + 1
                        elif kind == _OTHER or kind == _GAP or kind == _DOT:
                            word = 0
                        else:
                            break
                        code = nb.int64(data[at])
                        at, place = at + 1, place + 1
                elif word == 0:
                    while at + 2 < stop and 0xE4 <= data[at] <= 0xE9:
                        code = nb.int64(data[at] & 0x0F) << 12 | nb.int64(data[at + 1] & 0x3F) << 6 | nb.int64(data[at + 2] & 0x3F)
                        at, place = at + 3, place + 1
    return n


def candidates(text: pa.Array) -> I64:
    """Where personal data could stand.

    Args:
        text: large_string [n].

    Returns:
        int64 [m, 4]: row, first and last code point (exclusive), bits of what it could be; sorted by row
    """
    _, offset_buffer, data_buffer = text.buffers()
    if len(text) == 0 or data_buffer is None:
        return np.empty((0, 4), np.int64)
    offsets = np.frombuffer(offset_buffer, np.int64)[text.offset : text.offset + len(text) + 1]
    data = np.frombuffer(data_buffer, np.uint8)
    found = np.empty((max(64, len(text)), 4), np.int64)
    n = int(_scan(data, offsets, _classes(), _provinces(), found))
    if n > len(found):  # a second pass with room for all is rarer, and simpler, than growing
        found = np.empty((n, 4), np.int64)
        _scan(data, offsets, _classes(), _provinces(), found)
    return found[:n]
