"""MB/s of UTF-8 per CPU second: the signals of all rule sets against datatrove's four filters together, and the time of a cold start.

python benchmarks/text_signals.py [--quick] [--corpus FILE_OR_FOLDER] [--peer PYTHON]

PYTHON is the interpreter of an environment with datatrove (`make bench-setup`). The peer reads a part of the documents, since it needs
seconds for a megabyte; its seconds are those of Gopher quality, Gopher repetition, C4 and FineWeb.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import argparse
import json
import os
import subprocess
import tempfile
import time

import pyarrow as pa

from benchmarks.text_corpus import cpu_seconds, documents, options, show

PEER = Path(__file__).with_name("quality") / "parity_peer.py"
PEER_CHARS = 300_000
FILTERS = ("gopher_quality", "gopher_repetition", "c4", "fineweb")
COLD = "import time; t = time.process_time(); import dataplane.kernels.text_signals; print(time.process_time() - t)"


def chosen_options() -> argparse.Namespace:
    peer = Path(".venv-peers/bin/python")
    if "--peer" in sys.argv:
        at = sys.argv.index("--peer")
        peer = Path(sys.argv[at + 1])
        del sys.argv[at : at + 2]
    chosen = options(__doc__)
    chosen.peer = peer
    return chosen


def ours(texts: list[str], words: str) -> float:
    from dataplane.annotators.text_signals import TextSignals

    operator = TextSignals({"words": words})
    operator.open()
    batch = pa.record_batch({"text": pa.array(texts, pa.large_string())})
    operator.annotate(batch.slice(0, 1))
    return cpu_seconds(lambda: operator.annotate(batch))


def theirs(texts: list[str], python: Path) -> tuple[float, str]:
    """CPU seconds of the four filters, and the version of datatrove."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    found = subprocess.run([str(python), str(PEER), "--seconds"], input=lines, capture_output=True, text=True, check=True).stdout
    version = [str(python), "-c", "from importlib.metadata import version; print(version('datatrove'))"]
    spent = json.loads(found)
    return sum(spent[name] for name in FILTERS), subprocess.run(version, capture_output=True, text=True, check=True).stdout.strip()


def cold_start() -> float:
    """Seconds that a first import compiles for."""
    with tempfile.TemporaryDirectory() as cache:
        run = subprocess.run(
            [sys.executable, "-c", COLD], env=os.environ | {"NUMBA_CACHE_DIR": cache}, capture_output=True, text=True, check=True
        )
    return float(run.stdout)


def size(texts: list[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


def part(texts: list[str], chars: int) -> list[str]:
    found, total = [], 0
    for text in texts:
        found.append(text)
        total += len(text)
        if total > chars:
            break
    return found


def main() -> None:
    chosen = chosen_options()
    texts = documents(chosen)
    small = part(texts, PEER_CHARS)
    seconds, version = theirs(small, chosen.peer)
    peer = size(small) / seconds
    for words, of in (("reference", texts), ("paper", texts), ("exact", small)):
        show(f"text signals, words: {words}", size(of) / ours(of, words), peer, "datatrove, four filters", version, "MB/s")
    started = time.time()
    row = {"name": "text signals, cold start", "ours": round(cold_start(), 2), "wall": round(time.time() - started, 2)}
    print(json.dumps(row | {"peer": None, "peer_name": None, "peer_version": None, "ratio": None, "unit": "CPU s"}), flush=True)


if __name__ == "__main__":
    main()
