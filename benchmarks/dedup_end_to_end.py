"""MB/s of UTF-8 by the clock, from texts in memory to clusters that are verified, on one core and on two.

python -m benchmarks.dedup_end_to_end [--quick] [--corpus FILE_OR_FOLDER]

A third of the documents are near-copies of others, with one word in fifty changed; of the rest every fourth word is numbered by its
document, so that what --corpus repeats is no duplicate. Signatures are made in threads (the kernel holds no lock), the rest in one.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.text_corpus import documents, options
from dataplane.corpus.banding import Work
from dataplane.corpus.minhash import MinHashParams, find_duplicates, signatures
from dataplane.corpus.similarities import Similarities
from dataplane.kernels.hashing import hash128

CHUNK = 256
CHANGED = 0.02
COPIES = 3  # every so many-th document is a near-copy


def corpus(texts: list[str]) -> list[str]:
    """Documents of which a third are near-copies of the one before them."""
    rng = random.Random(0)
    found: list[str] = []
    for i, text in enumerate(texts):
        words = (found[-1] if i % COPIES == 2 else text).split(" ")
        if i % COPIES == 2:
            words = [word if rng.random() > CHANGED else f"{word}{i}" for word in words]
        else:
            words = [f"{word}{i}" if at % 4 == 0 else word for at, word in enumerate(words)]
        found.append(" ".join(words))
    return found


def dedup(column: pa.Array, threads: int, folder: Path) -> int:
    """Texts to clusters; returns how many documents go."""
    params = MinHashParams()
    chunks = [column.slice(at, CHUNK) for at in range(0, len(column), CHUNK)]
    with ThreadPoolExecutor(threads) as pool:
        signed = list(pool.map(lambda chunk: signatures(chunk, params), chunks))

    def blocks() -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]]:
        for i, block in enumerate(signed):
            yield np.arange(i * CHUNK, i * CHUNK + len(block)), block

    rank = np.argsort(np.argsort(pc.binary_length(column).to_numpy())[::-1])
    known = Similarities(folder / "pairs", hash128(column))
    work = Work(blocks, rank, np.zeros(0, np.uint64))
    stars = find_duplicates(work, lambda wanted: column.take(pa.array(wanted)), known, params, folder / "spill")
    return int((stars.leader != np.arange(len(column))).sum())


def main() -> None:
    column = pa.array(corpus(documents(options(__doc__))), pa.large_string())
    size = pc.sum(pc.binary_length(column)).as_py() / 1e6
    for threads in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            dedup(column.slice(0, 8), 1, Path(folder) / "warm")
            started, spent = time.perf_counter(), time.process_time()
            dropped = dedup(column, threads, Path(folder) / "whole")
            seconds, cpu = time.perf_counter() - started, time.process_time() - spent
        row = {"name": f"dedup end to end, {threads} threads", "ours": round(size / seconds, 2), "peer": None, "peer_name": None}
        about = {"documents": len(column), "dropped": dropped, "mb_per_cpu_s": round(size / cpu, 2), "cores": os.cpu_count()}
        print(json.dumps(row | {"peer_version": None, "ratio": None, "unit": "MB/s"} | about), flush=True)


if __name__ == "__main__":
    main()
