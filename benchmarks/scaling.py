"""CPU seconds, memory and disk of banding and clustering against the number of documents, over made-up signatures.

python -m benchmarks.scaling [--quick] [--documents N ...] [--corpus PATH] [--share S] [--simulate N ...]

Each size runs in a process of its own, so that its memory is its own. A share of the documents are near-copies of others: each hash
function differs with probability 0.1. Signatures are verified by themselves (`verify: estimate`), so that no text is needed and --corpus is
unused. `disk` is what lies in the folder of the pass when clustering begins, files of keys being gone by then; `keys` is what those took.
--simulate runs two sizes that fit here, takes what a document more has cost between them, and prints what so many documents would cost:
bytes moved, memory, files and tasks. Nothing is assumed but that costs grow by the document, which the sizes of a plain run show.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dataplane.corpus.banding import _PARTITION_KEYS, Work, find_sharers
from dataplane.corpus.clusters import greedy_stars
from dataplane.corpus.minhash import MinHashParams
from dataplane.corpus.spill import spill_folder
from dataplane.engine.documents import UNIT_ROWS

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

SIZES, QUICK_SIZES = (100_000, 1_000_000, 10_000_000), (20_000, 100_000)
SIMULATED, QUICK_SIMULATED = (1_000_000, 3_000_000), (100_000, 300_000)
BLOCK = 50_000
CHANGED = 0.1  # of the hash functions of a near-copy
KEY_BYTES = 12


def blocks(n: int, share: float, hashes: int) -> Iterator[tuple[I64, U32]]:
    """Signatures of which a share are near-copies of one in the first half of their block."""
    for at in range(0, n, BLOCK):
        rng = np.random.default_rng(at)
        size = min(BLOCK, n - at)
        signed = rng.integers(0, 1 << 32, (size, hashes), np.uint32)
        copies = size // 2 + np.arange(int(size * share))
        signed[copies] = signed[rng.integers(0, size // 2, len(copies))]
        changed = rng.random((len(copies), hashes), np.float32) < CHANGED
        signed[copies] = np.where(changed, rng.integers(0, 1 << 32, changed.shape, np.uint32), signed[copies])
        yield np.arange(at, at + size), signed


class Made:
    """Passes on blocks, and keeps the seconds that making them took, of the CPU and of the clock.

    Args:
        made: The blocks.
    """

    def __init__(self, made: Iterator[tuple[I64, U32]]) -> None:
        self.made, self.seconds, self.wall, self.documents = made, 0.0, 0.0, 0

    def __iter__(self) -> Iterator[tuple[I64, U32]]:
        while True:
            started, begun = time.process_time(), time.perf_counter()
            block = next(self.made, None)
            self.seconds += time.process_time() - started
            self.wall += time.perf_counter() - begun
            if block is None:
                return
            self.documents += len(block[0])
            yield block


def measure(n: int, share: float) -> dict[str, Any]:
    """One row."""
    params = MinHashParams(verify="estimate", threshold=0.7)
    rank = np.random.default_rng(0).permutation(n)
    # From here on it is what `minhash.find_duplicates` does, stopped before the folder goes.
    with tempfile.TemporaryDirectory() as scratch, spill_folder(Path(scratch) / "spill") as folder:
        started, begun = time.process_time(), time.perf_counter()
        made: list[Made] = []
        work = Work(lambda: made.append(Made(blocks(n, share, params.width()))) or made[-1], rank, np.zeros(0, np.uint64))
        sharers = find_sharers(work, params.cut(), folder)
        banded = time.process_time() - started - sum(each.seconds for each in made)
        disk = sum(path.stat().st_size for path in folder.iterdir())
        started = time.process_time()
        stars = greedy_stars(sharers, n, lambda _, __, shares: shares, params.threshold, params.threshold, folder)
        clustered = time.process_time() - started
        wall = time.perf_counter() - begun - sum(each.wall for each in made)
    return {
        "documents": made[0].documents,
        "banding_s": round(banded, 2),
        "clustering_s": round(clustered, 2),
        "wall_s": round(wall, 2),
        "us_per_document": round((banded + clustered) / n * 1e6, 3),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "keys_mb": round(n * params.cut().bands * KEY_BYTES / 1e6),
        "disk_mb": round(disk / 1e6),
        "dropped": int((stars.leader != np.arange(n)).sum()),
    }


def simulated(n: int, small: dict[str, Any], large: dict[str, Any]) -> dict[str, Any]:
    """What n documents would cost by two measured rows, one row."""
    more = large["documents"] - small["documents"]
    seconds = [row["banding_s"] + row["clustering_s"] for row in (small, large)]

    def grown(of_small: float, of_large: float) -> float:
        return of_large + (of_large - of_small) / more * (n - large["documents"])

    params = MinHashParams()
    cut = params.cut()
    return {
        "name": f"minhash, banding and clustering, simulated, {n:,} documents", "ours": round(grown(*seconds)),
        "peer": None, "peer_name": None, "peer_version": None, "ratio": None, "unit": "CPU s",
        "memory_gb": round(grown(small["memory_mb"], large["memory_mb"]) / 1e3, 1),
        "signatures_read_gb": round(2 * n * 4 * params.width() / 1e9),  # once for the keys, once for those that share one
        "keys_written_and_read_gb": round(2 * n * cut.bands * KEY_BYTES / 1e9),
        "spilled_then_gb": round(grown(small["disk_mb"], large["disk_mb"]) / 1e3),
        "files_of_keys": cut.bands << max(0, (n - 1) // _PARTITION_KEYS).bit_length(),
        "tasks_of_signatures": -(-n // UNIT_ROWS),
    }  # fmt: skip


def measured(n: int, share: float) -> dict[str, Any]:
    """One row, of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--here", "--documents", str(n), "--share", str(share)]
    row: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument("--corpus", type=Path, help="unused: signatures are made up")
    parser.add_argument("--documents", type=int, nargs="+", help="sizes")
    parser.add_argument("--share", type=float, default=0.3, help="share of near-copies, at most 0.5")
    parser.add_argument("--simulate", type=int, nargs="+", help="sizes that are told from two smaller ones")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    sizes = chosen.documents or (QUICK_SIZES if chosen.quick else SIZES)
    if chosen.here:
        print(json.dumps(measure(sizes[0], chosen.share)))
        return
    if chosen.simulate:
        small, large = (measured(n, chosen.share) for n in (QUICK_SIMULATED if chosen.quick else SIMULATED))
        for n in chosen.simulate:
            print(json.dumps(simulated(n, small, large)), flush=True)
        return
    for n in sizes:
        row = measured(n, chosen.share)
        seconds = row["banding_s"] + row["clustering_s"]
        shown = {"name": f"minhash, banding and clustering, {n:,} documents", "ours": round(seconds, 2), "peer": None, "peer_name": None}
        print(json.dumps(shown | {"peer_version": None, "ratio": None, "unit": "CPU s"} | row), flush=True)


if __name__ == "__main__":
    main()
