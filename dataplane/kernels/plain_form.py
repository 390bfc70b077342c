"""Hashes of texts after NFKC and lower case, without making those texts where every character can be mapped by itself.

A character is mapped by itself if its normal form is one character that never composes with what stands before it: all of ASCII, Han,
full-width forms, most letters. A text with any other is left to Arrow. Hashes are the same either way.
"""

from __future__ import annotations

import sys
import unicodedata

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.kernels.hashing import SEEDS, hash128, xxh64
from dataplane.kernels.kept import kept
from dataplane.kernels.unicode import BOUNDS, FOLDS, OCTETS, decode, text_buffers

U64 = npt.NDArray[np.uint64]

_HANGUL_VOWELS, _HANGUL_FINALS = range(0x1161, 0x1176), range(0x11A8, 0x11C3)
_SURROGATES = range(0xD800, 0xE000)
_STRIDE = 32  # bytes
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
    room = 2 * int(np.diff(offsets).max(initial=0)) + _STRIDE
    _hash_plain(data, offsets, _mapped(), room, np.uint64(SEEDS[0]), np.uint64(SEEDS[1]), out, done)
    rest = np.flatnonzero(~done)
    if len(rest):
        out[rest] = hash128(plain_form(text.take(pa.array(rest))))
    return out


def plain_form(text: pa.Array) -> pa.Array:
    """Texts after NFKC and lower case."""
    return pc.utf8_lower(pc.utf8_normalize(text, form="NFKC"))


@kept()
def _mapped() -> npt.NDArray[np.int32]:
    """What each code point becomes: int32 [code points], -1 where that hangs on its neighbours or is not one character."""
    composed = _seconds()
    codes = [c for c in range(_LAST + 1) if c not in _SURROGATES]
    normal = pc.utf8_normalize(pa.array(map(chr, codes), pa.large_string()), form="NFKC")
    single = pc.equal(pc.utf8_length(normal), 1).to_numpy(zero_copy_only=False)
    lower = pc.utf8_lower(normal).to_pylist()
    table = np.full(sys.maxunicode + 1, -1, np.int32)
    for code, alone, before, after in zip(codes, single, normal.to_pylist(), lower, strict=True):
        if alone and before not in composed and unicodedata.combining(before) == 0 and unicodedata.category(before) != "Cn":
            table[code] = ord(after) if len(after) == 1 else -1
    return table


def _seconds() -> frozenset[str]:
    """Characters that may compose with the one before them."""
    parts = (unicodedata.decomposition(chr(code)).split() for code in range(_LAST + 1))
    pairs = {chr(int(part[1], 16)) for part in parts if len(part) == 2 and not part[0].startswith("<")}
    return frozenset(pairs | set(map(chr, _HANGUL_VOWELS)) | set(map(chr, _HANGUL_FINALS)))


@nb.njit(nb.int64(nb.int64, nb.uint8[::1], nb.int64), cache=True, nogil=True)
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


@nb.njit(nb.int64(OCTETS, nb.int64, nb.int64, FOLDS, nb.uint8[::1]), cache=True, nogil=True)
def _write_plain(data, start, stop, table, out):  # type: ignore[no-untyped-def]
    """Writes the form of a text; returns its bytes, -1 where a character cannot be mapped by itself."""
    n = 0
    at = start
    while at < stop:
        if data[at] >= 0x80:
            code, at = decode(data, at, stop)
            mapped = table[code]
            if mapped < 0:
                return -1
            n = _encode(mapped, out, n)
            continue
        while at + _STRIDE <= stop:  # a stride of ASCII at a time, in vectors
            seen = nb.uint8(0)
            for i in range(_STRIDE):
                octet = data[at + i]
                seen |= octet
                out[n + i] = octet | nb.uint8(32) if nb.uint8(octet - 65) < 26 else octet
            if seen >= 0x80:
                break
            n += _STRIDE
            at += _STRIDE
        while at < stop and data[at] < 0x80:
            octet = data[at]
            out[n] = octet | nb.uint8(32) if nb.uint8(octet - 65) < 26 else octet
            n += 1
            at += 1
    return n


@nb.njit(
    nb.void(OCTETS, BOUNDS, FOLDS, nb.int64, nb.uint64, nb.uint64, nb.uint64[:, ::1], nb.boolean[::1]), cache=True, nogil=True
)  # fmt: skip
def _hash_plain(data, offsets, table, room, seed, other_seed, out, done):  # type: ignore[no-untyped-def]
    form = np.empty(room, np.uint8)
    for i in range(len(offsets) - 1):
        n = _write_plain(data, offsets[i], offsets[i + 1], table, form)
        done[i] = n >= 0
        if n >= 0:
            out[i, 0] = xxh64(form, 0, n, seed)
            out[i, 1] = xxh64(form, 0, n, other_seed)
