"""Every signal of the Gopher rules in one call: words, symbols, lines, repetitions, over UTF-8 bytes.

Definitions follow Rae et al. 2021 (arXiv:2112.11446), A1.1 and table A1, in the reading of datatrove 0.10.1; where this
module differs it says so. Shares over nothing (no words, no lines, no characters) are 0.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.lines import scan_lines
from dataplane.kernels.repetition import scan_duplicates, scan_grams
from dataplane.kernels.unicode import (
    ALPHA,
    BOUNDS,
    CJK,
    DIGIT,
    OCTETS,
    SOLID,
    SPACE,
    WORD,
    classes,
    decode,
    text_buffers,
)

F64 = npt.NDArray[np.float64]

# Order of the columns that `measure` fills.
SIGNALS = (
    "n_chars", "n_words", "n_lines", "mean_word_length", "hash_ratio", "ellipsis_ratio", "alphabetic_word_share",
    "stop_words", "stop_characters", "cjk_share", "digit_share", "n_tokens",
    "n_newlines", "bullet_line_share", "ellipsis_line_share", "terminal_line_share", "short_line_share",
    "n_sentences", "lorem_ipsum_lines", "curly_bracket_lines",
    "duplicate_line_share", "duplicate_line_char_share", "duplicate_paragraph_share", "duplicate_paragraph_char_share",
    "duplicate_filled_line_char_share",
    "top_2_gram_share", "top_3_gram_share", "top_4_gram_share",
    "duplicate_5_gram_share", "duplicate_6_gram_share", "duplicate_7_gram_share",
    "duplicate_8_gram_share", "duplicate_9_gram_share", "duplicate_10_gram_share",
)  # fmt: skip
COUNTS = frozenset({
    "n_chars", "n_words", "n_lines", "stop_words", "stop_characters", "n_tokens",
    "n_newlines", "n_sentences", "lorem_ipsum_lines", "curly_bracket_lines",
})  # fmt: skip

# Source: Rae et al. 2021, A1.1.
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
# Function characters, either script: found in nearly every passage of modern or vernacular Chinese prose, and rare in
# lists of names, menus and keyword spam. Source: heads of the frequency lists of modern Chinese (Jun Da, 2004).
STOP_CHARACTERS = ("的", "是", "不", "了", "在", "有", "和", "这")
STOP_CHARACTER_VARIANTS = {"這": "这"}

# n-gram signals of a longer document are those of this many first words, which bounds memory at about 100 MB.
MAX_NGRAM_WORDS = 1 << 21

_LINES = SIGNALS.index("n_newlines")
_DUPLICATES = SIGNALS.index("duplicate_line_share")
_GRAMS = SIGNALS.index("top_2_gram_share")
_LINE_COUNT = SIGNALS.index("n_lines")

_PRIME = np.uint64(0x9E3779B185EBCA87)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(32)

_STOP_WORD_CHARS = max(map(len, STOP_WORDS))

_U64S, _I32S = nb.uint64[::1], nb.int32[::1]


_KEY_START = 1  # keeps a word apart from one with NULs before it


def _pack_word(word: str) -> int:
    return int.from_bytes(bytes([_KEY_START]) + word.encode(), "big")


_STOP_KEYS = np.array([_pack_word(word) for word in STOP_WORDS], np.int64)
_STOP_CODES = np.array([ord(char) for char in STOP_CHARACTERS] + [ord(char) for char in STOP_CHARACTER_VARIANTS], np.int64)
_STOP_CODE_BITS = np.array(
    [*range(len(STOP_CHARACTERS)), *(STOP_CHARACTERS.index(plain) for plain in STOP_CHARACTER_VARIANTS.values())], np.int64
)


def measure(text: pa.Array, *, paper: bool = False) -> F64:
    """The signals of each document.

    Args:
        text: large_string or string [n]; null reads as empty.
        paper: Words are runs of what is not white space, as Gopher was published; else runs of word characters and runs
            of punctuation. A CJK character is a word either way.

    Returns:
        float64 [n, len(SIGNALS)], columns in the order of SIGNALS
    """
    data, offsets = text_buffers(text)
    out = np.zeros((len(offsets) - 1, len(SIGNALS)), np.float64)
    if len(out):
        longest = int(np.diff(offsets).max())
        _measure(data, offsets, classes(), paper, min(longest, MAX_NGRAM_WORDS), out)
    return out


@nb.njit(nb.boolean(nb.int64, nb.int64, nb.int64, nb.boolean), cache=True, nogil=True)
def _joins(bits, before, length, paper):  # type: ignore[no-untyped-def]
    """Whether a character goes on with the word of which `before` is the last one."""
    if length == 0 or (bits | before) & CJK:
        return False
    return paper or (bits & WORD) == (before & WORD)


@nb.njit(nb.int64(nb.int64), cache=True, nogil=True)
def _stop_word_bit(key):  # type: ignore[no-untyped-def]
    for i in range(len(_STOP_KEYS)):
        if _STOP_KEYS[i] == key:
            return 1 << i
    return 0


@nb.njit(nb.int64(nb.int64), cache=True, nogil=True)
def _stop_character_bit(code):  # type: ignore[no-untyped-def]
    for i in range(len(_STOP_CODES)):
        if _STOP_CODES[i] == code:
            return 1 << _STOP_CODE_BITS[i]
    return 0


@nb.njit(nb.int64(nb.int64), cache=True, nogil=True)
def _ones(bits):  # type: ignore[no-untyped-def]
    total = 0
    while bits:
        total += bits & 1
        bits >>= 1
    return total


@nb.njit(nb.void(nb.int64, nb.int64, nb.int64[::1]), cache=True, nogil=True)
def _count_char(code, bits, counts):  # type: ignore[no-untyped-def]
    """Counts one character: all, letters, CJK, digits, hash signs, ellipses; then the runs of "." and "…" that end here."""
    counts[0] += 1
    if bits & ALPHA:
        counts[1] += 1
        counts[2] += (bits & CJK) != 0
        counts[6] = counts[7] = 0
        return
    counts[3] += (bits & DIGIT) != 0
    counts[4] += code == 0x23
    counts[6] = counts[6] + 1 if code == 0x2E else 0
    counts[7] = counts[7] + 1 if code == 0x2026 else 0
    # Three dots are an ellipsis; so are "…" and the "……" of Chinese.
    counts[5] += (counts[6] > 0 and counts[6] % 3 == 0) + (counts[7] & 1)


@nb.njit(nb.void(nb.int64, nb.int64, nb.int64, nb.int64[::1]), cache=True, nogil=True)
def _count_word(bits, length, key, counts):  # type: ignore[no-untyped-def]
    """Counts one word: all, those with a letter or number and their characters, those with a letter, the stop words met."""
    counts[0] += 1
    counts[3] += (bits & ALPHA) != 0
    if bits & SOLID:
        counts[1] += 1
        counts[2] += length
    if length <= _STOP_WORD_CHARS:
        counts[4] |= _stop_word_bit(key)


@nb.njit(nb.void(nb.int64[::1], nb.int64[::1], nb.float64[::1]), cache=True, nogil=True)
def _fill_words(of_chars, of_words, row):  # type: ignore[no-untyped-def]
    """The first columns of a row, but for the number of lines."""
    words, solid, total, letters = max(of_words[0], 1), max(of_words[1], 1), max(of_chars[0], 1), max(of_chars[1], 1)
    row[0], row[1] = of_chars[0], of_words[1]
    row[3] = of_words[2] / solid
    row[4] = of_chars[4] / words
    row[5] = of_chars[5] / words
    row[6] = of_words[3] / words
    row[7], row[8] = _ones(of_words[4]), _ones(of_words[5])
    row[9] = of_chars[2] / letters
    row[10] = of_chars[3] / total
    row[11] = of_words[0]


@nb.njit(
    nb.types.UniTuple(nb.int64, 2)(OCTETS, nb.int64, nb.int64, OCTETS, nb.boolean, _U64S, _I32S, _I32S, nb.float64[::1]),
    cache=True,
    nogil=True,
)
def _scan_words(data, start, stop, table, paper, hashes, chars, joined, row):  # type: ignore[no-untyped-def]
    """Fills the word signals, and the hash of each word with the lengths before it (see `repetition.scan_grams`).

    Returns how many words were kept, and the text's characters up to there.
    """
    of_chars, of_words = np.zeros(8, np.int64), np.zeros(6, np.int64)
    kept, cut = 0, -1
    length = before = bits_any = last_cjk = 0
    key, h = nb.int64(0), _PRIME
    chars[0] = joined[0] = 0
    at = start
    while at <= stop:
        code, bits, after = nb.int64(0x20), nb.int64(SPACE), stop + 1  # the end ends the last word
        if at < stop:
            code, after = decode(data, at, stop)
            bits = nb.int64(table[code])
            _count_char(code, bits, of_chars)
        if length and (bits & SPACE or not _joins(bits, before, length, paper)):
            _count_word(bits_any, length, key, of_words)
            if kept < len(hashes):
                is_cjk = 1 if bits_any & CJK else 0
                hashes[kept] = (h ^ (h >> _SHIFT)) * _MIX
                chars[kept + 1] = chars[kept] + length
                joined[kept + 1] = joined[kept] + length + (0 if kept == 0 or is_cjk or last_cjk else 1)
                kept, last_cjk = kept + 1, is_cjk
            elif cut < 0:
                cut = of_chars[0] - length - (1 if at < stop else 0)
            length = 0
        if not bits & SPACE:
            if length == 0:
                h, key, bits_any = _PRIME, nb.int64(_KEY_START), 0
                of_words[5] |= _stop_character_bit(code) if bits & CJK else 0
            length += 1
            bits_any |= bits
            h = (h ^ nb.uint64(code)) * _PRIME
            h ^= h >> _SHIFT
            if length <= _STOP_WORD_CHARS:
                key = (key << 8) | (code + 32 if 65 <= code <= 90 else min(code, 255))
        before = bits
        at = after
    _fill_words(of_chars, of_words, row)
    return kept, (of_chars[0] if cut < 0 else cut)


@nb.njit(nb.void(OCTETS, BOUNDS, OCTETS, nb.boolean, nb.int64, nb.float64[:, ::1]), cache=True, nogil=True)
def _measure(data, offsets, table, paper, max_words, out):  # type: ignore[no-untyped-def]
    hashes = np.empty(max_words, np.uint64)
    chars = np.empty(max_words + 1, np.int32)
    joined = np.empty(max_words + 1, np.int32)
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        n, total = _scan_words(data, start, stop, table, paper, hashes, chars, joined, out[i])
        out[i, _LINE_COUNT] = scan_lines(data, start, stop, table, out[i, _LINES:])
        scan_duplicates(data, start, stop, table, out[i, _DUPLICATES:])
        if n >= 2:
            scan_grams(n, total, hashes, chars, joined, out[i, _GRAMS:])
