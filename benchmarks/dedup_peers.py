"""What MinHash dedup finds and misses, ours and the peers', against the Jaccard similarity of every pair.

python -m benchmarks.dedup_peers [--quick] [--corpus FILE_OR_FOLDER] [--peer PYTHON ...]

Each document stands there with copies in which 1 to 20% of the words (of Chinese: characters) are changed. By brute force over the
shingle sets of 5 words it is known which pairs are alike by 0.8 or more. `found` is the share of those pairs of which a document goes;
`expected` what the formula of the bands says of them. `wrong` is how many documents go although nothing that stays is as much alike: what
is lost. datatrove is run as it comes, with its splitting of English words.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import json
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.minhash import NAMES, interpreters
from benchmarks.text_corpus import documents, options
from dataplane.corpus.banding import Work
from dataplane.corpus.minhash import MinHashParams, find_duplicates, signatures
from dataplane.corpus.similarities import Similarities
from dataplane.kernels.hashing import hash128
from dataplane.kernels.minhash import shingle_sets

PEER = Path(__file__).with_name("peer_dedup.py")
RATES = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
BASES, QUICK_BASES = 300, 60
THRESHOLD = 0.8
UNIT = re.compile(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+\s*|\s+")


def edited(texts: Sequence[str], seed: int) -> list[str]:
    """Each text, and copies of it with units of the others' in place of some of its own."""
    rng = random.Random(seed)
    units = [UNIT.findall(text) for text in texts]
    stock = [unit for of_text in units for unit in of_text if unit.strip()]
    return ["".join(rng.choice(stock) if rng.random() < rate else unit for unit in of_text) for of_text in units for rate in RATES]


def jaccards(texts: Sequence[str]) -> dict[tuple[int, int], float]:
    """Similarity of every pair that is alike at all; texts of different bases are compared too."""
    values, bounds = shingle_sets(pa.array(texts, pa.large_string()), words=5)
    sets = [set(values[bounds[i] : bounds[i + 1]].tolist()) for i in range(len(texts))]
    found = {}
    for i, j in combinations(range(len(texts)), 2):
        common = len(sets[i] & sets[j])
        if common:
            found[i, j] = common / (len(sets[i]) + len(sets[j]) - common)
    return found


def ours(texts: Sequence[str]) -> list[int]:
    """The documents that go, the first of a cluster staying."""
    column, params = pa.array(texts, pa.large_string()), MinHashParams(threshold=THRESHOLD)
    signed = signatures(column, params)

    def blocks() -> Iterator[tuple[Any, Any]]:
        yield np.arange(len(signed)), signed

    with tempfile.TemporaryDirectory() as folder:
        known = Similarities(Path(folder) / "pairs", hash128(column))
        work = Work(blocks, np.arange(len(signed)), np.zeros(0, np.uint64))
        stars = find_duplicates(work, lambda wanted: column.take(pa.array(wanted)), known, params, Path(folder) / "spill")
    gone: list[int] = np.flatnonzero(stars.leader != np.arange(len(signed))).tolist()
    return gone


def theirs(texts: Sequence[str], python: Path, name: str) -> tuple[list[int], str] | None:
    """The documents that go and the version; None where that environment has no such peer."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([str(python), str(PEER), name], input=lines, capture_output=True, text=True, check=False)
    if f"No module named '{name}'" in done.stderr:
        return None
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return found["gone"], found["version"]


def row(name: str, version: str | None, kind: str, gone: Sequence[int], alike: dict[tuple[int, int], float]) -> dict[str, Any]:
    """What was found and what was lost."""
    out = set(gone)
    near = {pair: value for pair, value in alike.items() if value >= THRESHOLD}
    best: dict[int, float] = {}
    for (i, j), value in alike.items():
        for one, other in ((i, j), (j, i)):
            if other not in out:
                best[one] = max(best.get(one, 0.0), value)
    found = sum(i in out or j in out for i, j in near) / max(len(near), 1)
    curve = MinHashParams().cut()
    return {
        "name": f"near-duplicates, {kind}",
        "who": name,
        "version": version,
        "pairs": len(near),
        "found": round(found, 4),
        "expected": round(sum(map(curve.probability, near.values())) / max(len(near), 1), 4),
        "gone": len(out),
        "wrong": sum(best.get(i, 0.0) < THRESHOLD for i in out),
    }


def main() -> None:
    pythons = interpreters()
    chosen = options(__doc__)
    bases = sorted(set(documents(chosen)))
    random.Random(0).shuffle(bases)
    chinese = [text for text in bases if len(re.findall(r"[\u4e00-\u9fff]", text)) > len(text) / 2]
    latin = [text for text in bases if not re.search(r"[\u4e00-\u9fff]", text)]
    for kind, of_kind in (("other scripts", latin), ("Chinese", chinese)):
        texts = edited(of_kind[: QUICK_BASES if chosen.quick else BASES], 1)
        if not texts:
            continue
        alike = jaccards(texts)
        print(json.dumps(row("terraplane", None, kind, ours(texts), alike)), flush=True)
        for python in pythons:
            for name in NAMES:
                if (dropped := theirs(texts, python, name)) is not None:
                    print(json.dumps(row(name, dropped[1], kind, dropped[0], alike)), flush=True)


if __name__ == "__main__":
    main()
