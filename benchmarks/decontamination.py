"""Megabytes a second (of one core's time) of looking for GSM8K, MMLU, HumanEval and BBH in a corpus, and what is found wrongly.

    python benchmarks/decontamination.py [--quick] [--corpus PATH]

The benchmarks are those of $TERRAPLANE_SHARED_DATA/benchmarks; without them, made-up items of the same number and length
stand in, and the rows say so. The peer is a set of word 13-grams in Python over lower-cased words. Every 50th document gets an
item of the benchmarks put in: recall is the share of them that is found, and "clean documents flagged" the share of the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import os
import random
import re
import tarfile
import tempfile
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from benchmarks.text_corpus import documents, options, show

LEAK_EVERY = 50
STAND_INS = {"gsm8k": (1319, 100), "mmlu": (14_000, 60), "humaneval": (164, 120), "bbh": (6511, 80)}  # items, words
ALLOWED_MB_S = 40.0
PEER_SHARE = 20  # of the corpus, the part that the peer is given


def published(folder: Path, unpacked: Path) -> list[dict[str, Any]]:
    """Params of the four benchmarks."""
    for archive in ("mmlu/mmlu_csv.tar.xz", "bbh/bbh.tar.xz"):
        with tarfile.open(folder / archive) as opened:
            opened.extractall(unpacked, filter="data")
    return [
        {"name": "gsm8k", "paths": [str(folder / "gsm8k/test.jsonl")], "fields": ["question", "answer"]},
        {"name": "mmlu", "paths": [f"{unpacked}/data/mmlu/test/*.csv"], "fields": ["0", "1", "2", "3", "4"]},
        {"name": "humaneval", "paths": [str(folder / "humaneval/HumanEval.jsonl.gz")], "fields": ["prompt", "canonical_solution"]},
        {"name": "bbh", "paths": [f"{unpacked}/bbh/*.json"], "fields": ["input"]},
    ]


def items(setup: Any) -> tuple[list[tuple[str, str, list[str]]], str]:
    """Benchmark, id and passages of each item, and what they are."""
    from dataplane.corpus.benchmark_items import Benchmark, read_items

    folder = Path(os.environ.get("TERRAPLANE_SHARED_DATA", "shared/data")) / "benchmarks"
    if folder.is_dir():
        with tempfile.TemporaryDirectory() as unpacked:
            given = [Benchmark.parse(value, where="benchmark") for value in published(folder, Path(unpacked))]
            return [(b.name, item_id, passages) for b in given for item_id, passages in read_items(b)], "published items"
    rng = random.Random(0)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(20_000)]
    made = [(name, str(i), [" ".join(rng.choices(words, k=size))]) for name, (n, size) in STAND_INS.items() for i in range(n)]
    return made, "made-up items of their number and length"


def peer(passages: list[str], texts: list[str]) -> tuple[float, set[int]]:
    """Seconds to look for 13-grams of words by a Python set, and the texts that hold one."""
    grams = {gram for text in passages for gram in word_grams(text)}
    started = time.process_time()
    found = {i for i, text in enumerate(texts) if any(gram in grams for gram in word_grams(text))}
    return time.process_time() - started, found


def word_grams(text: str, n: int = 13) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def plant(texts: list[str], leaks: list[str]) -> list[str]:
    """The texts, every 50th with an item in its middle, in other case and spacing."""
    forms: list[Callable[[str], str]] = [str, str.upper, lambda text: text.replace(" ", "\n\n"), lambda text: "".join(text.split())]
    out = list(texts)
    for k, i in enumerate(range(0, len(texts), LEAK_EVERY)):
        half = len(texts[i]) // 2
        out[i] = f"{texts[i][:half]} {forms[k % len(forms)](leaks[k % len(leaks)])} {texts[i][half:]}"
    return out


def main() -> None:
    from dataplane.corpus.contamination import DecontaminateParams, contaminated, index_items, scan

    chosen = options(__doc__)
    given, what = items(None)
    clean = documents(chosen)
    long = [passages[0] for _, _, passages in given if len(passages[0].split()) >= 20]
    random.Random(1).shuffle(long)
    texts = plant(clean, long)
    planted = {f"{i}" for i in range(0, len(texts), LEAK_EVERY)}
    doc_ids, column = pa.array([str(i) for i in range(len(texts))]), pa.array(texts, pa.large_string())
    mb = sum(len(text.encode()) for text in texts) / 1e6
    part = texts[: max(1, len(texts) // PEER_SHARE)]
    part_mb = sum(len(text.encode()) for text in part) / 1e6
    seconds, _ = peer([text for _, _, passages in given for text in passages], part)
    for n in ([13], [8], [13, 8]):
        setup = DecontaminateParams(n=n, n_cjk=n)
        index = index_items(given, setup)
        scan(index, doc_ids.slice(0, 1), column.slice(0, 1))
        started = time.process_time()
        hits = scan(index, doc_ids, column)
        speed = mb / (time.process_time() - started)
        named = f"n={'+'.join(map(str, n))}, {len(given):,} {what}"
        show(f"decontamination, {named}", speed, part_mb / seconds, "Python set of word 13-grams", sys.version.split()[0], "MB/s")
        show(f"decontamination, {named}, wanted", speed, ALLOWED_MB_S, "allowed", "", "MB/s")
        flagged = set(contaminated(hits, setup).to_pylist())
        show(f"recall of planted items, {named}", len(planted & flagged) / len(planted), 1.0, "all", "", "share")
        others = len(texts) - len(planted)
        show(f"clean documents flagged, {named}", len(flagged - planted), others, "clean documents", "", "documents")


if __name__ == "__main__":
    main()
