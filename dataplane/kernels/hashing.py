"""128-bit hashes of Arrow values: XXH64 under two seeds, in numba over the buffers.

One definition serves content digests: it is blind to string width (string = large_string), integer width, float width,
chunking and slicing, so a table hashes the same however it was stored.

Source: the XXH64 specification, https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md; tested against the
reference library.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from dataplane.kernels.pointers import read64

U64 = npt.NDArray[np.uint64]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)

# Arrow buffers that come from a file or another process are read-only; numba casts writable arrays to this type.
_OCTETS = nb.types.Array(nb.uint8, 1, "C", readonly=True)
_BOUNDS = nb.types.Array(nb.int64, 1, "C", readonly=True)

SEEDS = (0, 0x5851F42D4C957F2D)  # the second lane's seed is any other constant; it is part of every digest, so it stays
WIDTH = 8  # bytes that a number is hashed as
_NULL = (0x6E756C6C6E756C6C, 0x6C6C756E6C6C756E)  # "null" spelled in bytes: what a null value hashes to


@nb.njit("uint64(uint64, uint64)", inline="always", cache=True, nogil=True)
def _rotate(x, bits):  # type: ignore[no-untyped-def]
    return (x << bits) | (x >> (np.uint64(64) - bits))


@nb.njit("uint64(uint64, uint64)", inline="always", cache=True, nogil=True)
def _round(accumulator, lane):  # type: ignore[no-untyped-def]
    return _rotate(accumulator + lane * _P2, np.uint64(31)) * _P1


@nb.njit(nb.uint64(_OCTETS, nb.int64, nb.int64, nb.uint64), cache=True, nogil=True)
def xxh64(data, start, stop, seed):  # type: ignore[no-untyped-def]
    """XXH64 of ``data[start:stop]`` (uint8 [n]) under `seed`."""
    length = stop - start
    at = start
    if length >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= stop:
            a = _round(a, read64(data, at))
            b = _round(b, read64(data, at + 8))
            c = _round(c, read64(data, at + 16))
            d = _round(d, read64(data, at + 24))
            at += 32
        h = _rotate(a, np.uint64(1)) + _rotate(b, np.uint64(7)) + _rotate(c, np.uint64(12)) + _rotate(d, np.uint64(18))
        for lane in (a, b, c, d):
            h = (h ^ _round(np.uint64(0), lane)) * _P1 + _P4
    else:
        h = seed + _P5
    h += np.uint64(length)
    while at + 8 <= stop:
        h = _rotate(h ^ _round(np.uint64(0), read64(data, at)), np.uint64(27)) * _P1 + _P4
        at += 8
    if at + 4 <= stop:
        word = np.uint64(0)
        for i in range(4):
            word |= np.uint64(data[at + i]) << np.uint64(8 * i)
        h = _rotate(h ^ (word * _P1), np.uint64(23)) * _P2 + _P3
        at += 4
    while at < stop:
        h = _rotate(h ^ (np.uint64(data[at]) * _P5), np.uint64(11)) * _P1
        at += 1
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@nb.njit(nb.void(_OCTETS, _BOUNDS, nb.uint64, nb.uint64, nb.uint64[:, ::1]), cache=True, nogil=True)
def _hash_ranges(data, offsets, seed0, seed1, out):  # type: ignore[no-untyped-def]
    """Hashes ``data[offsets[i]:offsets[i+1]]`` into ``out[i]`` under both seeds."""
    for i in range(len(offsets) - 1):
        out[i, 0] = xxh64(data, offsets[i], offsets[i + 1], seed0)
        out[i, 1] = xxh64(data, offsets[i], offsets[i + 1], seed1)


def _hash_spans(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], salt: int) -> U64:
    out = np.empty((len(offsets) - 1, 2), np.uint64)
    seeds = [np.uint64((seed + salt) & 0xFFFFFFFFFFFFFFFF) for seed in SEEDS]
    _hash_ranges(data, offsets, seeds[0], seeds[1], out)
    return out


def hash128(array: pa.Array) -> U64:
    """128-bit hash of each value.

    Args:
        array: Any Arrow array [n]; strings and binaries hash by their bytes.

    Returns:
        uint64 [n, 2]
    """
    return _column_hashes(array, 0)


def row_hashes(batch: pa.RecordBatch, columns: list[str] | None = None) -> U64:
    """128-bit hash of each row, over columns by name and therefore blind to their order.

    Args:
        batch: The rows [n].
        columns: Columns that count; all by default.

    Returns:
        uint64 [n, 2]
    """
    names = sorted(columns if columns is not None else batch.schema.names)
    if not names:
        return np.zeros((len(batch), 2), np.uint64)
    parts = [_column_hashes(batch.column(name), xxhash.xxh64_intdigest(name.encode())) for name in names]
    return _combine(np.concatenate(parts, axis=1))


def _combine(words: U64) -> U64:
    """One 128-bit hash for each row of uint64 [n, k]."""
    rows, width = words.shape
    data = np.ascontiguousarray(words).view(np.uint8).reshape(-1)
    return _hash_spans(data, np.arange(rows + 1, dtype=np.int64) * (width * 8), 0)


def _column_hashes(array: pa.Array, salt: int) -> U64:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    hashes = _value_hashes(array, salt)
    if array.null_count:
        missing = array.is_null().to_numpy(zero_copy_only=False)
        hashes[missing] = np.array(_NULL, np.uint64) ^ np.uint64(salt)
    return hashes


def _value_hashes(array: pa.Array, salt: int) -> U64:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _value_hashes(array.dictionary_decode(), salt)
    if _is_bytes(kind):
        return _bytes_hashes(array, salt)
    if pa.types.is_struct(kind):
        children = [(kind.field(i).name, array.field(i)) for i in range(kind.num_fields)]
        parts = [
            _column_hashes(child, salt ^ xxhash.xxh64_intdigest(name.encode())) for name, child in sorted(children, key=lambda c: c[0])
        ]
        return _combine(np.concatenate(parts, axis=1))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list_hashes(array, salt)
    return _fixed_hashes(array, salt)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _bytes_hashes(array: pa.Array, salt: int) -> U64:
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8) if len(array) else np.zeros(1, np.int64)
    octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return _hash_spans(octets, bounds, salt)


def _list_hashes(array: pa.Array, salt: int) -> U64:
    """A list's hash is that of its numbers, or of its items' hashes in order."""
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    items = array.flatten()  # leaves out the items of null lists and respects slices
    if pa.types.is_primitive(items.type):
        return _lists_of_numbers(items, bounds, salt)
    return _hash_spans(_column_hashes(items, salt).view(np.uint8).reshape(-1), bounds * 16, salt)


def _lists_of_numbers(items: pa.Array, bounds: npt.NDArray[np.int64], salt: int) -> U64:
    """Hashes of lists whose numbers lie between `bounds` [n + 1]. Where one is null, which of them are is hashed as well."""
    hashes = _hash_spans(_widened(items), bounds * WIDTH, salt)
    if items.null_count:
        valid = items.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        nulls = np.diff(np.concatenate([np.zeros(1, np.int64), np.cumsum(1 - valid.astype(np.int64))])[bounds])
        holed = np.flatnonzero(nulls)
        hashes[holed] = _combine(np.concatenate([hashes, _hash_spans(valid, bounds, salt)], axis=1))[holed]
    return hashes


def _fixed_hashes(array: pa.Array, salt: int) -> U64:
    if pa.types.is_null(array.type):
        return np.zeros((len(array), 2), np.uint64)
    return _hash_spans(_widened(array), np.arange(len(array) + 1, dtype=np.int64) * WIDTH, salt)


def _widened(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of numbers, booleans and times, widened to 8 bytes so that int32 1 hashes like int64 1; nulls are zero."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
    if pa.types.is_floating(kind):
        values = array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        values[np.isnan(values)] = np.nan
    else:
        filled = array.fill_null(False if pa.types.is_boolean(kind) else 0)
        values = filled.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


def sum128(hashes: U64) -> int:
    """Sum of the 128-bit hashes modulo 2^128: blind to order, and additive over parts."""
    total = 0
    for lane in (0, 1):
        column = hashes[:, lane]
        low = int((column & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
        high = int((column >> np.uint64(32)).sum(dtype=np.uint64))
        total += (low + (high << 32)) << (64 * lane)
    return total % (1 << 128)
