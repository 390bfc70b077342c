"""Documents cut into lines, what the lines are made of, and documents put together again from those that stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.kernels.kept import kept
from dataplane.kernels.lines import line_break
from dataplane.kernels.unicode import (
    BOUNDS,
    CJK,
    DIGIT,
    I32,
    I64,
    N_CODE_POINTS,
    OCTETS,
    SOLID,
    SPACE,
    U8,
    classes,
    decode,
    strip,
    text_buffers,
)

Mask = npt.NDArray[np.bool_]

# Columns of `Lines.counts`.
WORDS, SOLID_WORDS, LONGEST, CJK_CHARS, CHARS, UPPER, DIGITS, OTHERS = range(8)
_N_COUNTS = 8
_NEWLINE = 0x0A
# What numbers are written with beside digits: "1,234.56", "12/04/2020", "10:30", "3-4", "№ 5", "50%".
_NUMBER_SIGNS = ".,:;/-–()+%#№·'’，．：／－％（）"


@dataclass(frozen=True)
class Lines:
    """The lines of n documents, as str.splitlines cuts them; m in all.

    Attributes:
        data: uint8, the UTF-8 bytes that the bounds lie in.
        first: int64 [n + 1], the first line of each document.
        bounds: int64 [m + 1], where each line begins; it ends, its line break included, where the next one begins.
        stops: int64 [m], where its line break begins.
        inner: int64 [m, 2], bounds of the line without the white space around it.
    """

    data: U8
    first: I64
    bounds: I64
    stops: I64
    inner: I64

    @property
    def blank(self) -> Mask:
        """Lines of white space alone: bool [m]."""
        empty: Mask = self.inner[:, 0] == self.inner[:, 1]
        return empty

    def whole(self) -> pa.Array:
        """The lines with their line breaks: large_string [m] that shares the bytes of the documents."""
        return _strings(self.bounds, self.data)

    def stripped(self) -> pa.Array:
        """The lines without the white space around them: large_string [m]."""
        return _strings(*_gather(self.data, self.inner))

    def counts(self) -> I32:
        """What each line is made of.

        Returns:
            int32 [m, 8]: words between white space, those with a letter or number, and characters of the longest, a CJK
            character being a word; CJK characters; characters but white space; upper-case letters; digits; characters that
            are no digit, no white space and no sign that numbers are written with
        """
        return _counts(self.data, self.inner, classes(), _letters_and_signs())  # type: ignore[no-any-return]

    def per_document(self, lines: Mask) -> pa.Array:
        """How many of these lines each document has: int32 [n]."""
        return self.sums(lines)

    def sums(self, values: npt.NDArray[Any]) -> pa.Array:
        """Sum of a value of its lines in each document: int32 [n]."""
        total = np.concatenate([np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)])
        return pa.array(np.diff(total[self.first]).astype(np.int32))

    def lost_share(self, kept: Mask, words: npt.NDArray[Any]) -> pa.Array:
        """Share of a document's words that is in lines that do not stay: float32 [n], 0 where there is no word."""
        lost, all_words = self.sums(np.where(kept, 0, words)).to_numpy(), self.sums(words).to_numpy()
        return pa.array((lost / np.maximum(all_words, 1)).astype(np.float32))

    def respaced(self, kept: Mask) -> Mask:
        """Kept lines that another line break or the loss of white space changes where lines are stripped and put together with \\n."""
        return kept & (self._padded() | self._broken_otherwise())

    def _padded(self) -> Mask:
        padded: Mask = (self.inner[:, 0] != self.bounds[:-1]) | (self.inner[:, 1] != self.stops)
        return padded

    def _broken_otherwise(self) -> Mask:
        size = np.diff(self.bounds)
        breaks = self.bounds[1:] - self.stops
        last = np.zeros(len(size), np.bool_)
        last[self.first[1:][np.diff(self.first) > 0] - 1] = True
        newline = (breaks == 1) & (self.data[self.bounds[1:] - 1] == _NEWLINE) if len(size) else last
        return np.where(last, breaks > 0, ~newline)


