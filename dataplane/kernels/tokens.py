"""Cuts what stands between white space into words, as the tokenizer of spaCy's blank English pipeline does.

The algorithm is the one documented at https://spacy.io/usage/linguistic-features#how-tokenizer-works: exceptions first; then
prefixes and suffixes are taken off from outside in, an exception between them ends that; what is left is whole if it is an exception
or a URL, else it is cut at infixes; last, exceptions that affixes have cut are put together. Words are given as the characters
before which one ends: ``ends[i]`` is 1 where a word ends before character i.

Differences: a run of more than `MAX_RUN_CHARS` characters is cut there. Where exceptions overlap, white space between them counts
for nothing. Addresses of private networks count as URLs.
"""

from __future__ import annotations

import numba as nb

from dataplane.kernels.pointers import I32P, I64P, U8P, U16P, U64P
from dataplane.kernels.unicode import SOLID
from dataplane.kernels.word_tables import (
    ALPHABETIC,
    BEFORE_STOP,
    ICON,
    INFIX,
    IS_EXCEPTION,
    LOWER,
    MAX_EXCEPTION_CHARS,
    OPENS_EXCEPTION,
    PREFIX,
    PRIME,
    QUOTE,
    SHIFT,
    SLOTS,
    SUFFIX,
    UPPER,
    shape,
)

MAX_RUN_CHARS = 1 << 16
_MAX_UNIT_CHARS = 5
_MAX_LABEL_CHARS, _MAX_TOP_CHARS = 64, 63

_DOT, _ELLIPSIS = 0x2E, 0x2026
# Bits of an end while exceptions are put together: where words ended before, and what has been looked at.
_OLD, _SEEN = 1, 4


@nb.njit(nb.uint64(I32P, nb.int64, nb.int64), cache=True, nogil=True, forceinline=True)
def hash_run(codes, start, stop):  # type: ignore[no-untyped-def]
    """Hash of ``codes[start:stop]``, see `word_tables.hash_of`."""
    h = PRIME
    for i in range(start, stop):
        h = (h ^ nb.uint64(codes[i])) * PRIME
        h ^= h >> SHIFT
    return h


@nb.njit(nb.int64(nb.uint64, U64P), cache=True, nogil=True, forceinline=True)
def exception_at(key, keys):  # type: ignore[no-untyped-def]
    """Where an exception lies, -1 for a word that is none."""
    at = nb.int64(key) & (SLOTS - 1)
    while keys[at] != 0:
        if keys[at] == key:
            return at
        at = (at + 1) & (SLOTS - 1)
    return -1


@nb.njit(nb.int64(I32P, nb.int64, nb.int64, U64P, U8P), cache=True, nogil=True, forceinline=True)
def exception(codes, start, stop, keys, shapes):  # type: ignore[no-untyped-def]
    """Where ``codes[start:stop]`` lies if it is an exception, else -1."""
    if stop - start > MAX_EXCEPTION_CHARS or stop <= start:
        return -1
    if not shapes[shape(codes[start], stop - start, codes[stop - 1])] & IS_EXCEPTION:
        return -1
    return exception_at(hash_run(codes, start, stop), keys)


@nb.njit(nb.boolean(nb.int32), cache=True, nogil=True, forceinline=True)
def _is_digit(code):  # type: ignore[no-untyped-def]
    return 0x30 <= code <= 0x39


@nb.njit(nb.int64(I32P, nb.int64, nb.int64, U16P), cache=True, nogil=True, forceinline=True)
def _prefix(codes, start, stop, kinds):  # type: ignore[no-untyped-def]
    """Characters of the prefix, 0 for none."""
    code = codes[start]
    if kinds[code] & PREFIX:
        return 1
    left = stop - start
    if code == _DOT:
        run = 1
        while run < left and codes[start + run] == _DOT:
            run += 1
        return run if run > 1 else 0
    if code == 0x2B:
        return 0 if left > 1 and _is_digit(codes[start + 1]) else 1
    if code == 0x43 or code == 0x41:  # C$, A$
        return 2 if left > 1 and codes[start + 1] == 0x24 else 0
    if code == 0x55:  # US$
        return 3 if left > 2 and codes[start + 1] == 0x53 and codes[start + 2] == 0x24 else 0
    return 0


