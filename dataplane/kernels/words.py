"""Characters, words and sentences of a line, over UTF-8 bytes."""

from __future__ import annotations

import numba as nb
import numpy as np

from dataplane.kernels.pointers import I32P, I64P, U8P, U16P, U64P
from dataplane.kernels.tokens import MAX_RUN_CHARS, cut, exception
from dataplane.kernels.unicode import ALPHA, CJK, DIGIT, SPACE, decode
from dataplane.kernels.word_tables import (
    ACTIVE,
    ALPHABETIC,
    CAPITAL,
    PRIME,
    PUNCTUATION,
    SENTENCE_END,
    SHIFT,
    SMALL,
    SYMBOL,
)

# Word rules.
PAPER, REFERENCE, EXACT = 0, 1, 2
PLAIN = 3  # REFERENCE, with runs of CJK characters left whole

# Places in the arrays of counts.
(ALL_CHARS, LETTERS, CJK_LETTERS, DIGITS, HASHES, ELLIPSES, BRACKETS, CAPITALS, DOTS, ELLIPSIS_RUN) = range(10)
(
    ALL_WORDS, SOLID_WORDS, SOLID_CHARS, ALPHABETIC_WORDS, STOP_BITS, STOP_CHARACTER_BITS, CAPITAL_WORDS, STOP_WORDS_MET, KEPT, CUT,
    LAST_ALONE, SEEN_END, LINE_SENTENCES,
) = range(13)  # fmt: skip

# Function characters, either script: found in nearly every passage of modern or vernacular Chinese prose, and rare in
# lists of names, menus and keyword spam. Source: heads of the frequency lists of modern Chinese (Jun Da, 2004).
STOP_CHARACTERS = ("的", "是", "不", "了", "在", "有", "和", "这")
STOP_CHARACTER_VARIANTS = {"這": "这"}
_STOP_CODES = np.array([ord(char) for char in STOP_CHARACTERS] + [ord(char) for char in STOP_CHARACTER_VARIANTS], np.int64)
_STOP_CODE_BITS = np.array(
    [*range(len(STOP_CHARACTERS)), *(STOP_CHARACTERS.index(plain) for plain in STOP_CHARACTER_VARIANTS.values())], np.int64
)

_I64 = nb.int64


@nb.njit(nb.int64(nb.int64), cache=True, nogil=True, forceinline=True)
def _stop_character_bit(code):  # type: ignore[no-untyped-def]
    for i in range(len(_STOP_CODES)):
        if _STOP_CODES[i] == code:
            return 1 << _STOP_CODE_BITS[i]
    return 0


@nb.njit(nb.void(nb.int64, nb.int64, nb.int64, nb.boolean, I64P), cache=True, nogil=True, forceinline=True)
def count_char(code, bits, kind, literal, counts):  # type: ignore[no-untyped-def]
    """Counts one character; then the runs of "." and "…" that end here."""
    counts[ALL_CHARS] += 1
    if bits & ALPHA:
        counts[LETTERS] += 1
        counts[CJK_LETTERS] += (bits & CJK) != 0
        counts[CAPITALS] += (kind & CAPITAL) != 0
        counts[DOTS] = counts[ELLIPSIS_RUN] = 0
        return
    counts[DIGITS] += (bits & DIGIT) != 0
    counts[HASHES] += code == 0x23
    counts[BRACKETS] += code == 0x7B or code == 0x7D
    counts[DOTS] = counts[DOTS] + 1 if code == 0x2E else 0
    counts[ELLIPSIS_RUN] = counts[ELLIPSIS_RUN] + 1 if code == 0x2026 else 0
    # Three dots are an ellipsis; so are "…" and the "……" of Chinese.
    counts[ELLIPSES] += counts[DOTS] > 0 and counts[DOTS] % 3 == 0
    counts[ELLIPSES] += counts[ELLIPSIS_RUN] > 0 if literal else counts[ELLIPSIS_RUN] & 1


@nb.njit(nb.int64(nb.uint64, U64P, nb.int64, nb.int64), cache=True, nogil=True, forceinline=True)
def _stop_word(key, stops, first, last):  # type: ignore[no-untyped-def]
    """Which of the sorted stop words it is, -1 for none."""
    end = last
    low = first
    while first < last:
        middle = (first + last) // 2
        if stops[middle] < key:
            first = middle + 1
        else:
            last = middle
    return first - low if first < end and stops[first] == key else -1


