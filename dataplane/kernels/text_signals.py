"""Every signal of the published rules in one call: characters, words, lines, sentences, repetitions, over UTF-8 bytes.

Definitions follow Rae et al. 2021 (arXiv:2112.11446), A1.1 and table A1, Raffel et al. 2020 (arXiv:1910.10683), 2.2, Penedo et al. 2024
(arXiv:2406.17557), 3.6, Penedo et al. 2023 (arXiv:2306.01116), G.2, and the signals of RedPajama-V2 (arXiv:2411.12372), in the reading
of datatrove 0.10.1; docs/parity.md says where they differ. Shares over nothing (no words, no lines, no characters) are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels import lines as at_line
from dataplane.kernels import words as at_word
from dataplane.kernels.lines import enough_words, judge_as_c4, judge_as_fineweb, judge_as_gopher, line_break, without_citations
from dataplane.kernels.pointers import I64P, pointer
from dataplane.kernels.repetition import MAX_PIECES, capacity, scan_duplicates, scan_grams
from dataplane.kernels.tokens import MAX_RUN_CHARS
from dataplane.kernels.unicode import BOUNDS, I64, OCTETS, U8, classes, decode, strip, text_buffers
from dataplane.kernels.word_tables import CUTS, KEYS, KINDS, hash_of, word_tables
from dataplane.kernels.words import EXACT, PLAIN, REFERENCE, count_char, scan_words

F64 = npt.NDArray[np.float64]

# Order of the columns that `measure` fills.
SIGNALS = (
    "n_chars", "n_words", "n_tokens", "n_lines", "n_newlines", "mean_word_length", "hash_ratio", "ellipsis_ratio", "alphabetic_word_share",
    "capital_word_share", "stop_words", "stop_word_share", "stop_characters", "cjk_share", "digit_share", "capital_share",
    "curly_bracket_share",
    "bullet_line_share", "ellipsis_line_share", "terminal_line_share", "short_line_share", "capital_line_share", "numeric_line_share",
    "one_word_line_share", "long_lines", "javascript_lines", "policy_lines",
    "n_sentences", "lorem_ipsum_lines", "curly_bracket_lines",
    "n_terminal_sentences", "lorem_ipsum_terminal_lines", "curly_bracket_terminal_lines",
    "duplicate_line_share", "duplicate_line_char_share", "duplicate_paragraph_share", "duplicate_paragraph_char_share",
    "duplicate_filled_line_char_share",
    "distinct_word_share", "word_entropy", "top_2_gram_share", "top_3_gram_share", "top_4_gram_share",
    "duplicate_5_gram_share", "duplicate_6_gram_share", "duplicate_7_gram_share",
    "duplicate_8_gram_share", "duplicate_9_gram_share", "duplicate_10_gram_share", "longest_repeated_gram",
)  # fmt: skip
COUNTS = frozenset({
    "n_chars", "n_words", "n_tokens", "n_lines", "n_newlines", "stop_words", "stop_characters", "long_lines", "javascript_lines",
    "policy_lines", "n_sentences", "lorem_ipsum_lines", "curly_bracket_lines", "n_terminal_sentences", "lorem_ipsum_terminal_lines",
    "curly_bracket_terminal_lines", "longest_repeated_gram",
})  # fmt: skip

# Source: Rae et al. 2021, A1.1.
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
MAX_STOP_WORDS = 62  # of one language: they are counted as bits

# n-gram signals of a longer document are those of this many first words, which bounds memory at about 100 MB.
MAX_NGRAM_WORDS = 1 << 21

_COUNTS = 32  # room for the counts of any part
_DUPLICATES = SIGNALS.index("duplicate_line_share")
_GRAMS = SIGNALS.index("distinct_word_share")

_U64S, _I64S, _I32S = nb.uint64[::1], nb.int64[::1], nb.int32[::1]


class StopWords:
    """Lists of stop words as the kernel looks them up.

    Args:
        lists: Stop words by language, at most `MAX_STOP_WORDS` each.

    Attributes:
        hashes: uint64, those of one list after another, each sorted
        within: Language -> where its list begins and ends, and the characters of its longest word.
    """

    def __init__(self, lists: dict[str, Sequence[str]]) -> None:
        hashes: list[int] = []
        self.within: dict[str, tuple[int, int, int]] = {}
        for lang, words in lists.items():
            known = sorted({hash_of(word) for word in words})
            self.within[lang] = (len(hashes), len(hashes) + len(known), max(map(len, words), default=0))
            hashes += known
        self.hashes = np.array(hashes, np.uint64)

    def of(self, langs: Sequence[str | None]) -> npt.NDArray[np.int64]:
        """int64 [n, 3] for documents of these languages, an empty list for a language without one."""
        return np.array([self.within.get(lang or "", (0, 0, 0)) for lang in langs], np.int64).reshape(-1, 3)


ENGLISH = StopWords({"en": STOP_WORDS})


def measure(
    text: pa.Array,
    *,
    rule: int = REFERENCE,
    marks: U8 | None = None,
    stops: StopWords = ENGLISH,
    langs: Sequence[str | None] | None = None,
) -> F64:
    """The signals of each document.

    Args:
        text: large_string or string [n]; null reads as empty.
        rule: PAPER: words are runs of what is not white space, as Gopher was published. REFERENCE: what `tokens` cuts them into. A CJK
            character is a word either way. EXACT: what `marks` says, and every definition is datatrove's.
        marks: uint8, 1 where a word begins, for each byte of the array's buffer; if the rule is not EXACT, of CJK words alone.
        stops: Stop words by language.
        langs: Language of each document; left out, English.

    Returns:
        float64 [n, len(SIGNALS)], columns in the order of SIGNALS
    """
    data, offsets = text_buffers(text)
    n = len(offsets) - 1
    out = np.zeros((n, len(SIGNALS)), np.float64)
    if n:
        within = stops.of(langs if langs is not None else ["en"] * n)
        longest = int(np.diff(offsets).max())
        marked = marks if marks is not None else np.zeros(0, np.uint8)
        room = min(longest, MAX_NGRAM_WORDS)
        words = np.empty(room, np.uint64), np.zeros(room + 1, np.int32), np.zeros(room + 1, np.int32)
        size = capacity(min(longest, MAX_PIECES) + 1)  # a line for each byte, and one more
        grams = (
            np.empty(room, np.uint64),
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.empty(size, np.uint64),
            np.empty(size, np.int32),
        )
        run = np.empty(MAX_RUN_CHARS, np.int32), np.empty(MAX_RUN_CHARS + 1, np.uint8), np.empty(longest, np.uint8)
        counts, totals = np.zeros((4, _COUNTS), np.int64), np.empty((3, _COUNTS, n), np.int64)
        _measure(data, offsets, classes(), *word_tables(), marked, rule, stops.hashes, within, *words, *grams, *run, *counts, totals, out)
        out[:, :_DUPLICATES] = np.column_stack([*_words(*totals), *_lines(totals[2])])
    return out


def _words(chars: I64, words: I64, lines: I64) -> list[npt.NDArray[Any]]:
    """The columns over characters and words, from counts int64 [_COUNTS, n]."""
    every, solid = np.maximum(words[at_word.ALL_WORDS], 1), np.maximum(words[at_word.SOLID_WORDS], 1)
    total, letters = np.maximum(chars[at_word.ALL_CHARS], 1), np.maximum(chars[at_word.LETTERS], 1)
    return [
        chars[at_word.ALL_CHARS],
        words[at_word.SOLID_WORDS],
        words[at_word.ALL_WORDS],
        lines[at_line.LINES],
        lines[at_line.NEWLINES],
        words[at_word.SOLID_CHARS] / solid,
        chars[at_word.HASHES] / every,
        chars[at_word.ELLIPSES] / every,
        words[at_word.ALPHABETIC_WORDS] / every,
        words[at_word.CAPITAL_WORDS] / every,
        np.bitwise_count(words[at_word.STOP_BITS]),
        words[at_word.STOP_WORDS_MET] / every,
        np.bitwise_count(words[at_word.STOP_CHARACTER_BITS]),
        chars[at_word.CJK_LETTERS] / letters,
        chars[at_word.DIGITS] / total,
        chars[at_word.CAPITALS] / letters,
        chars[at_word.BRACKETS] / total,
    ]


def _lines(lines: I64) -> list[npt.NDArray[Any]]:
    """The columns over lines, from counts int64 [_COUNTS, n]."""
    every, filled = np.maximum(lines[at_line.LINES], 1), np.maximum(lines[at_line.FILLED], 1)
    shares = ((at_line.BULLETS, every), (at_line.ELLIPSIS_LINES, every), (at_line.ENDED, filled), (at_line.SHORT, filled))
    refined = (at_line.CAPITAL_LINES, at_line.NUMERIC_LINES, at_line.ONE_WORD_LINES)
    counted = (
        at_line.LONG_LINES, at_line.SCRIPT_LINES, at_line.POLICY_LINES, at_line.SENTENCES, at_line.LOREM_LINES, at_line.BRACKET_LINES,
        at_line.TERMINAL_SENTENCES, at_line.TERMINAL_LOREM_LINES, at_line.TERMINAL_BRACKET_LINES,
    )  # fmt: skip
    return [
        *(lines[part] / whole for part, whole in shares),
        *(lines[part] / every for part in refined),
        *(lines[part] for part in counted),
    ]


@nb.njit(nb.void(nb.int64, nb.int64, nb.int64, nb.int64, I64P), cache=True, nogil=True)
def _judge_as_refinedweb(letters, capitals, digits, words, counts):  # type: ignore[no-untyped-def]
    """Counts a line mainly in capitals, one of numbers alone, and one of a single word."""
    counts[at_line.CAPITAL_LINES] += 2 * capitals > letters
    counts[at_line.NUMERIC_LINES] += digits > 0 and letters == 0
    counts[at_line.ONE_WORD_LINES] += words == 1


@nb.njit(
    nb.void(
        OCTETS, BOUNDS, OCTETS, KINDS, KEYS, CUTS, KEYS, OCTETS, OCTETS, nb.int64, _U64S, nb.int64[:, ::1],
        _U64S, _I32S, _I32S, _U64S, _I32S, _I32S, _U64S, _I32S, _I32S, nb.uint8[::1], nb.uint8[::1],
        _I64S, _I64S, _I64S, _I64S, nb.int64[:, :, ::1], nb.float64[:, ::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def _measure(  # type: ignore[no-untyped-def]
    data_, offsets, table_, kinds_, keys_, cuts_, units_, shapes_, marks_, rule, stops_, within,
    hashes_, chars_, joined_, grams_, places_, slots_, table_keys_, table_counts_, codes_, ends_, plain_,
    of_chars_, of_words_, of_lines_, spare_, totals, out,
):  # fmt: skip
    data, table, kinds, keys, cuts, units = (
        pointer(data_),
        pointer(table_),
        pointer(kinds_),
        pointer(keys_),
        pointer(cuts_),
        pointer(units_),
    )
    shapes, marks, stops, hashes, chars, joined = (
        pointer(shapes_), pointer(marks_), pointer(stops_), pointer(hashes_), pointer(chars_), pointer(joined_),
    )  # fmt: skip
    grams, places, slots = pointer(grams_), pointer(places_), pointer(slots_)
    table_keys, table_counts = pointer(table_keys_), pointer(table_counts_)
    codes, ends, plain = pointer(codes_), pointer(ends_), pointer(plain_)
    of_chars, of_words, of_lines, spare = pointer(of_chars_), pointer(of_words_), pointer(of_lines_), pointer(spare_)
    marked, room, literal = len(marks_) > 0, len(hashes_), rule == EXACT
    for i in range(len(offsets) - 1):
        of_chars_[:] = of_words_[:] = of_lines_[:] = 0
        of_words[at_word.CUT] = -1
        low, high, most = within[i, 0], within[i, 1], within[i, 2]
        at = line = between = offsets[i]
        stop = offsets[i + 1]
        while line < stop:
            size = 0
            while at < stop:
                b = data[at]
                if b <= 0x1E or b == 0xC2 or b == 0xE2:  # no other byte begins a line break
                    size = line_break(data, at, stop)
                    if size:
                        break
                at += 1
            letters, capitals, digits = of_chars[at_word.LETTERS], of_chars[at_word.CAPITALS], of_chars[at_word.DIGITS]
            words = of_words[at_word.SOLID_WORDS]
            sentences = scan_words(
                data, line, at, table, kinds, keys, cuts, units, shapes, marked, marks, rule, stops, low, high, most, codes, ends, of_chars,
                of_words, room, hashes, chars, joined,
            )  # fmt: skip
            _judge_as_refinedweb(
                of_chars[at_word.LETTERS] - letters, of_chars[at_word.CAPITALS] - capitals, of_chars[at_word.DIGITS] - digits,
                of_words[at_word.SOLID_WORDS] - words, of_lines,
            )  # fmt: skip
            start, end = strip(data, line, at, table)
            if start < end:
                judge_as_gopher(data, start, end, literal, of_lines)
                if enough_words(data, start, end, table, literal) and judge_as_c4(
                    data, start, end, table, kinds, sentences, literal, of_lines
                ):
                    length = without_citations(data, start, end, plain)
                    sentences = scan_words(
                        plain, 0, length, table, kinds, keys, cuts, units, shapes, False, marks, PLAIN if literal else REFERENCE, stops,
                        low, high, most, codes, ends, spare, spare, 0, hashes, chars, joined,
                    )  # fmt: skip
                    judge_as_c4(plain, 0, length, table, kinds, sentences, literal, of_lines)
            broken = at
            at += size
            while broken < at:
                code, broken = decode(data, broken, at)
                count_char(code, nb.int64(table[code]), nb.int64(kinds[code]), literal, of_chars)
            of_lines[at_line.LINES] += 1
            if size and data[at - 1] == 0x0A:
                of_lines[at_line.NEWLINES] += 1
                judge_as_fineweb(data, between, at - 1, table, kinds, literal, of_lines)
                between = at
            line = at
        judge_as_fineweb(data, between, stop, table, kinds, literal, of_lines)
        for k in range(_COUNTS):
            totals[0, k, i], totals[1, k, i], totals[2, k, i] = of_chars[k], of_words[k], of_lines[k]
        total = of_chars[at_word.ALL_CHARS]
        scan_duplicates(data_, offsets[i], stop, total, of_lines[at_line.NEWLINES], table, table_keys, out[i, _DUPLICATES:])
        kept, cut = of_words[at_word.KEPT], of_words[at_word.CUT]
        if kept:
            total = total if cut < 0 else cut
            scan_grams(kept, total, hashes, chars, joined, grams, places, slots, table_keys, table_counts, out[i, _GRAMS:])
