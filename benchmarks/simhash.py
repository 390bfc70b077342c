"""MB/s of UTF-8 per CPU second of SimHash fingerprints, with splitting and shingling.

python -m benchmarks.simhash [--quick] [--corpus FILE_OR_FOLDER]

The peer is the loop of text-dedup and of other packages for SimHash: a hash for each shingle (here xxhash's, the fastest at hand), and
64 counters in NumPy, over a part of the documents.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from benchmarks.text_corpus import cpu_seconds, documents, options, show
from dataplane.kernels.simhash import fingerprints

PEER_DOCUMENTS = 200
WORDS = 3
WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")
BIT = np.uint64(1) << np.arange(64, dtype=np.uint64)


def plain(text: str) -> npt.NDArray[np.bool_]:
    """A fingerprint as NumPy makes it."""
    words = WORD.findall(text.lower())
    hashes = [xxhash.xxh64_intdigest(" ".join(words[i : i + WORDS])) for i in range(max(1, len(words) - WORDS + 1))]
    found: npt.NDArray[np.bool_] = ((np.array(hashes, np.uint64)[:, None] & BIT) != 0).mean(axis=0) > 0.5
    return found


def main() -> None:
    texts = documents(options(__doc__))
    column = pa.array(texts, pa.large_string())
    part = texts[:PEER_DOCUMENTS]
    fingerprints(column.slice(0, 1), words=WORDS)
    ours = sum(len(text.encode()) for text in texts) / 1e6 / cpu_seconds(lambda: fingerprints(column, words=WORDS))
    peer = sum(len(text.encode()) for text in part) / 1e6 / cpu_seconds(lambda: [plain(text) for text in part])
    show("simhash, 3-word shingles", ours, peer, "numpy and xxhash", f"{np.__version__} and {xxhash.VERSION}", "MB/s")


if __name__ == "__main__":
    main()
