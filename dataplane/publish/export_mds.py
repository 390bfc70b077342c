"""Mosaic Data Shards (MDS), which `streaming.StreamingDataset` reads: ``shard.0000N.mds`` and ``index.json``.

Written here rather than with mosaicml-streaming's MDSWriter, which cannot be installed beside the training stack (it
wants transformers < 5 and numpy < 2.2); the tests hold the two against each other, byte for byte.

A shard: uint32 number of samples n, uint32 [n + 1] byte at which each begins, JSON of the columns, the samples. A
sample: uint32 size of each column whose size varies, then the columns, by name.

Source: mosaicml-streaming 0.13, streaming/base/format/mds.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dataplane.errors import DataError, UsageError
from dataplane.publish.rows import Rows

SHARD_BYTES = 1 << 26
FORMAT_VERSION = 2
_FIXED = {
    pa.int64(): ("int", np.int64),
    pa.int32(): ("int32", np.int32),
    pa.uint16(): ("uint16", np.uint16),
    pa.float32(): ("float32", np.float32),
    pa.float64(): ("float64", np.float64),
}


@dataclass(frozen=True)
class Column:
    """How one column is written.

    Attributes:
        name: Its name.
        encoding: Name of its encoding.
        size: Bytes of each value; None where it varies.
        type: Its Arrow type.
    """

    name: str
    encoding: str
    size: int | None
    type: pa.DataType

    def encode(self, values: pa.Array) -> Iterator[bytes]:
        """The bytes of each value.

        Raises:
            DataError: A value is null, which the format cannot say.
        """
        if values.null_count:
            raise DataError(
                f"{self.name!r} is null in {values.null_count} of {len(values)} rows, and MDS has no null", fix="leave it out: --columns"
            )
        if pa.types.is_string(self.type) or pa.types.is_large_string(self.type):
            return (value.encode() for value in values.to_pylist())
        if pa.types.is_binary(self.type) or pa.types.is_large_binary(self.type):
            return iter(values.to_pylist())
        if self.type in _FIXED:
            return (value.tobytes() for value in values.to_numpy(zero_copy_only=False))
        return (self._array(value.values.to_numpy(zero_copy_only=False)) for value in values)

    def _array(self, value: np.ndarray[Any, Any]) -> bytes:
        """The values of a list, behind their number where that varies: a byte (1 axis; log2 of the bytes of the number), the number."""
        if self.size is not None:
            return value.tobytes()
        log2 = next(i for i in range(4) if len(value) < 1 << (8 << i))
        return bytes([(1 << 2) | log2]) + len(value).to_bytes(1 << log2, "little") + value.tobytes()


def column(field: pa.Field) -> Column:
    """How a column of this type is written.

    Raises:
        UsageError: The format has nothing for it.
    """
    kind = field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Column(field.name, "str", None, kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return Column(field.name, "bytes", None, kind)
    if kind in _FIXED:
        encoding, dtype = _FIXED[kind]
        return Column(field.name, encoding, np.dtype(dtype).itemsize, kind)
    if pa.types.is_fixed_size_list(kind) and kind.value_type in _FIXED:
        values = np.dtype(_FIXED[kind.value_type][1])
        return Column(field.name, f"ndarray:{values.name}:{kind.list_size}", values.itemsize * kind.list_size, kind)
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and kind.value_type in _FIXED:
        return Column(field.name, f"ndarray:{np.dtype(_FIXED[kind.value_type][1]).name}", None, kind)
    raise UsageError(f"MDS has no encoding for {field.name!r} ({kind})", fix="leave it out: --columns")


@dataclass
class _Shard:
    """Samples that wait to be written together."""

    header: bytes
    samples: list[bytes] = field(default_factory=list)
    size: int = 0

    def __post_init__(self) -> None:
        self.size = 4 + 4 + len(self.header)

    def add(self, sample: bytes) -> None:
        self.samples.append(sample)
        self.size += 4 + len(sample)

    def to_bytes(self) -> bytes:
        n = len(self.samples)
        ends = np.cumsum([0, *map(len, self.samples)], dtype=np.uint64) + np.uint64(4 + 4 * (n + 1) + len(self.header))
        return struct.pack("<I", n) + ends.astype("<u4").tobytes() + self.header + b"".join(self.samples)


def write(rows: Rows, folder: Path, shard_bytes: int = SHARD_BYTES) -> int:
    """Writes the shards and index.json.

    Args:
        rows: What to write.
        folder: Where to.
        shard_bytes: A shard is no larger, unless one row alone is.

    Returns:
        Number of rows.

    Raises:
        UsageError: The format has nothing for a column.
        DataError: A column holds nulls.
    """
    columns = sorted((column(field) for field in rows.schema), key=lambda column: column.name)
    description = {
        "column_encodings": [column.encoding for column in columns],
        "column_names": [column.name for column in columns],
        "column_sizes": [column.size for column in columns],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": shard_bytes,
        "version": FORMAT_VERSION,
    }
    header = json.dumps(description, sort_keys=True).encode()
    shard, count = _Shard(header), 0
    entries: list[dict[str, Any]] = []
    for sample in _samples(rows, columns):
        if shard.samples and shard.size + 4 + len(sample) > shard_bytes:
            entries.append(_write_shard(shard, folder, len(entries), description))
            shard = _Shard(header)
        shard.add(sample)
        count += 1
    if shard.samples:
        entries.append(_write_shard(shard, folder, len(entries), description))
    (folder / "index.json").write_text(json.dumps({"shards": entries, "version": FORMAT_VERSION}, sort_keys=True), encoding="utf-8")
    return count


def _samples(rows: Rows, columns: list[Column]) -> Iterator[bytes]:
    varying = [i for i, column in enumerate(columns) if column.size is None]
    for batch in rows.batches():
        encoded = (column.encode(batch.column(column.name)) for column in columns)
        for values in zip(*encoded, strict=True):
            yield struct.pack(f"<{len(varying)}I", *(len(values[i]) for i in varying)) + b"".join(values)


def _write_shard(shard: _Shard, folder: Path, number: int, description: dict[str, Any]) -> dict[str, Any]:
    """Writes one shard; its entry in the index."""
    name, data = f"shard.{number:05}.mds", shard.to_bytes()
    (folder / name).write_bytes(data)
    return description | {"raw_data": {"basename": name, "bytes": len(data), "hashes": {}}, "samples": len(shard.samples), "zip_data": None}
