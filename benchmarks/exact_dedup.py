"""MB/s of UTF-8 per CPU second of exact dedup at each level: content hashes, then groups.

python -m benchmarks.exact_dedup [--quick] [--corpus FILE_OR_FOLDER]

The peer is the loop over Python's strings that text-dedup, datatrove and Data-Juicer have: bring into form, encode, hash (xxh3_128, the
fastest at hand), a set. It has one hash where we have two lanes of XXH64.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import re
import unicodedata
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import xxhash

from benchmarks.text_corpus import cpu_seconds, documents, options, show
from dataplane.corpus.exact import ExactParams, content_hashes, leaders

NOT_A_LETTER = re.compile(r"[\W_]+")
FORMS: dict[str, Callable[[str], str]] = {
    "bytes": str,
    "unicode": lambda text: unicodedata.normalize("NFKC", text).lower(),
    "letters": lambda text: NOT_A_LETTER.sub("", unicodedata.normalize("NFKD", text)).lower(),
}


def plain(texts: list[str], level: str) -> int:
    """Distinct texts, as a loop finds them."""
    return len({xxhash.xxh3_128_digest(FORMS[level](text).encode()) for text in texts})


def ours(column: pa.Array, level: str) -> int:
    """Distinct texts at a level."""
    leader = leaders(content_hashes(column, ExactParams.parse({"level": level}, where="")), np.arange(len(column)))
    return int((leader == np.arange(len(column))).sum())


def main() -> None:
    texts = documents(options(__doc__))
    column = pa.array(texts, pa.large_string())
    size = sum(len(text.encode()) for text in texts) / 1e6
    for level in FORMS:
        ours(column.slice(0, 1), level)
        peer = size / cpu_seconds(lambda level=level: plain(texts, level))
        show(
            f"exact, level {level}",
            size / cpu_seconds(lambda level=level: ours(column, level)),
            peer,
            "xxhash loop",
            xxhash.VERSION,
            "MB/s",
        )
    if ours(column, "unicode") != plain(texts, "unicode"):
        raise SystemExit("not the same number of distinct texts")


if __name__ == "__main__":
    main()