@nb.njit(
    nb.void(I32P, nb.int64, nb.int64, U8P, U16P, _I64, U64P, _I64, _I64, _I64, I64P, _I64, U64P, I32P, I32P, _I64),
    cache=True,
    nogil=True,
    forceinline=True,
)
def _add_word(codes, start, stop, table, kinds, rule, stops, low, high, most, counts, room, hashes, chars, joined, read):  # type: ignore[no-untyped-def]
    """Counts one word, and keeps its hash and length for the n-grams while there is room."""
    h = folded = PRIME
    bits, known, common = 0, 0, 0xFFFF
    for i in range(start, stop):
        code = codes[i]
        bits |= table[code]
        known |= kinds[code]
        common &= kinds[code]
        h = (h ^ nb.uint64(code)) * PRIME
        h ^= h >> SHIFT
    length = stop - start
    counts[ALL_WORDS] += 1
    counts[ALPHABETIC_WORDS] += (bits & ALPHA) != 0
    if not common & SYMBOL:
        counts[SOLID_WORDS] += 1
        counts[SOLID_CHARS] += length
    counts[CAPITAL_WORDS] += (known & CAPITAL) != 0 and (known & SMALL) == 0
    if length <= most:
        folded = h
        if rule == PAPER and known & CAPITAL:
            folded = PRIME
            for i in range(start, stop):
                code = codes[i]
                folded = (folded ^ nb.uint64(code + 32 if 65 <= code <= 90 else code)) * PRIME
                folded ^= folded >> SHIFT
        which = _stop_word(folded, stops, low, high)
        if which >= 0:
            counts[STOP_BITS] |= 1 << which
            counts[STOP_WORDS_MET] += 1
    kept = counts[KEPT]
    if kept < room:
        hashes[kept] = (h ^ (h >> SHIFT)) * PRIME
        chars[kept + 1] = chars[kept] + length
        alone = 1 if bits & CJK and rule != EXACT else 0
        joined[kept + 1] = joined[kept] + length + (0 if kept == 0 or alone or counts[LAST_ALONE] else 1)
        counts[LAST_ALONE] = alone
        counts[KEPT] += 1
    elif counts[CUT] < 0:
        counts[CUT] = read


@nb.njit(nb.void(I32P, nb.int64, nb.int64, U16P, I64P), cache=True, nogil=True, forceinline=True)
def _add_to_sentence(codes, start, stop, kinds, of_words):  # type: ignore[no-untyped-def]
    """Begins a sentence at the first word behind a stop that is no punctuation."""
    ends = stop - start == 1 and (kinds[codes[start]] & SENTENCE_END) != 0
    if ends:
        of_words[SEEN_END] = 1
    if of_words[LINE_SENTENCES] == 0:
        of_words[LINE_SENTENCES] = 1
    elif of_words[SEEN_END] and not ends:
        for i in range(start, stop):
            if not kinds[codes[i]] & PUNCTUATION:
                of_words[LINE_SENTENCES] += 1
                of_words[SEEN_END] = 0
                return


@nb.njit(
    nb.boolean(I32P, nb.int64, nb.int64, nb.int64, U8P, U16P, U8P, U64P, I64P, U64P, U8P), cache=True, nogil=True, forceinline=True
)  # fmt: skip
def _cut_run(codes, n, known, bits, ends, kinds, table, keys, cuts, units, shapes):  # type: ignore[no-untyped-def]
    """Cuts a run if it needs to be; returns whether it is more than one word."""
    if known & ACTIVE or (bits & DIGIT and not table[codes[n - 1]] & DIGIT):
        cut(codes, n, ends, kinds, table, keys, cuts, units, shapes)
        return True
    at = exception(codes, 0, n, keys, shapes)
    if at < 0:
        return False
    ends[0] = 1
    for i in range(1, n + 1):
        ends[i] = (cuts[2 * at] >> i) & 1
    return True


@nb.njit(nb.boolean(nb.int64, nb.int64, nb.boolean), cache=True, nogil=True, forceinline=True)
def _parts(bits, before, inside):  # type: ignore[no-untyped-def]
    """Whether a word may not go on over the two characters: both CJK only inside a word of a segmentation, one alone never."""
    return (bits | before) & CJK != 0 and not (inside and bits & before & CJK)


