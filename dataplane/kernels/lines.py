"""What lines are like: bullets, ellipses, terminal punctuation, length, and what C4 looks at, over UTF-8 bytes.

Sources: Rae et al. 2021 (arXiv:2112.11446), A1.1; Raffel et al. 2020 (arXiv:1910.10683), 2.2; Penedo et al. 2024
(arXiv:2406.17557), 3.6; in the reading of datatrove 0.10.1.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dataplane.kernels.unicode import CJK, OCTETS, SPACE, TERMINAL, decode, previous, strip

# Source: Penedo et al. 2024, 3.6. In CJK text 30 characters say what 105 do in English: 4.7 letters and a space to a word, and
# 1.6 characters to one, which makes a CJK character 3.5 wide.
SHORT_LINE_HALVES = 60
_CJK_HALVES, _OTHER_HALVES = 7, 2
# Source: the code of C4, https://github.com/tensorflow/datasets (c4_utils.py).
MIN_LINE_WORDS = 3
MAX_WORD_CHARS = 1000

_BULLET, _ELLIPSIS, _ENDED, _FILLED, _SHORT = 1, 2, 4, 8, 16
_LOREM, _SCRIPT, _POLICY, _BRACKET = 1, 2, 4, 8
LOREM = b"lorem ipsum"
SCRIPT = b"javascript"
POLICY = (b"terms of use", b"privacy policy", b"cookie policy", b"uses cookies", b"use of cookies", b"use cookies")
_PHRASES = (LOREM, SCRIPT, *POLICY)
_TRIGGERS = b"mjfvkkkk"  # the rarest letter of each phrase, at which it is looked for
_PHRASE_KINDS = np.array([_LOREM, _SCRIPT] + [_POLICY] * len(POLICY), np.int64)
_PHRASE_SIZES = np.array([len(phrase) for phrase in _PHRASES], np.int64)
_PHRASE_BYTES = np.array([list(phrase.ljust(16)) for phrase in _PHRASES], np.uint8)
_TRIGGER_PLACES = np.array([phrase.index(trigger) for phrase, trigger in zip(_PHRASES, _TRIGGERS, strict=True)], np.int64)

_STOP_BYTE, _PHRASE_BYTE, _BRACKET_BYTE = 1, 2, 3
_HOT = np.zeros(256, np.uint8)
_HOT[list(b".!?\xe3\xef")] = _STOP_BYTE
_HOT[list(_TRIGGERS + _TRIGGERS.upper())] = _PHRASE_BYTE
_HOT[ord("{")] = _BRACKET_BYTE


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def line_break(data, at, stop):  # type: ignore[no-untyped-def]
    """Bytes of the line break at `at` as str.splitlines sees it, 0 where there is none."""
    b = data[at]
    if b == 0x0D:
        return 2 if at + 1 < stop and data[at + 1] == 0x0A else 1
    if 0x0A <= b <= 0x0C or 0x1C <= b <= 0x1E:
        return 1
    if b == 0xC2:
        return 2 if at + 1 < stop and data[at + 1] == 0x85 else 0
    if b == 0xE2 and at + 2 < stop and data[at + 1] == 0x80 and (data[at + 2] == 0xA8 or data[at + 2] == 0xA9):
        return 3
    return 0


@nb.njit(nb.boolean(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def _starts_with_bullet(data, start, stop):  # type: ignore[no-untyped-def]
    """Whether a line starts with • - · or a Chinese numeral and an enumeration comma."""
    code, at = decode(data, start, stop)
    if code == 0x2022 or code == 0x2D or code == 0xB7:
        return True
    for _ in range(3):  # "一、" to "九十九、"
        if code not in (0x4E00, 0x4E8C, 0x4E09, 0x56DB, 0x4E94, 0x516D, 0x4E03, 0x516B, 0x4E5D, 0x5341) or at >= stop:
            return False
        code, at = decode(data, at, stop)
        if code == 0x3001:
            return True
    return False


@nb.njit(nb.boolean(OCTETS, nb.int64, nb.int64, OCTETS), cache=True, nogil=True)
def _is_short(data, start, stop, table):  # type: ignore[no-untyped-def]
    """Whether a line is no longer than 30 characters, CJK characters counted by what they say."""
    halves = 0
    while start < stop and halves <= SHORT_LINE_HALVES:
        code, start = decode(data, start, stop)
        halves += _CJK_HALVES if table[code] & CJK else _OTHER_HALVES
    return halves <= SHORT_LINE_HALVES


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, OCTETS), cache=True, nogil=True)
def _line_kinds(data, whole, end, table):  # type: ignore[no-untyped-def]
    """Kinds of one line as bits."""
    start, stop = strip(data, whole, end, table)
    if start == stop:
        return 0
    kinds = _FILLED
    if _starts_with_bullet(data, start, stop):
        kinds |= _BULLET
    last = decode(data, previous(data, stop, start), stop)[0]
    if last == 0x2026 or (stop - start >= 3 and data[stop - 1] == 0x2E and data[stop - 2] == 0x2E and data[stop - 3] == 0x2E):
        kinds |= _ELLIPSIS
    if table[last] & TERMINAL:
        kinds |= _ENDED
    if _is_short(data, whole, end, table):
        kinds |= _SHORT
    return kinds


@nb.njit(nb.boolean(OCTETS, nb.int64, nb.int64, OCTETS), cache=True, nogil=True)
def _enough_words(data, at, stop, table):  # type: ignore[no-untyped-def]
    """Whether a line has three words, a CJK character being one, and none of more than 1,000 characters."""
    short = stop - at <= MAX_WORD_CHARS
    words = length = 0
    before = nb.int64(SPACE)
    while at < stop:
        code, at = decode(data, at, stop)
        bits = nb.int64(table[code])
        length = 0 if bits & SPACE else length + 1
        words += length > 0 and ((bits | before) & CJK != 0 or length == 1)
        before = bits
        if length > MAX_WORD_CHARS:
            return False
        if short and words >= MIN_LINE_WORDS:
            return True
    return words >= MIN_LINE_WORDS


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, nb.int64), cache=True, nogil=True)
def _phrase(data, at, start, stop):  # type: ignore[no-untyped-def]
    """The kind of phrase that has its rarest letter at `at`, 0 for none."""
    for i in range(len(_PHRASE_SIZES)):
        place, first = _TRIGGER_PLACES[i], at - _TRIGGER_PLACES[i]
        if data[at] | 0x20 != _PHRASE_BYTES[i, place] or first < start or first + _PHRASE_SIZES[i] > stop:
            continue
        k = 0
        while k < _PHRASE_SIZES[i] and (data[first + k] | 0x20) == _PHRASE_BYTES[i, k]:
            k += 1
        if k == _PHRASE_SIZES[i]:
            return _PHRASE_KINDS[i]
    return 0


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, OCTETS), cache=True, nogil=True)
def _sentence_end(data, at, stop, table):  # type: ignore[no-untyped-def]
    """Where the text after a stop at `at` begins, or `at` where that stop ends no sentence (3.14, example.com)."""
    code, after = decode(data, at, stop)
    if not table[code] & TERMINAL:
        return at
    wide = code > 0xFF
    while after < stop:
        code, beyond = decode(data, after, stop)
        if code not in (0x2E, 0x21, 0x3F, 0x22, 0x27, 0x29, 0x5D, 0x201D, 0x2019, 0x300D, 0x300F, 0x3002, 0xFF01, 0xFF1F, 0xFF09):
            break
        after = beyond
    return after if after == stop or wide or table[decode(data, after, stop)[0]] & SPACE else at


@nb.njit(nb.types.UniTuple(nb.int64, 2)(OCTETS, nb.int64, nb.int64, OCTETS), cache=True, nogil=True)
def _sentences(data, start, stop, table):  # type: ignore[no-untyped-def]
    """Sentences of a line, and what C4 minds in it, as bits."""
    start, stop = strip(data, start, stop, table)
    sentences = found = 0
    begun = at = start
    while at < stop:
        hot = _HOT[data[at]]
        if hot == _STOP_BYTE:
            after = _sentence_end(data, at, stop, table)
            if after > at:
                sentences += 1
                begun = at = after
                continue
        elif hot == _PHRASE_BYTE:
            found |= _phrase(data, at, start, stop)
        elif hot == _BRACKET_BYTE:
            found |= _BRACKET
        at += 1
    return sentences + (begun < stop), found


@nb.njit(nb.void(OCTETS, nb.int64, nb.int64, OCTETS, nb.float64[::1]), cache=True, nogil=True)
def _judge_as_c4(data, start, stop, table, row):  # type: ignore[no-untyped-def]
    """Adds to ``row[0:3]`` the sentences of a line that C4 would keep, whether it has lorem ipsum, or a curly bracket."""
    if not _enough_words(data, start, stop, table):
        return
    sentences, found = _sentences(data, start, stop, table)
    row[1] += (found & _LOREM) != 0
    if found & _SCRIPT:
        return
    row[2] += (found & _BRACKET) != 0
    if not found & _POLICY:
        row[0] += sentences


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, OCTETS, nb.float64[::1]), cache=True, nogil=True)
def scan_lines(data, start, stop, table, row):  # type: ignore[no-untyped-def]
    """Fills the signals over lines, which end as str.splitlines ends them, into ``row[0:8]``; returns the number of lines."""
    lines = newlines = bullets = ellipses = ended = short = filled = 0
    row[5] = row[6] = row[7] = 0.0
    at = line = start
    while line < stop:
        size = 0
        while at < stop:
            b = data[at]
            if b <= 0x1E or b == 0xC2 or b == 0xE2:  # no other byte begins a line break
                size = line_break(data, at, stop)
                if size:
                    break
            at += 1
        kinds = _line_kinds(data, line, at, table)
        if kinds & _FILLED:
            _judge_as_c4(data, line, at, table, row[5:])
        lines += 1
        bullets += (kinds & _BULLET) != 0
        ellipses += (kinds & _ELLIPSIS) != 0
        ended += (kinds & _ENDED) != 0
        short += (kinds & _SHORT) != 0
        filled += (kinds & _FILLED) != 0
        at += size
        newlines += size > 0 and data[at - 1] == 0x0A
        line = at
    row[0] = newlines
    row[1] = bullets / max(lines, 1)
    row[2] = ellipses / max(lines, 1)
    row[3] = ended / max(filled, 1)
    row[4] = short / max(filled, 1)
    return lines