def cut(text: pa.Array) -> Lines:
    """Cuts documents into lines.

    Args:
        text: string or large_string [n]; null reads as empty, and an empty document has no line.
    """
    data, offsets = text_buffers(text)
    return Lines(data, *_cut(data, offsets, classes()))


def found(lines: pa.Array, pattern: str, among: Mask) -> Mask:
    """Lines among some that an RE2 pattern is found in: bool [m]."""
    rows = np.flatnonzero(among)
    chosen = lines if len(rows) == len(lines) else lines.take(pa.array(rows))
    out = np.zeros(len(lines), np.bool_)
    out[rows] = pc.match_substring_regex(chosen, pattern).to_numpy(zero_copy_only=False)
    return out


def join(lines: pa.Array, kept: Mask, first: I64, *, newline: bool) -> pa.Array:
    """Puts documents together from the lines that stay.

    Args:
        lines: large_string [m]
        kept: bool [m]
        first: int64 [n + 1], the first line of each document.
        newline: Whether \\n goes between lines; otherwise they hold their line breaks, and one that was not last in its document loses its
            own where it is last now.

    Returns:
        large_string [n]
    """
    data, offsets = text_buffers(lines)
    return _strings(*_join(data, offsets, kept, first, newline))


def tidy(kept: Mask, blank: Mask, first: I64) -> Mask:
    """Takes out the blank lines that the loss of others leaves at an end or beside a blank line: bool [m]."""
    return _tidy(kept, blank, first)  # type: ignore[no-any-return]


def _strings(offsets: I64, data: U8) -> pa.Array:
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


_UPPER_BIT, _NUMBER_BIT = 1, 2


@kept()
def _letters_and_signs() -> U8:
    """Whether a code point is an upper-case letter, or a sign that numbers are written with: uint8 [0x110000] of bits."""
    table = np.zeros(N_CODE_POINTS, np.uint8)
    for code in range(0x20000):
        table[code] = _UPPER_BIT * chr(code).isupper()
    for sign in _NUMBER_SIGNS:
        table[ord(sign)] = _NUMBER_BIT
    return table


@nb.njit(nb.boolean(nb.uint8), inline="always", cache=True, nogil=True)
def _can_break(octet):  # type: ignore[no-untyped-def]
    """Whether a line break can begin with this byte."""
    return octet <= 0x1E or octet == 0xC2 or octet == 0xE2


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64), cache=True, nogil=True)
def _next_break(data, at, stop):  # type: ignore[no-untyped-def]
    """Where the next line break begins, `stop` where there is none."""
    while at < stop:
        if _can_break(data[at]) and line_break(data, at, stop):
            return at
        at += 1
    return stop


_I64S = nb.int64[::1]
_CUT = nb.types.Tuple((_I64S, _I64S, _I64S, nb.int64[:, ::1]))


@nb.njit(_CUT(OCTETS, BOUNDS, OCTETS), cache=True, nogil=True)
def _cut(data, offsets, table):  # type: ignore[no-untyped-def]
    n = len(offsets) - 1
    room = n
    for at in range(offsets[0], offsets[n]):
        room += _can_break(data[at])
    first = np.zeros(n + 1, np.int64)
    bounds, stops, inner = np.empty(room + 1, np.int64), np.empty(room, np.int64), np.empty((room, 2), np.int64)
    bounds[0] = offsets[0]
    k = 0
    for i in range(n):
        at, stop = offsets[i], offsets[i + 1]
        while at < stop:
            end = _next_break(data, at, stop)
            inner[k, 0], inner[k, 1] = strip(data, at, end, table)
            stops[k] = end
            at = end + line_break(data, end, stop) if end < stop else end
            bounds[k + 1] = at
            k += 1
        first[i + 1] = k
    return first, bounds[: k + 1].copy(), stops[:k].copy(), inner[:k].copy()