@nb.njit(
    nb.int64(
        U8P, _I64, _I64, U8P, U16P, U64P, I64P, U64P, U8P, nb.boolean, U8P, _I64, U64P, _I64, _I64, _I64,
        I32P, U8P, I64P, I64P, _I64, U64P, I32P, I32P,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def scan_words(  # type: ignore[no-untyped-def]
    data,
    start,
    stop,
    table,
    kinds,
    keys,
    cuts,
    units,
    shapes,
    marked,
    marks,
    rule,
    stops,
    low,
    high,
    most,
    codes,
    ends,
    of_chars,
    of_words,
    room,
    hashes,
    chars,
    joined,
):
    """Counts the characters and words of a line into `of_chars` and `of_words`; returns its sentences.

    Args:
        data: uint8, UTF-8
        start: First byte.
        stop: Byte behind the last.
        table: `unicode.classes()`
        kinds: See `word_tables`, as `keys`, `cuts`, `units` and `shapes`.
        marks: uint8 [bytes] or empty; 1 where a word begins: every word if `rule` is EXACT, else those of runs of CJK characters
        rule: PAPER, REFERENCE or EXACT.
        stops: uint64, sorted hashes of stop words
        within: int64 [3], where those of this document begin and end, and the characters of the longest
        codes: int32, room for a run of characters
        ends: uint8, one more
        of_chars: int64
        of_words: int64
        hashes: uint64, hash of each word
        chars: int32, characters of the words before each, one more
        joined: int32, the same with the spaces between words, one more
    """
    of_words[SEEN_END] = of_words[LINE_SENTENCES] = 0
    n = bits_any = known = before = blanks = 0
    at = start
    while at <= stop:
        code, bits, kind, after = nb.int64(0x20), nb.int64(SPACE), nb.int64(0), stop + 1  # the end ends the last word
        if at < stop:
            code, after = decode(data, at, stop)
            bits, kind = nb.int64(table[code]), nb.int64(kinds[code])
            count_char(code, bits, kind, rule == EXACT, of_chars)
        inside = at < stop and marked and marks[at] == 0
        if n and (bits & SPACE or n == MAX_RUN_CHARS or (rule <= REFERENCE and _parts(bits, before, inside))):
            several = rule == EXACT or (
                (rule == PLAIN or bits_any & CJK == 0)
                and _cut_run(codes, n, known, bits_any, ends, kinds, table, keys, cuts, units, shapes)
            )
            ends[n] = 1
            first = 0
            read = of_chars[ALL_CHARS] - n - (at < stop)
            for i in range(1, n + 1):
                if i == n or (several and ends[i]):
                    _add_to_sentence(codes, first, i, kinds, of_words)
                    if rule != PAPER:
                        _add_word(codes, first, i, table, kinds, rule, stops, low, high, most, of_words, room, hashes, chars, joined, read)
                    first = i
            if rule == PAPER:
                _add_word(codes, 0, n, table, kinds, rule, stops, low, high, most, of_words, room, hashes, chars, joined, read)
            n = blanks = 0
        if bits & SPACE:
            blanks += 1 if code == 0x20 else 2
        else:
            if n == 0:
                bits_any = known = 0
                if blanks > 1 and of_words[SEEN_END]:  # such white space is a word to the tokenizer
                    of_words[LINE_SENTENCES] += 1
                    of_words[SEEN_END] = 0
            codes[n] = code
            ends[n] = rule == EXACT and not inside
            n += 1
            bits_any |= bits
            known |= kind
            of_words[STOP_CHARACTER_BITS] |= _stop_character_bit(code) if bits & CJK else 0
        before = bits
        at = after
        if n and rule != EXACT and not bits & CJK:
            run = n
            while at < stop and n < MAX_RUN_CHARS and 0x61 <= (data[at] | 0x20) <= 0x7A:  # the letters of ASCII, which are most of text
                codes[n] = data[at]
                of_chars[CAPITALS] += data[at] < 0x61
                n += 1
                at += 1
            if n > run:
                of_chars[ALL_CHARS] += n - run
                of_chars[LETTERS] += n - run
                of_chars[DOTS] = of_chars[ELLIPSIS_RUN] = 0
                before = ALPHA
                bits_any |= ALPHA
                known |= ALPHABETIC
    return of_words[LINE_SENTENCES]
