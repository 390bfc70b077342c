"""How fast a table's content digest is, against hashing rows with polars and hashing files as DVC does.

    python benchmarks/snapshot_digest.py [--quick] [--corpus PROJECT]

Prints one JSON line for each comparison. The table is `documents` of a project, or synthetic documents of the same shape. All run
on one thread over the same Arrow data in memory, but for the files' md5, which reads the Parquet file that holds it. Polars' row hash
has 64 bits and differs between its versions, so it is no digest; it is the fastest hash of rows that is one pip install away.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from dataplane.snapshot import Snapshot, content_digest, content_sum

ROUNDS = 3
BATCH_ROWS = 4096
WORDS = np.array(["the", "river", "grain", "mill", "boat", "bridge", "spring", "father", "harvest", "village", "count", "winter"])


def synthetic(rows: int) -> pa.Table:
    """Documents of about 2,000 bytes with 30 signals."""
    rng = np.random.default_rng(0)
    texts = [" ".join(WORDS[rng.integers(0, len(WORDS), 330)]) for _ in range(rows)]
    columns = {
        "doc_id": pa.array([f"{rng.integers(0, 2**62):032x}" for _ in range(rows)]),
        "source": pa.array(["web"] * rows),
        "text": pa.array(texts, pa.large_string()),
    }
    signals = {f"text_signals__s{i}": pa.array(rng.random(rows)) for i in range(30)}
    return pa.table(columns | signals)


def ours(table: pa.Table) -> str:
    """The digest as snapshots have it."""
    total = sum(content_sum(batch) for batch in table.to_batches(max_chunksize=BATCH_ROWS))
    return content_digest(table.schema, table.num_rows, total)


def with_polars(table: pa.Table) -> str:
    """The sum of polars' row hashes."""
    return f"{int(pl.from_arrow(table).hash_rows().sum()) & (2**64 - 1):016x}"  # type: ignore[union-attr]


def fastest(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of a few rounds; the first, which compiles, does not count."""
    work()
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def compare(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of the benchmark."""
    size = table.nbytes / 1e6
    mine = size / fastest(lambda: ours(table))
    yield _row("digest of rows", mine, size / fastest(lambda: with_polars(table)), "polars hash_rows", pl.__version__, size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(table, path, compression="none")
        on_disk = path.stat().st_size / 1e6
        peer = on_disk / fastest(lambda: hashlib.md5(path.read_bytes(), usedforsecurity=False))
        yield _row("digest of rows", mine, peer, "md5 of the file, as DVC", platform.python_version(), size)
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    if ours(shuffled) != ours(table):
        raise SystemExit("the digest depends on the order of the rows")


def _row(name: str, ours: float, peer: float, peer_name: str, version: str, size: float) -> dict[str, Any]:
    return {
        "name": name, "ours": round(ours, 1), "peer": round(peer, 1), "peer_name": peer_name, "peer_version": version,
        "ratio": round(ours / peer, 3), "unit": "MB/s, one thread", "table_mb": round(size),
    }  # fmt: skip


def main() -> None:
    """Runs the benchmark and prints its rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="A tenth of the rows.")
    parser.add_argument("--corpus", type=Path, help="A project whose `documents` are taken instead of synthetic ones.")
    given = parser.parse_args()
    table = Snapshot.load("documents", given.corpus).to_table() if given.corpus else synthetic(10_000 if given.quick else 100_000)
    for row in compare(table):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
