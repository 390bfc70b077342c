"""MB/s of UTF-8 per CPU second of finding repeated passages, way by way, and what is found of those that were put in.

    python benchmarks/repeats.py [--quick] [--corpus PATH]

Only ASCII words are taken, and each is numbered by its document and place, so that nothing stands twice but what is put in: each tenth
document quotes a paragraph of 100 tokens from the one before it. The peer is a loop over Python's strings with a set: of runs of 50
tokens, as Lee et al. 2021 look for (arXiv:2107.06499), of paragraphs and of lines, as CCNet does. It holds all of them in memory; the pass
spills to disk.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import re
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks.text_corpus import cpu_seconds, documents, options, show
from dataplane.corpus.repeats import Collection, RepeatsParams, find_repeats

QUOTE_EVERY, QUOTED = 10, 100
TOKENS, MIN_TOKENS = 50, 8
CHUNK = 500
WAYS = ("substring", "paragraph", "line")


def made(texts: list[str]) -> list[str]:
    """The texts, with their words numbered and passages quoted."""
    split = ([word for word in text.split() if word.isascii()] or ["empty"] for text in texts)
    numbered = [[f"{word}{i}.{k}" for k, word in enumerate(words)] for i, words in enumerate(split)]
    out = []
    for i, words in enumerate(numbered):
        passage = " ".join(numbered[i - 1][:QUOTED]) if i % QUOTE_EVERY == 0 and i else ""
        out.append(f"{' '.join(words[:QUOTED])}\n\n{' '.join(words[QUOTED:])}" + (f"\n\n{passage}" if passage else ""))
    return out


def ours(column: pa.Array, way: str, folder: Path) -> set[int]:
    """The documents that hold a repeat."""

    def texts() -> Iterator[tuple[np.ndarray, pa.Array]]:
        for at in range(0, len(column), CHUNK):
            part = column.slice(at, CHUNK)
            yield np.arange(at, at + len(part)), part

    whole = Collection(texts, lambda places: column.take(pa.array(places)), np.arange(len(column)), np.zeros(0, np.uint64))
    params = RepeatsParams(find=[way], tokens=TOKENS, min_tokens=MIN_TOKENS)
    return set(find_repeats(whole, params, folder / "spill").runs[:, 0].tolist())


def plain(texts: list[str], way: str) -> set[int]:
    """The documents that hold a repeat, as a loop finds them."""
    seen, found = set[tuple[str, ...]](), set[int]()
    for i, text in enumerate(texts):
        if way == "substring":
            words = text.split()
            units = [tuple(words[k : k + TOKENS]) for k in range(len(words) - TOKENS + 1)]
        else:
            parts = re.split(r"\n\s*\n", text) if way == "paragraph" else text.splitlines()
            units = [unit for part in parts if len(unit := tuple(part.split())) >= MIN_TOKENS]
        if any(unit in seen for unit in units):
            found.add(i)
        seen.update(units)
    return found


def main() -> None:
    texts = made(documents(options(__doc__)))
    column = pa.array(texts, pa.large_string())
    size = sum(len(text.encode()) for text in texts) / 1e6
    some = texts[: max(QUOTE_EVERY + 1, len(texts) // 10)]  # the peer's windows take memory
    some_size = sum(len(text.encode()) for text in some) / 1e6
    put_in = {i for i in range(QUOTE_EVERY, len(texts), QUOTE_EVERY) if len(texts[i - 1].split()) >= TOKENS}
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            ours(column.slice(0, 1), way, Path(folder))
            started = time.process_time()
            found = ours(column, way, Path(folder))
            speed = size / (time.process_time() - started)
            peer = some_size / cpu_seconds(lambda way=way: plain(some, way))
            show(f"repeats, {way}", speed, peer, "Python set", sys.version.split()[0], "MB/s")
            show(f"recall of quoted passages, {way}", len(put_in & found) / len(put_in), 1.0, "all", "", "share")
            show(f"documents without one that are marked, {way}", len(found - put_in), len(texts) - len(put_in), "others", "", "documents")


if __name__ == "__main__":
    main()