@nb.njit(nb.types.Tuple((_I64S, nb.uint8[::1]))(OCTETS, nb.int64[:, ::1]), cache=True, nogil=True)
def _gather(data, inner):  # type: ignore[no-untyped-def]
    offsets = np.zeros(len(inner) + 1, np.int64)
    for i in range(len(inner)):
        offsets[i + 1] = offsets[i] + inner[i, 1] - inner[i, 0]
    out = np.empty(offsets[-1], np.uint8)
    for i in range(len(inner)):
        out[offsets[i] : offsets[i + 1]] = data[inner[i, 0] : inner[i, 1]]
    return offsets, out


@nb.njit(nb.void(OCTETS, nb.int64, nb.int64, OCTETS, OCTETS, nb.int32[::1]), cache=True, nogil=True)
def _count(data, at, stop, table, signs, row):  # type: ignore[no-untyped-def]
    words = solid_words = longest = cjk = chars = upper = digits = others = 0
    length, solid = 0, False
    before = nb.int64(SPACE)
    while at < stop:
        code, at = decode(data, at, stop)
        bits, sign = nb.int64(table[code]), signs[code]
        if bits & SPACE:
            length, before = 0, bits
            continue
        if length == 0 or (bits | before) & CJK:
            length, solid = 0, False
            words += 1
        length += 1
        longest = max(longest, length)
        solid_words += bits & SOLID != 0 and not solid
        solid = solid or bits & SOLID != 0
        cjk += bits & CJK != 0
        chars += 1
        upper += sign & _UPPER_BIT
        digits += bits & DIGIT != 0
        others += bits & DIGIT == 0 and sign & _NUMBER_BIT == 0
        before = bits
    row[WORDS], row[SOLID_WORDS], row[LONGEST], row[CJK_CHARS] = words, solid_words, longest, cjk
    row[CHARS], row[UPPER], row[DIGITS], row[OTHERS] = chars, upper, digits, others


@nb.njit(nb.int32[:, ::1](OCTETS, nb.int64[:, ::1], OCTETS, OCTETS), cache=True, nogil=True)
def _counts(data, inner, table, signs):  # type: ignore[no-untyped-def]
    out = np.zeros((len(inner), _N_COUNTS), np.int32)
    for i in range(len(inner)):
        _count(data, inner[i, 0], inner[i, 1], table, signs, out[i])
    return out


@nb.njit(
    nb.types.Tuple((_I64S, nb.uint8[::1]))(OCTETS, BOUNDS, nb.types.Array(nb.boolean, 1, "C", readonly=True), BOUNDS, nb.boolean),
    cache=True,
    nogil=True,
)
def _join(data, offsets, kept, first, newline):  # type: ignore[no-untyped-def]
    n = len(first) - 1
    room = 0
    for k in range(len(kept)):
        room += offsets[k + 1] - offsets[k] + 1 if kept[k] else 0
    out, ends = np.empty(room, np.uint8), np.zeros(n + 1, np.int64)
    at = 0
    for i in range(n):
        begun = False
        for k in range(first[i], first[i + 1]):
            if not kept[k]:
                continue
            if begun and newline:
                out[at] = _NEWLINE
                at += 1
            begun = True
            size = offsets[k + 1] - offsets[k]
            out[at : at + size] = data[offsets[k] : offsets[k + 1]]
            at += size
        if not newline and begun and not kept[first[i + 1] - 1]:
            while at > ends[i] and (out[at - 1] == _NEWLINE or out[at - 1] == 0x0D):
                at -= 1
        ends[i + 1] = at
    return ends, out[:at].copy()


@nb.njit(nb.boolean[::1](nb.boolean[::1], nb.boolean[::1], BOUNDS), cache=True, nogil=True)
def _tidy(kept, blank, first):  # type: ignore[no-untyped-def]
    out = kept.copy()
    for i in range(len(first) - 1):
        above_blank, lost = True, False
        for k in range(first[i], first[i + 1]):
            if not kept[k]:
                lost = True
            elif not blank[k]:
                above_blank = lost = False
            elif lost and above_blank:
                out[k] = False
            else:
                above_blank, lost = True, False
        lost = False
        for k in range(first[i + 1] - 1, first[i] - 1, -1):
            if kept[k] and not blank[k]:
                break
            if not kept[k]:
                lost = True
            elif lost:
                out[k] = False
    return out
