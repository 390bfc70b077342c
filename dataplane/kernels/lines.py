"""What lines are like: bullets, ellipses, terminal punctuation, length, and what C4 looks at, over UTF-8 bytes.

Sources: Rae et al. 2021 (arXiv:2112.11446), A1.1; Raffel et al. 2020 (arXiv:1910.10683), 2.2; Penedo et al. 2024
(arXiv:2406.17557), 3.6; in the reading of datatrove 0.10.1.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dataplane.kernels.pointers import I64P, U8P, U16P
from dataplane.kernels.unicode import CJK, OCTETS, SPACE, TERMINAL, count_chars, decode, previous, strip
from dataplane.kernels.word_tables import LINE_END

# Source: Penedo et al. 2024, 3.6. In CJK text 30 characters say what 105 do in English: 4.7 letters and a space to a word, and
# 1.6 characters to one, which makes a CJK character 3.5 wide.
SHORT_LINE_HALVES = 60
_CJK_HALVES, _OTHER_HALVES = 7, 2
# Source: the code of C4, https://github.com/tensorflow/datasets (c4_utils.py).
MIN_LINE_WORDS = 3
MAX_WORD_CHARS = 1000

# Places in the array of counts.
(
    LINES, NEWLINES, BULLETS, ELLIPSIS_LINES, FILLED, ENDED, SHORT, SCRIPT_LINES, POLICY_LINES, LONG_LINES,
    SENTENCES, LOREM_LINES, BRACKET_LINES, TERMINAL_SENTENCES, TERMINAL_LOREM_LINES, TERMINAL_BRACKET_LINES,
    CAPITAL_LINES, NUMERIC_LINES, ONE_WORD_LINES,
) = range(19)  # fmt: skip
# Source: Xue et al. 2021 (arXiv:2010.11934), 3.1: mC4 keeps pages of three lines with 200 characters.
LONG_LINE_CHARS = 200

_LOREM, _SCRIPT, _POLICY, _BRACKET, _CITATION = 1, 2, 4, 8, 16
LOREM = b"lorem ipsum"
SCRIPT = b"javascript"
POLICY = (b"terms of use", b"privacy policy", b"cookie policy", b"uses cookies", b"use of cookies", b"use cookies")
_PHRASES = (LOREM, SCRIPT, *POLICY)
_TRIGGERS = b"mjfvkkkk"  # the rarest letter of each phrase, at which it is looked for
_PHRASE_KINDS = np.array([_LOREM, _SCRIPT] + [_POLICY] * len(POLICY), np.int64)
_PHRASE_SIZES = np.array([len(phrase) for phrase in _PHRASES], np.int64)
_PHRASE_BYTES = np.array([list(phrase.ljust(16)) for phrase in _PHRASES], np.uint8)
_TRIGGER_PLACES = np.array([phrase.index(trigger) for phrase, trigger in zip(_PHRASES, _TRIGGERS, strict=True)], np.int64)

# Source: the code of C4: "[1]", "[]", "[edit]" and "[citation needed]" are taken out of a line.
_CITATIONS = np.array([list(b"edit]".ljust(16)), list(b"citation needed]")], np.uint8)
_CITATION_SIZES = np.array([5, 16], np.int64)

_PHRASE_BYTE, _BRACKET_BYTE, _CITATION_BYTE = 1, 2, 3
_HOT = np.zeros(256, np.uint8)
_HOT[list(_TRIGGERS + _TRIGGERS.upper())] = _PHRASE_BYTE
_HOT[ord("{")] = _BRACKET_BYTE
_HOT[ord("[")] = _CITATION_BYTE


@nb.njit([nb.int64(OCTETS, nb.int64, nb.int64), nb.int64(U8P, nb.int64, nb.int64)], cache=True, nogil=True)
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


@nb.njit(nb.boolean(U8P, nb.int64, nb.int64, nb.boolean), cache=True, nogil=True)
def _starts_with_bullet(data, start, stop, literal):  # type: ignore[no-untyped-def]
    """Whether a line starts with • or -, or with · or a Chinese numeral and an enumeration comma."""
    code, at = decode(data, start, stop)
    if code == 0x2022 or code == 0x2D or literal:
        return code == 0x2022 or code == 0x2D
    if code == 0xB7:
        return True
    for _ in range(3):  # "一、" to "九十九、"
        if code not in (0x4E00, 0x4E8C, 0x4E09, 0x56DB, 0x4E94, 0x516D, 0x4E03, 0x516B, 0x4E5D, 0x5341) or at >= stop:
            return False
        code, at = decode(data, at, stop)
        if code == 0x3001:
            return True
    return False


@nb.njit(nb.boolean(U8P, nb.int64, nb.int64, U8P, nb.boolean), cache=True, nogil=True)
def _is_short(data, start, stop, table, literal):  # type: ignore[no-untyped-def]
    """Whether a line is no longer than 30 characters, CJK characters counted by what they say."""
    halves = 0
    while start < stop and halves <= SHORT_LINE_HALVES:
        code, start = decode(data, start, stop)
        halves += _CJK_HALVES if table[code] & CJK and not literal else _OTHER_HALVES
    return halves <= SHORT_LINE_HALVES


@nb.njit(nb.boolean(U8P, nb.int64, nb.int64), cache=True, nogil=True)
def _ends_in_dots(data, start, stop):  # type: ignore[no-untyped-def]
    return stop - start >= 3 and data[stop - 1] == 0x2E and data[stop - 2] == 0x2E and data[stop - 3] == 0x2E


@nb.njit(nb.void(U8P, nb.int64, nb.int64, nb.boolean, I64P), cache=True, nogil=True)
def judge_as_gopher(data, start, stop, literal, counts):  # type: ignore[no-untyped-def]
    """Counts bullets and ellipses of a line without white space around it."""
    counts[BULLETS] += _starts_with_bullet(data, start, stop, literal)
    last = decode(data, previous(data, stop, start), stop)[0]
    counts[ELLIPSIS_LINES] += last == 0x2026 or _ends_in_dots(data, start, stop)


@nb.njit(nb.void(U8P, nb.int64, nb.int64, U8P, U16P, nb.boolean, I64P), cache=True, nogil=True)
def judge_as_fineweb(data, whole, end, table, kinds, literal, counts):  # type: ignore[no-untyped-def]
    """Counts what lies between two newlines if it is no blank line: how it ends, and whether it is short.

    Only if `literal` do white space and the full stops of other scripts count as datatrove counts them.
    """
    start, stop = strip(data, whole, end, table)
    if start == stop:
        return
    counts[FILLED] += 1
    if literal:
        stop = end
    elif data[end - 1] == 0x0D:
        end -= 1
    last = decode(data, previous(data, stop, whole), stop)[0]
    counts[ENDED] += (kinds[last] & LINE_END) != 0 or (not literal and (table[last] & TERMINAL) != 0)
    counts[SHORT] += _is_short(data, whole, end, table, literal)
    if end - whole >= LONG_LINE_CHARS:
        counts[LONG_LINES] += count_chars(data, whole, end) >= LONG_LINE_CHARS


@nb.njit(nb.boolean(U8P, nb.int64, nb.int64, U8P, nb.boolean), cache=True, nogil=True)
def enough_words(data, at, stop, table, literal):  # type: ignore[no-untyped-def]
    """Whether a line has three words, a CJK character being one if not `literal`, and none of more than 1,000 characters."""
    short = stop - at <= MAX_WORD_CHARS
    words = length = 0
    before = nb.int64(SPACE)
    while at < stop:
        code, at = decode(data, at, stop)
        bits = nb.int64(table[code])
        length = 0 if bits & SPACE else length + 1
        words += length == 1 or (length > 0 and not literal and (bits | before) & CJK != 0)
        before = bits
        if length > MAX_WORD_CHARS:
            return False
        if short and words >= MIN_LINE_WORDS:
            return True
    return words >= MIN_LINE_WORDS


@nb.njit(nb.int64(U8P, nb.int64, nb.int64, nb.int64), cache=True, nogil=True)
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


@nb.njit(nb.int64(U8P, nb.int64, nb.int64), cache=True, nogil=True)
def _citation(data, at, stop):  # type: ignore[no-untyped-def]
    """Where a citation that opens at `at` ends, or `at`."""
    after = at + 1
    while after < stop and 0x30 <= data[after] <= 0x39:
        after += 1
    if after < stop and data[after] == 0x5D:
        return after + 1
    for i in range(len(_CITATION_SIZES)):
        k = 0
        while k < _CITATION_SIZES[i] and at + 1 + k < stop and data[at + 1 + k] == _CITATIONS[i, k]:
            k += 1
        if k == _CITATION_SIZES[i]:
            return at + 1 + k
    return at


@nb.njit(nb.int64(U8P, nb.int64, nb.int64, U8P), cache=True, nogil=True)
def without_citations(data, at, stop, out):  # type: ignore[no-untyped-def]
    """Copies a line without its citations; returns how long it is."""
    size = 0
    while at < stop:
        after = _citation(data, at, stop) if data[at] == 0x5B else at
        if after > at:
            at = after
            continue
        out[size] = data[at]
        size, at = size + 1, at + 1
    return size


@nb.njit(nb.int64(U8P, nb.int64, nb.int64), cache=True, nogil=True)
def _minded(data, start, stop):  # type: ignore[no-untyped-def]
    """What C4 minds in a line, as bits."""
    found = 0
    for at in range(start, stop):
        hot = _HOT[data[at]]
        if hot == 0:
            continue
        if hot == _PHRASE_BYTE:
            found |= _phrase(data, at, start, stop)
        elif hot == _BRACKET_BYTE:
            found |= _BRACKET
        elif _citation(data, at, stop) > at:
            found |= _CITATION
    return found


@nb.njit(nb.boolean(U8P, nb.int64, nb.int64, U8P, U16P, nb.boolean), cache=True, nogil=True)
def _is_terminal(data, start, stop, table, kinds, literal):  # type: ignore[no-untyped-def]
    """Whether a line ends as C4 wants it: in . ? ! " or ', not in an ellipsis; if not `literal`, also in what other scripts end in."""
    if stop == start or _ends_in_dots(data, start, stop):
        return False
    last = decode(data, previous(data, stop, start), stop)[0]
    if last in (0x2E, 0x3F, 0x21, 0x22, 0x27):
        return True
    return not literal and last != 0x2026 and (kinds[last] & LINE_END != 0 or table[last] & TERMINAL != 0 or last in (0x2019, 0x201D))


