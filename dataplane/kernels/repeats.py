"""Tokens between white space, and hashes of runs of them: what tells that a passage stood elsewhere before.

A token is a run of characters that are no white space; a Chinese or Japanese character is a token by itself. Passages are equal where their
tokens are, byte by byte: only white space makes no difference.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataplane.kernels.hashing import xxh64
from dataplane.kernels.unicode import BOUNDS, CJK, I64, OCTETS, SPACE, U8, classes, decode, text_buffers

U64 = npt.NDArray[np.uint64]

_BASE = np.uint64(0xC2B2AE3D27D4EB4F)
_PAIRS = nb.types.Array(nb.int64, 2, "C", readonly=True)


def window_hashes(text: pa.Array, n: int, seed: int) -> tuple[U64, I64, I64]:
    """Hash of each run of n tokens.

    Args:
        text: string or large_string [d]
        n: Tokens in a run; a text of fewer has none.
        seed: Another one gives other hashes.

    Returns:
        uint64 [w]; int64 [d + 1], the first window of each text; int64 [d], tokens of each
    """
    data, offsets = text_buffers(text)
    hashes = np.empty(len(data), np.uint64)  # pages that are never touched take no memory
    first, tokens = np.zeros(len(offsets), np.int64), np.zeros(len(offsets) - 1, np.int64)
    _windows(data, offsets, classes(), n, np.uint64(seed), hashes, first, tokens)
    return hashes[: first[-1]].copy(), first, tokens


def span_hashes(data: U8, bounds: I64, seed: int) -> tuple[U64, I64]:
    """Hash of the tokens in each span of bytes (int64 [m, 2]): uint64 [m], and how many they are: int64 [m]."""
    return _spans(data, np.ascontiguousarray(bounds), classes(), np.uint64(seed))  # type: ignore[no-any-return]


def token_bounds(data: U8) -> I64:
    """First byte of each token of a text and the byte after it, then the same in code points: int64 [t, 4]."""
    return _bounds(data, classes())  # type: ignore[no-any-return]


@nb.njit(nb.uint64(nb.uint64), inline="always", cache=True, nogil=True)
def _stirred(h):  # type: ignore[no-untyped-def]
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@nb.njit(nb.types.UniTuple(nb.int64, 2)(OCTETS, nb.int64, nb.int64, OCTETS), cache=True, nogil=True)
def _next_token(data, at, stop, table):  # type: ignore[no-untyped-def]
    """Bounds of the next token; both are `stop` where there is none."""
    while at < stop:
        code, after = decode(data, at, stop)
        if not table[code] & SPACE:
            break
        at = after
    begin = at
    while at < stop:
        code, after = decode(data, at, stop)
        if table[code] & CJK:
            return begin, after if at == begin else at
        if table[code] & SPACE:
            break
        at = after
    return begin, at


@nb.njit(nb.void(OCTETS, BOUNDS, OCTETS, nb.int64, nb.uint64, nb.uint64[::1], nb.int64[::1], nb.int64[::1]), cache=True, nogil=True)
def _windows(data, offsets, table, n, seed, hashes, first, tokens):  # type: ignore[no-untyped-def]
    ring = np.empty(n, np.uint64)
    leading = np.uint64(1)
    for _ in range(n):
        leading *= _BASE
    made = 0
    for i in range(len(offsets) - 1):
        at, stop = offsets[i], offsets[i + 1]
        count, total = 0, np.uint64(0)
        while True:
            begin, at = _next_token(data, at, stop, table)
            if begin == at:
                break
            token = xxh64(data, begin, at, seed)
            total = total * _BASE + token
            if count >= n:
                total -= leading * ring[count % n]
            ring[count % n] = token
            count += 1
            if count >= n:
                hashes[made] = _stirred(total)
                made += 1
        first[i + 1], tokens[i] = made, count


@nb.njit(nb.types.Tuple((nb.uint64[::1], nb.int64[::1]))(OCTETS, _PAIRS, OCTETS, nb.uint64), cache=True, nogil=True)
def _spans(data, bounds, table, seed):  # type: ignore[no-untyped-def]
    hashes, tokens = np.empty(len(bounds), np.uint64), np.empty(len(bounds), np.int64)
    for i in range(len(bounds)):
        at, stop = bounds[i, 0], bounds[i, 1]
        count, total = 0, np.uint64(0)
        while True:
            begin, at = _next_token(data, at, stop, table)
            if begin == at:
                break
            total = total * _BASE + xxh64(data, begin, at, seed)
            count += 1
        hashes[i], tokens[i] = _stirred(total + np.uint64(count)), count
    return hashes, tokens


@nb.njit(nb.int64[:, ::1](OCTETS, OCTETS), cache=True, nogil=True)
def _bounds(data, table):  # type: ignore[no-untyped-def]
    out = np.empty((len(data), 4), np.int64)
    at = count = seen = chars = 0
    while True:
        begin, at = _next_token(data, at, len(data), table)
        if begin == at:
            return out[:count].copy()
        for column, place in enumerate((begin, at)):
            while seen < place:
                chars += data[seen] & 0xC0 != 0x80
                seen += 1
            out[count, column], out[count, 2 + column] = place, chars
        count += 1


@nb.njit(nb.int64[::1](nb.int64[::1], nb.int64[::1], nb.int64[::1]), cache=True, nogil=True)
def covered(texts, starts, stops):  # type: ignore[no-untyped-def]
    """How many tokens each text's spans cover together.

    Args:
        texts: int64 [k], ascending; spans of one text ascend by their start.
        starts: int64 [k], first token of each span
        stops: int64 [k], token after its last

    Returns:
        int64 [k]: tokens that a span covers and none before it does
    """
    out = np.zeros(len(texts), np.int64)
    text, reach = nb.int64(-1), nb.int64(0)
    for i in range(len(texts)):
        if texts[i] != text:
            text, reach = texts[i], 0
        out[i] = max(0, stops[i] - max(starts[i], reach))
        reach = max(reach, stops[i])
    return out


@nb.njit(nb.int64[::1](nb.int64[:, ::1]), cache=True, nogil=True)
def run_starts(spans):  # type: ignore[no-untyped-def]
    """Which spans begin a run: a span that touches the one before it, with a source at the same distance, goes on with its run.

    Args:
        spans: int64 [k, 6]: text, first token, token after the last, text and first token of the source, way; ascending by way, text, start
    """
    out = np.empty(len(spans), np.int64)
    runs, reach = 0, nb.int64(0)
    for i in range(len(spans)):
        fresh = i == 0 or spans[i, 0] != spans[i - 1, 0] or spans[i, 3] != spans[i - 1, 3] or spans[i, 5] != spans[i - 1, 5]
        if fresh or spans[i, 1] > reach or spans[i, 1] - spans[i - 1, 1] != spans[i, 4] - spans[i - 1, 4]:
            out[runs] = i
            runs += 1
            reach = spans[i, 2]
        reach = max(reach, spans[i, 2])
    return out[:runs].copy()


@nb.njit(nb.boolean[::1](nb.int64[:, ::1]), cache=True, nogil=True)
def fewest(runs):  # type: ignore[no-untyped-def]
    """Which runs together cover what all cover, as few as can be: bool [k]; `runs` as in `run_starts`, ascending by text, then by start."""
    out = np.zeros(len(runs), np.bool_)
    k = 0
    while k < len(runs):
        text, reach = runs[k, 0], runs[k, 1]
        while True:
            best, far = nb.int64(-1), reach
            while k < len(runs) and runs[k, 0] == text and runs[k, 1] <= reach:
                if runs[k, 2] > far:
                    best, far = k, runs[k, 2]
                k += 1
            if best < 0:
                break
            out[best], reach = True, far
    return out


@nb.njit(nb.boolean(OCTETS, _PAIRS, OCTETS, _PAIRS), cache=True, nogil=True)
def same_tokens(left, left_bounds, right, right_bounds):  # type: ignore[no-untyped-def]
    """Whether two runs of tokens (rows of `token_bounds`) are equal, byte by byte."""
    if len(left_bounds) != len(right_bounds):
        return False
    for i in range(len(left_bounds)):
        a, b, size = left_bounds[i, 0], right_bounds[i, 0], left_bounds[i, 1] - left_bounds[i, 0]
        if right_bounds[i, 1] - b != size:
            return False
        for k in range(size):
            if left[a + k] != right[b + k]:
                return False
    return True