@nb.njit(nb.int64(I32P, nb.int64, nb.int64, U64P), cache=True, nogil=True)
def _unit(codes, start, stop, units):  # type: ignore[no-untyped-def]
    """Characters of a unit or currency behind a digit, 0 for none."""
    for size in range(1, min(_MAX_UNIT_CHARS, stop - start - 1) + 1):
        if _is_digit(codes[stop - size - 1]):
            key = hash_run(codes, stop - size, stop)
            i = 0
            while units[i] != 0 and units[i] != key:
                i += 1
            return size if units[i] == key else 0
    return 0


@nb.njit(nb.int64(I32P, nb.int64, nb.int64, U16P), cache=True, nogil=True, forceinline=True)
def _stop(codes, start, stop, kinds):  # type: ignore[no-untyped-def]
    """Characters of the full stops at the end that are cut off, 0 for none."""
    run = 1
    while stop - run > start and codes[stop - run - 1] == _DOT:
        run += 1
    if run > 1:
        return run
    if stop - start < 2:
        return 0
    before = kinds[codes[stop - 2]]
    if before & BEFORE_STOP:
        return 1
    if stop - start < 3:
        return 0
    if before & UPPER and kinds[codes[stop - 3]] & UPPER:
        return 1
    return 1 if codes[stop - 3] == 0xB0 and codes[stop - 2] in (0x46, 0x66, 0x43, 0x63, 0x4B, 0x6B) else 0  # °C.


@nb.njit(nb.int64(I32P, nb.int64, nb.int64, U16P, U64P), cache=True, nogil=True, forceinline=True)
def _suffix(codes, start, stop, kinds, units):  # type: ignore[no-untyped-def]
    """Characters of the suffix, the longest that there is, 0 for none."""
    if start >= stop:
        return 0
    last = codes[stop - 1]
    if last == _DOT:
        return _stop(codes, start, stop, kinds)
    two = stop - start > 1
    if two and (last == 0x73 or last == 0x53) and (codes[stop - 2] == 0x27 or codes[stop - 2] == 0x2019):
        return 2  # 's
    if two and last == _ELLIPSIS and codes[stop - 2] == _ELLIPSIS:
        return 2
    if kinds[last] & SUFFIX:
        return 1
    if last == 0x2B:
        return 1 if two and _is_digit(codes[stop - 2]) else 0
    return 0 if _is_digit(last) else _unit(codes, start, stop, units)


@nb.njit(nb.int64(I32P, nb.int64, nb.int64, nb.int64, U16P), cache=True, nogil=True)
def _infix(codes, start, at, stop, kinds):  # type: ignore[no-untyped-def]
    """Characters of the infix at `at`, 0 for none."""
    code = codes[at]
    if code == _ELLIPSIS or kinds[code] & ICON:
        return 1
    if code == _DOT and at + 1 < stop and codes[at + 1] == _DOT:
        run = 2
        while at + run < stop and codes[at + run] == _DOT:
            run += 1
        return run
    if at == start or at + 1 >= stop:
        return 0
    before, after = codes[at - 1], codes[at + 1]
    old, new = kinds[before], kinds[after]
    if code == _DOT:
        return 1 if old & (LOWER | QUOTE) and new & (UPPER | QUOTE) else 0
    if code == 0x2C:
        return 1 if old & ALPHABETIC and new & ALPHABETIC else 0
    if code in (0x2B, 0x2D, 0x2A, 0x5E) and _is_digit(before) and (_is_digit(after) or after == 0x2D):
        return 1
    if not (old & ALPHABETIC or _is_digit(before)):
        return 0
    if code in (0x3A, 0x3C, 0x3E, 0x3D, 0x2F, 0x2013, 0x7E):
        return 1 if new & ALPHABETIC else 0
    if code == 0x2D or code == 0x2014:
        most = 3 if code == 0x2D else 2
        run = 1
        while run < most and at + run < stop and codes[at + run] == code:
            run += 1
        return run if at + run < stop and kinds[codes[at + run]] & ALPHABETIC else 0
    return 0


@nb.njit(nb.boolean(nb.int32), cache=True, nogil=True, forceinline=True)
def _in_host(code):  # type: ignore[no-untyped-def]
    return 0x61 <= code <= 0x7A or 0x41 <= code <= 0x5A or _is_digit(code) or 0xA1 <= code <= 0xFFFF


