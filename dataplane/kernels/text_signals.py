"""Every signal of the Gopher rules in one call: words, symbols, lines, repetitions, over UTF-8 bytes.

Definitions follow Rae et al. 2021 (arXiv:2112.11446), A1.1 and table A1, in the reading of datatrove 0.10.1; where this
module differs it says so. Shares over nothing (no words, no lines, no characters) are 0.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.hashing import xxh64
from dataplane.kernels.unicode import (
    ALPHA,
    BOUNDS,
    CJK,
    DIGIT,
    OCTETS,
    SOLID,
    SPACE,
    TERMINAL,
    WORD,
    classes,
    count_chars,
    decode,
    previous,
    text_buffers,
)

F64 = npt.NDArray[np.float64]

# Order of the columns that `measure` fills.
SIGNALS = (
    "n_chars", "n_words", "n_lines", "mean_word_length", "hash_ratio", "ellipsis_ratio", "alphabetic_word_share",
    "stop_words", "stop_characters", "cjk_share", "digit_share",
    "bullet_line_share", "ellipsis_line_share", "terminal_line_share",
    "duplicate_line_share", "duplicate_line_char_share", "duplicate_paragraph_share", "duplicate_paragraph_char_share",
    "top_2_gram_share", "top_3_gram_share", "top_4_gram_share",
    "duplicate_5_gram_share", "duplicate_6_gram_share", "duplicate_7_gram_share",
    "duplicate_8_gram_share", "duplicate_9_gram_share", "duplicate_10_gram_share",
)  # fmt: skip
COUNTS = frozenset({"n_chars", "n_words", "n_lines", "stop_words", "stop_characters"})

# Source: Rae et al. 2021, A1.1.
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
# Function characters, either script: found in nearly every passage of modern or vernacular Chinese prose, and rare in
# lists of names, menus and keyword spam. Source: heads of the frequency lists of modern Chinese (Jun Da, 2004).
STOP_CHARACTERS = ("的", "是", "不", "了", "在", "有", "和", "这")
STOP_CHARACTER_VARIANTS = {"這": "这"}

# n-gram signals of a longer document are those of this many first words, which bounds memory at about 100 MB.
MAX_NGRAM_WORDS = 1 << 21

_LINES = SIGNALS.index("bullet_line_share")
_DUPLICATES = SIGNALS.index("duplicate_line_share")
_GRAMS = SIGNALS.index("top_2_gram_share")
_LINE_COUNT = SIGNALS.index("n_lines")

_PRIME = np.uint64(0x9E3779B185EBCA87)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(32)

_BULLET, _ELLIPSIS, _ENDED, _FILLED = 1, 2, 4, 8
_U64S, _I32S = nb.uint64[::1], nb.int32[::1]


def _pack_word(word: str) -> int:
    return int.from_bytes(word.encode(), "big")


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


@nb.njit(nb.boolean(nb.int64, nb.int64, nb.int64, nb.boolean), inline="always", cache=True, nogil=True)
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


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, OCTETS, nb.boolean, _U64S, _I32S, _I32S, nb.float64[::1]), cache=True, nogil=True)
def _scan_words(data, start, stop, table, paper, hashes, chars, joined, row):  # type: ignore[no-untyped-def]
    """Fills the word signals, and the hash, length and length-with-a-space of each word; returns how many were kept."""
    n_chars = n_cjk = n_alpha = n_digits = n_hashes = n_ellipses = 0
    n_units = n_solid = n_solid_chars = n_alpha_units = 0
    stop_words = stop_characters = 0
    dots = leaders = 0  # lengths of the runs of "." and "…" that end here
    length = 0  # of the word being read
    bits_before = bits_any = 0
    key = nb.int64(0)
    h = _PRIME
    gap = last_cjk = 0
    kept, limit = 0, len(hashes)
    chars[0] = joined[0] = 0
    at = start
    while at <= stop:
        if at < stop:
            code, after = decode(data, at, stop)
            bits = nb.int64(table[code])
            n_chars += 1
            n_cjk += (bits & CJK) != 0
            n_alpha += (bits & ALPHA) != 0
            n_digits += (bits & DIGIT) != 0
            n_hashes += code == 0x23
            dots = dots + 1 if code == 0x2E else 0
            leaders = leaders + 1 if code == 0x2026 else 0
            n_ellipses += (dots > 0 and dots % 3 == 0) + (leaders & 1)  # "……" is one ellipsis of Chinese
        else:
            code, after, bits = nb.int64(0), stop + 1, nb.int64(SPACE)
        goes_on = not (bits & SPACE) and _joins(bits, bits_before, length, paper)
        if length and not goes_on:
            n_units += 1
            n_alpha_units += (bits_any & ALPHA) != 0
            if bits_any & SOLID:
                n_solid += 1
                n_solid_chars += length
            if length <= 4:
                stop_words |= _stop_word_bit(key)
            if kept < limit:
                is_cjk = 1 if bits_any & CJK else 0
                gap = 0 if kept == 0 or is_cjk or last_cjk else 1
                last_cjk = is_cjk
                hashes[kept] = (h ^ (h >> _SHIFT)) * _MIX
                chars[kept + 1] = chars[kept] + length
                joined[kept + 1] = joined[kept] + length + gap
                kept += 1
            length = 0
        if not bits & SPACE:
            if length == 0:
                h, key, bits_any = _PRIME, nb.int64(0), 0
                if bits & CJK:
                    stop_characters |= _stop_character_bit(code)
            length += 1
            bits_any |= bits
            h = (h ^ nb.uint64(code)) * _PRIME
            h ^= h >> _SHIFT
            if length <= 4:
                lower = code + 32 if 65 <= code <= 90 else code
                key = (key << 8) | (lower if lower < 128 else 255)
        bits_before = bits
        at = after
    row[0], row[1] = n_chars, n_solid
    row[3] = n_solid_chars / max(n_solid, 1)
    row[4] = n_hashes / max(n_units, 1)
    row[5] = n_ellipses / max(n_units, 1)
    row[6] = n_alpha_units / max(n_units, 1)
    row[7], row[8] = _ones(stop_words), _ones(stop_characters)
    row[9] = n_cjk / max(n_alpha, 1)
    row[10] = n_digits / max(n_chars, 1)
    return kept


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64), inline="always", cache=True, nogil=True)
def _line_break(data, at, stop):  # type: ignore[no-untyped-def]
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


@nb.njit(nb.types.UniTuple(nb.int64, 2)(OCTETS, nb.int64, nb.int64, OCTETS), cache=True, nogil=True)
def _strip(data, start, stop, table):  # type: ignore[no-untyped-def]
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


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, OCTETS), cache=True, nogil=True)
def _line_kinds(data, start, stop, table):  # type: ignore[no-untyped-def]
    """Kinds of one line as bits."""
    start, stop = _strip(data, start, stop, table)
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
    return kinds


@nb.njit(nb.void(OCTETS, nb.int64, nb.int64, OCTETS, nb.float64[::1]), cache=True, nogil=True)
def _scan_lines(data, start, stop, table, row):  # type: ignore[no-untyped-def]
    """Fills the signals over lines, which end as str.splitlines ends them."""
    lines = bullets = ellipses = ended = filled = 0
    at = line = start
    while line < stop:
        size = 0
        while at < stop:
            b = data[at]
            if b <= 0x1E or b == 0xC2 or b == 0xE2:  # no other byte begins a line break
                size = _line_break(data, at, stop)
                if size:
                    break
            at += 1
        kinds = _line_kinds(data, line, at, table)
        lines += 1
        bullets += (kinds & _BULLET) != 0
        ellipses += (kinds & _ELLIPSIS) != 0
        ended += (kinds & _ENDED) != 0
        filled += (kinds & _FILLED) != 0
        at += size
        line = at
    row[_LINE_COUNT] = lines
    row[_LINES] = bullets / max(lines, 1)
    row[_LINES + 1] = ellipses / max(lines, 1)
    row[_LINES + 2] = ended / max(filled, 1)


@nb.njit(nb.int64(_U64S, nb.uint64), inline="always", cache=True, nogil=True)
def _slot(keys, key):  # type: ignore[no-untyped-def]
    """Where a key lies, or the empty place (0) where it would. The table's size is a power of two, and it is never full."""
    mask = len(keys) - 1
    at = nb.int64(key >> np.uint64(20)) & mask
    while keys[at] != 0 and keys[at] != key:
        at = (at + 1) & mask
    return at


