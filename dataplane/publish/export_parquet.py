"""Parquet shards in the layout that `datasets` and the Hugging Face Hub read: ``data/SPLIT-00000-of-0000N.parquet``."""

from __future__ import annotations

from pathlib import Path

from dataplane.publish.folder import number_shards
from dataplane.publish.rows import Rows

COMPRESSION = "zstd"
SUFFIX = ".parquet"


def write(rows: Rows, folder: Path, split: str, shard_bytes: int) -> int:
    """Writes the shards; there is at least one, so that a table without rows keeps its columns.

    Args:
        rows: What to write.
        folder: Where `data` is made.
        split: Name of the split.
        shard_bytes: Size at which a shard is full.

    Returns:
        Number of rows.
    """
    import pyarrow.parquet as pq

    data = folder / "data"
    data.mkdir()
    batches = rows.batches()
    batch = next(batches, None)
    shards = count = 0
    while batch is not None or not shards:
        path = data / f"{split}-{shards:05}{SUFFIX}"
        with path.open("wb") as stream, pq.ParquetWriter(stream, rows.schema, compression=COMPRESSION) as writer:
            # The size of the file, and not of the batches: what Arrow holds in memory depends on how the rows came here.
            while batch is not None and stream.tell() < shard_bytes:
                writer.write_batch(batch)  # a row group
                count += len(batch)
                batch = next(batches, None)
        shards += 1
    number_shards(data, split, SUFFIX, shards)
    return count