@nb.njit(nb.boolean(U8P, nb.int64, nb.int64, U8P, U16P, nb.int64, nb.boolean, I64P), cache=True, nogil=True)
def judge_as_c4(data, start, stop, table, kinds, sentences, literal, counts):  # type: ignore[no-untyped-def]
    """Counts the sentences of a line of enough words if C4 keeps it, lorem ipsum and curly brackets.

    Returns whether it has citations, which are to be taken out first; then nothing is counted.
    """
    found = _minded(data, start, stop)
    if found & _CITATION:
        return True
    ends = _is_terminal(data, start, stop, table, kinds, literal)
    lorem, bracket = (found & _LOREM) != 0, (found & (_SCRIPT | _BRACKET)) == _BRACKET
    counted = sentences if not found & (_SCRIPT | _POLICY) else 0
    counts[SCRIPT_LINES] += (found & _SCRIPT) != 0
    counts[POLICY_LINES] += (found & _POLICY) != 0
    counts[SENTENCES] += counted
    counts[LOREM_LINES] += lorem
    counts[BRACKET_LINES] += bracket
    if ends:
        counts[TERMINAL_SENTENCES] += counted
        counts[TERMINAL_LOREM_LINES] += lorem
        counts[TERMINAL_BRACKET_LINES] += bracket
    return False