@nb.njit(nb.int64(nb.int64), cache=True, nogil=True)
def _capacity(n):  # type: ignore[no-untyped-def]
    """Size of a hash table for n keys: a power of two, at least twice n."""
    size = 8
    while size < 2 * n:
        size *= 2
    return size


@nb.njit(nb.types.UniTuple(nb.int64, 3)(OCTETS, nb.int64, nb.int64, nb.int64), cache=True, nogil=True)
def _repeats(data, start, stop, newlines):  # type: ignore[no-untyped-def]
    """Pieces between runs of at least `newlines` newlines; those that came before, and their characters."""
    pieces = 1
    for i in range(start, stop):
        pieces += data[i] == 0x0A
    keys = np.zeros(_capacity(pieces), np.uint64)
    pieces = repeats = chars = 0
    at = piece = start
    while at <= stop:
        while at < stop and data[at] != 0x0A:
            at += 1
        run = at
        while run < stop and data[run] == 0x0A:
            run += 1
        if at < stop and run - at < newlines:
            at = run
            continue
        key = xxh64(data, piece, at, np.uint64(0)) | np.uint64(1)
        slot = _slot(keys, key)
        if keys[slot] == key:
            repeats += 1
            chars += count_chars(data, piece, at)
        keys[slot] = key
        pieces += 1
        piece = run
        at = run if run > at else at + 1
    return pieces, repeats, chars


