"""Hashes of texts after NFKC and lower case, without making those texts where every character can be mapped by itself.

A character is mapped by itself if the characters of its normal form never compose with what stands before them, and take no more than
twice its bytes: all of ASCII, Han, full-width forms, most letters, the ellipsis. A text with any other is left to Arrow. Hashes are the
same either way.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba.cpython.unsafe.numbers import trailing_zeros

from dataplane.kernels.hashing import SEEDS, hash128, xxh64
from dataplane.kernels.kept import kept
from dataplane.kernels.pointers import U8P, pointer, read64, write64
from dataplane.kernels.unicode import BOUNDS, FOLDS, OCTETS, decode, text_buffers

U64 = npt.NDArray[np.uint64]

_HANGUL_VOWELS, _HANGUL_FINALS = range(0x1161, 0x1176), range(0x11A8, 0x11C3)
_SURROGATES = range(0xD800, 0xE000)
_SPARE = 8  # bytes that are written beyond a form
_HIGH_BITS = np.uint64(0x8080808080808080)
_SEVERAL = sys.maxunicode + 1
_LAST = 0x323AF  # of Han, extension H; tags and private planes are left to Arrow


def plain_hashes(text: pa.Array) -> U64:
    """128-bit hash of each text after NFKC and lower case.

    Args:
        text: string or large_string [n]; null reads as empty.

    Returns:
        uint64 [n, 2], as `hash128` gives them of the texts in that form
    """
    data, offsets = text_buffers(text)
    out = np.zeros((len(offsets) - 1, 2), np.uint64)
    done = np.ones(len(out), np.bool_)
    room = 2 * int(np.diff(offsets).max(initial=0)) + _SPARE
    _hash_plain(data, offsets, *_mapped(), room, np.uint64(SEEDS[0]), np.uint64(SEEDS[1]), out, done)
    rest = np.flatnonzero(~done)
    if len(rest):
        out[rest] = hash128(plain_form(text.take(pa.array(rest))))
    return out


def plain_form(text: pa.Array) -> pa.Array:
    """Texts after NFKC and lower case."""
    return pc.utf8_lower(pc.utf8_normalize(text, form="NFKC"))


def _mapped() -> tuple[npt.NDArray[np.int32], U64, npt.NDArray[np.int64]]:
    """What each code point becomes.

    Returns:
        int32 [code points], -1 where that hangs on its neighbours or is too long; from `_SEVERAL` on, which of these it is: uint64 [k],
        UTF-8 of several characters, and int64 [k], how many bytes of it count
    """
    words = _several()
    return _single(), words, (words.view(np.uint8).reshape(-1, 8) != 0).sum(axis=1)


@kept()
def _single() -> npt.NDArray[np.int32]:
    return _forms()[0]


@kept()
def _several() -> U64:
    return np.array([int.from_bytes(form.ljust(8, b"\0"), sys.byteorder) for form in _forms()[1]], np.uint64)


@lru_cache(maxsize=1)
def _forms() -> tuple[npt.NDArray[np.int32], list[bytes]]:
    composed = _seconds()
    codes = [c for c in range(_LAST + 1) if c not in _SURROGATES]
    normal = pc.utf8_normalize(pa.array(map(chr, codes), pa.large_string()), form="NFKC")
    lower = pc.utf8_lower(normal).to_pylist()
    table, several = np.full(sys.maxunicode + 1, -1, np.int32), list[bytes]()
    for code, before, after in zip(codes, normal.to_pylist(), lower, strict=True):
        if any(char in composed or unicodedata.combining(char) or unicodedata.category(char) == "Cn" for char in before):
            continue
        if len(after) == 1:
            table[code] = ord(after)
        elif after and len(after.encode()) <= 2 * len(chr(code).encode()):
            table[code] = _SEVERAL + len(several)
            several.append(after.encode())
    return table, several


def _seconds() -> frozenset[str]:
    """Characters that may compose with the one before them."""
    parts = (unicodedata.decomposition(chr(code)).split() for code in range(_LAST + 1))
    pairs = {chr(int(part[1], 16)) for part in parts if len(part) == 2 and not part[0].startswith("<")}
    return frozenset(pairs | set(map(chr, _HANGUL_VOWELS)) | set(map(chr, _HANGUL_FINALS)))


_WORDS = nb.types.Array(nb.uint64, 1, "C", readonly=True)
_SIZES = nb.types.Array(nb.int64, 1, "C", readonly=True)


@nb.njit(nb.int64(nb.int64, U8P, nb.int64), cache=True, nogil=True)
def _encode(code, out, n):  # type: ignore[no-untyped-def]
    """Writes a code point as UTF-8 from place n on; returns the place behind it."""
    if code < 0x80:
        out[n] = code
        return n + 1
    if code < 0x800:
        out[n] = 0xC0 | (code >> 6)
        out[n + 1] = 0x80 | (code & 0x3F)
        return n + 2
    if code < 0x10000:
        out[n] = 0xE0 | (code >> 12)
        out[n + 1] = 0x80 | ((code >> 6) & 0x3F)
        out[n + 2] = 0x80 | (code & 0x3F)
        return n + 3
    out[n] = 0xF0 | (code >> 18)
    out[n + 1] = 0x80 | ((code >> 12) & 0x3F)
    out[n + 2] = 0x80 | ((code >> 6) & 0x3F)
    out[n + 3] = 0x80 | (code & 0x3F)
    return n + 4


@nb.njit(nb.uint64(nb.uint64), cache=True, nogil=True)
def _lower_eight(word):  # type: ignore[no-untyped-def]
    """Eight ASCII characters in lower case; from the first byte that is not ASCII on, what comes out means nothing."""
    from_a = word + np.uint64(0x3F3F3F3F3F3F3F3F)  # the highest bit of a byte is set from "A" on
    behind_z = word + np.uint64(0x2525252525252525)  # and here from the one after "Z" on
    return word | ((from_a & ~behind_z & _HIGH_BITS) >> np.uint64(2))


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, FOLDS, _WORDS, _SIZES, nb.uint8[::1]), cache=True, nogil=True)
def _write_plain(data, start, stop, table, words, sizes, out):  # type: ignore[no-untyped-def]
    """Writes the form of a text; returns its bytes, -1 where a character cannot be mapped by itself."""
    octets, mapping, form = pointer(data), pointer(table), pointer(out)
    n = 0
    at = start
    while at < stop:
        if octets[at] >= 0x80:
            code, at = decode(octets, at, stop)
            mapped = mapping[code]
            if mapped < 0:
                return -1
            if mapped >= _SEVERAL:
                write64(out, n, words[mapped - _SEVERAL])
                n += sizes[mapped - _SEVERAL]
                continue
            n = _encode(mapped, form, n)
            continue
        if at + 8 <= stop:
            word = read64(data, at)
            write64(out, n, _lower_eight(word))
            other = word & _HIGH_BITS
            taken = nb.int64(trailing_zeros(other)) >> 3 if other else 8
            n += taken
            at += taken
            continue
        octet = octets[at]
        form[n] = octet | nb.uint8(32) if nb.uint8(octet - 65) < 26 else octet
        n += 1
        at += 1
    return n


@nb.njit(
    nb.void(OCTETS, BOUNDS, FOLDS, _WORDS, _SIZES, nb.int64, nb.uint64, nb.uint64, nb.uint64[:, ::1], nb.boolean[::1]),
    cache=True,
    nogil=True,
)  # fmt: skip
def _hash_plain(data, offsets, table, words, sizes, room, seed, other_seed, out, done):  # type: ignore[no-untyped-def]
    form = np.empty(room, np.uint8)
    for i in range(len(offsets) - 1):
        n = _write_plain(data, offsets[i], offsets[i + 1], table, words, sizes, form)
        done[i] = n >= 0
        if n >= 0:
            out[i, 0] = xxh64(form, 0, n, seed)
            out[i, 1] = xxh64(form, 0, n, other_seed)