@nb.njit(nb.boolean(I32P, nb.int64, nb.int64), cache=True, nogil=True)
def _is_address(codes, start, stop):  # type: ignore[no-untyped-def]
    """Whether it is four numbers with dots between them."""
    dots = value = digits = 0
    for i in range(start, stop):
        if _is_digit(codes[i]):
            value, digits = 10 * value + codes[i] - 0x30, digits + 1
            if value > 255 or digits > 3:
                return False
        elif codes[i] == _DOT and digits and dots < 3:
            dots, value, digits = dots + 1, 0, 0
        else:
            return False
    return dots == 3 and digits > 0


@nb.njit(nb.boolean(I32P, nb.int64, nb.int64, U16P), cache=True, nogil=True)
def _is_host(codes, start, stop, kinds):  # type: ignore[no-untyped-def]
    """Whether it is labels with dots between them, of which the last is of small letters."""
    dot = stop - 1
    while dot >= start and codes[dot] != _DOT:
        if not kinds[codes[dot]] & LOWER:
            return _is_address(codes, start, stop)
        dot -= 1
    if not (dot > start and 2 <= stop - dot - 1 <= _MAX_TOP_CHARS):
        return False
    label = start
    for i in range(start, dot + 1):
        if codes[i] == _DOT:
            if not (0 < i - label <= _MAX_LABEL_CHARS and _in_host(codes[label]) and _in_host(codes[i - 1])):
                return False
            label = i + 1
    return True


@nb.njit(nb.boolean(I32P, nb.int64, nb.int64, U16P), cache=True, nogil=True)
def _begins_with_host(codes, start, stop, kinds):  # type: ignore[no-untyped-def]
    """Whether a host is there, alone or with a port, a path or a query behind it."""
    end = start
    while end < stop and (_in_host(codes[end]) or codes[end] in (0x2D, 0x2E, 0x5F)):
        end += 1
    at = end
    if at < stop and codes[at] == 0x3A:
        at += 1
        while at < stop and _is_digit(codes[at]):
            at += 1
        if not 2 <= at - end - 1 <= 5:
            return False
    return (at == stop or codes[at] in (0x2F, 0x3F, 0x23)) and _is_host(codes, start, end, kinds)


@nb.njit(nb.boolean(I32P, nb.int64, nb.int64, U16P, U8P), cache=True, nogil=True)
def _is_url(codes, start, stop, kinds, table):  # type: ignore[no-untyped-def]
    """Whether it is a URL or a mail address; a scheme and a user may stand before the host."""
    base = start
    while base < stop and (table[codes[base]] & SOLID or codes[base] in (0x2B, 0x2D, 0x2E, 0x5F)):
        base += 1
    schemed = base - start >= 2 and base + 2 < stop and codes[base] == 0x3A and codes[base + 1] == 0x2F and codes[base + 2] == 0x2F
    if schemed and _begins_with_host(codes, base + 3, stop, kinds):
        return True
    if _begins_with_host(codes, start, stop, kinds):
        return True
    for i in range(start + 1, stop - 1):  # noqa: SIM110  # numba knows no generators
        if codes[i] == 0x40 and _begins_with_host(codes, i + 1, stop, kinds):
            return True
    return False


@nb.njit(nb.void(nb.int64, nb.int64, nb.int64, U8P), cache=True, nogil=True, forceinline=True)
def _mark(start, stop, cuts, ends):  # type: ignore[no-untyped-def]
    """Ends words of an exception where its bits say."""
    for i in range(start + 1, stop + 1):
        ends[i] = (cuts >> (i - start)) & 1


@nb.njit(nb.void(I32P, nb.int64, nb.int64, U8P, U16P, U8P), cache=True, nogil=True)
def _cut_infixes(codes, start, stop, ends, kinds, table):  # type: ignore[no-untyped-def]
    at, judged = start, False
    while at < stop:
        size = _infix(codes, start, at, stop, kinds) if kinds[codes[at]] & INFIX else 0
        if size == 0:
            at += 1
            continue
        if not judged and _is_url(codes, start, stop, kinds, table):
            return
        judged = True
        if at > start:
            ends[at] = ends[at + size] = 1
        at += size


@nb.njit(nb.boolean(I32P, nb.int64, nb.int64, U8P, U64P, I64P, U8P), cache=True, nogil=True)
def _mark_exception(codes, start, stop, ends, keys, cuts, shapes):  # type: ignore[no-untyped-def]
    at = exception(codes, start, stop, keys, shapes)
    if at >= 0:
        _mark(start, stop, cuts[2 * at], ends)
    return at >= 0