@nb.njit(nb.void(OCTETS, nb.int64, nb.int64, OCTETS, nb.float64[::1]), cache=True, nogil=True)
def _scan_duplicates(data, start, stop, table, row):  # type: ignore[no-untyped-def]
    """Fills the shares of repeated lines and paragraphs."""
    total = max(row[0], 1.0)
    pieces, repeats, chars = _repeats(data, start, stop, 1)
    row[_DUPLICATES] = repeats / pieces
    row[_DUPLICATES + 1] = chars / total
    first, last = _strip(data, start, stop, table)
    pieces, repeats, chars = _repeats(data, first, last, 2)
    row[_DUPLICATES + 2] = repeats / pieces
    row[_DUPLICATES + 3] = chars / total


@nb.njit(_I32S(nb.int64, nb.int64, _U64S, _U64S, _I32S, _I32S, _U64S, _I32S), cache=True, nogil=True)
def _count_grams(n, size, grams, hashes, places, slots, keys, counts):  # type: ignore[no-untyped-def]
    """Lengthens the n-grams at `places` by a word and counts them; returns the places of those found more than once."""
    room = _capacity(len(places))
    keys = keys[:room]
    keys[:] = 0
    counts[:room] = 0
    for at in places:
        if at + size > n:
            continue
        h = (grams[at] ^ (grams[at] >> _SHIFT)) * _PRIME + hashes[at + size - 1]
        grams[at] = h
        key = (h ^ (h >> np.uint64(29))) * _MIX | np.uint64(1)
        slot = _slot(keys, key)
        keys[slot] = key
        counts[slot] += 1
        slots[at] = slot
    kept = 0
    again = np.empty(len(places), np.int32)
    for at in places:
        if at + size <= n and counts[slots[at]] > 1:
            again[kept] = at
            kept += 1
    return again[:kept]


@nb.njit(nb.int64(nb.int64, _I32S, _I32S, _I32S, _I32S, _I32S), cache=True, nogil=True)
def _top_chars(size, places, slots, counts, chars, joined):  # type: ignore[no-untyped-def]
    """Characters of the most frequent n-gram (the first of equals), spaces between its words included, times its count."""
    best, where = 0, 0
    for at in places:
        if counts[slots[at]] > best:
            best, where = counts[slots[at]], at
    gap = (joined[where + 1] - joined[where]) - (chars[where + 1] - chars[where])
    return best * (joined[where + size] - joined[where] - gap)


@nb.njit(nb.int64(nb.int64, _I32S, _I32S, _I32S, _I32S), cache=True, nogil=True)
def _duplicate_chars(size, places, slots, counts, chars):  # type: ignore[no-untyped-def]
    """Characters of n-grams that came before; the window jumps over each one found."""
    total = free = 0
    for at in places:
        if at < free:
            continue
        if counts[slots[at]] < 0:
            total += chars[at + size] - chars[at]
            free = at + size
        else:
            counts[slots[at]] = -1
    return total


@nb.njit(nb.void(nb.int64, _U64S, _I32S, _I32S, nb.float64[::1]), cache=True, nogil=True)
def _scan_grams(n, hashes, chars, joined, row):  # type: ignore[no-untyped-def]
    """Fills the n-gram signals. An n-gram can only repeat where its first n - 1 words do, so each round looks at fewer."""
    grams = hashes[:n].copy()
    places = np.arange(n).astype(np.int32)
    slots = np.empty(n, np.int32)
    keys = np.empty(_capacity(n), np.uint64)
    counts = np.empty(len(keys), np.int32)
    total = row[0] if n < MAX_NGRAM_WORDS else joined[n]
    for size in range(2, 11):
        places = _count_grams(n, size, grams, hashes, places, slots, keys, counts)
        if len(places) == 0:
            return
        if size <= 4:
            found = _top_chars(size, places, slots, counts, chars, joined)
        else:
            found = _duplicate_chars(size, places, slots, counts, chars)
        row[_GRAMS + size - 2] = min(found / total, 1.0)


@nb.njit(nb.void(OCTETS, BOUNDS, OCTETS, nb.boolean, nb.int64, nb.float64[:, ::1]), cache=True, nogil=True)
def _measure(data, offsets, table, paper, max_words, out):  # type: ignore[no-untyped-def]
    hashes = np.empty(max_words, np.uint64)
    chars = np.empty(max_words + 1, np.int32)
    joined = np.empty(max_words + 1, np.int32)
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        n = _scan_words(data, start, stop, table, paper, hashes, chars, joined, out[i])
        _scan_lines(data, start, stop, table, out[i])
        _scan_duplicates(data, start, stop, table, out[i])
        if n >= 2:
            _scan_grams(n, hashes, chars, joined, out[i])