@nb.njit(nb.types.UniTuple(nb.int64, 2)(I32P, nb.int64, U8P, U16P, U64P, U64P, U8P), cache=True, nogil=True)
def _take_affixes(codes, n, ends, kinds, keys, units, shapes):  # type: ignore[no-untyped-def]
    """Marks prefixes and suffixes; returns what is left between them."""
    start, stop, before = 0, n, -1
    while start < stop and stop - start != before and exception(codes, start, stop, keys, shapes) < 0:
        before = stop - start
        prefix = _prefix(codes, start, stop, kinds)
        if prefix and exception(codes, start + prefix, stop, keys, shapes) >= 0:
            start += prefix
            ends[start] = 1
            break
        suffix = _suffix(codes, start + prefix, stop, kinds, units)
        if suffix and exception(codes, start, stop - suffix, keys, shapes) >= 0:
            stop -= suffix
            ends[stop] = 1
            break
        start += prefix
        stop -= suffix
        ends[start] = ends[stop] = 1
    return start, stop


@nb.njit(nb.int64(I32P, nb.int64, nb.int64, nb.int64, U8P, U64P, I64P, U8P), cache=True, nogil=True)
def _whole_exception(codes, start, n, size, ends, keys, cuts, shapes):  # type: ignore[no-untyped-def]
    """Where the `size` words from `start` end if they are an exception that affixes have cut, else -1."""
    words, bits = 0, 0
    for i in range(start + 1, min(n, start + MAX_EXCEPTION_CHARS) + 1):
        if ends[i] & (1 << _OLD):
            words += 1
            bits |= 1 << (i - start)
            if words == size:
                at = exception(codes, start, i, keys, shapes)
                return i if at >= 0 and cuts[2 * at + 1] == bits else -1
    return -1


@nb.njit(nb.void(I32P, nb.int64, U8P, U64P, I64P, U8P), cache=True, nogil=True)
def _restore_exceptions(codes, n, ends, keys, cuts, shapes):  # type: ignore[no-untyped-def]
    """Puts exceptions together that affixes and infixes have cut, those of most words first."""
    for i in range(n + 1):
        ends[i] |= ends[i] << _OLD
    for size in range(MAX_EXCEPTION_CHARS, 1, -1):
        for start in range(n):
            stop = _whole_exception(codes, start, n, size, ends, keys, cuts, shapes) if ends[start] & (1 << _OLD) else -1
            if stop < 0:
                continue
            if not (ends[start] | ends[stop - 1]) & _SEEN:
                at = exception_at(hash_run(codes, start, stop), keys)
                for i in range(start + 1, stop + 1):
                    ends[i] = (ends[i] & ~1) | ((cuts[2 * at] >> (i - start)) & 1)
            for i in range(start, stop):
                ends[i] |= _SEEN
    for i in range(n + 1):
        ends[i] &= 1


@nb.njit(nb.boolean(I32P, nb.int64, U8P, U8P), cache=True, nogil=True, forceinline=True)
def _may_hold_exception(codes, n, ends, shapes):  # type: ignore[no-untyped-def]
    """Whether there are two words with which such an exception may begin."""
    start = 0
    for i in range(1, n):
        if ends[i]:
            if shapes[shape(codes[start], i - start, codes[i])] & OPENS_EXCEPTION:
                return True
            start = i
    return False


@nb.njit(nb.void(I32P, nb.int64, U8P, U16P, U8P, U64P, I64P, U64P, U8P), cache=True, nogil=True)
def cut(codes, n, ends, kinds, table, keys, cuts, units, shapes):  # type: ignore[no-untyped-def]
    """Cuts a run of characters without white space into words.

    Args:
        codes: int32 [n], code points
        n: Characters, at least 1 and at most `MAX_RUN_CHARS`.
        ends: uint8 [n + 1], filled with 1 where a word ends before the character; the first is 1, as the last
        kinds: `word_tables().kinds`
        table: `unicode.classes()`
        keys: `word_tables().keys`
        cuts: `word_tables().cuts`
        units: `word_tables().units`
        shapes: `word_tables().shapes`
    """
    for i in range(n + 1):
        ends[i] = 0
    ends[0] = ends[n] = 1
    start, stop = _take_affixes(codes, n, ends, kinds, keys, units, shapes)
    if start < stop and not _mark_exception(codes, start, stop, ends, keys, cuts, shapes):
        _cut_infixes(codes, start, stop, ends, kinds, table)
    if _may_hold_exception(codes, n, ends, shapes):
        _restore_exceptions(codes, n, ends, keys, cuts, shapes)
