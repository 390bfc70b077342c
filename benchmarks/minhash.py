"""MB/s of UTF-8 per CPU second of MinHash signatures, with splitting and shingling, against the peers that are at hand.

python -m benchmarks.minhash [--quick] [--corpus FILE_OR_FOLDER] [--peer PYTHON ...]

PYTHON is the interpreter of an environment with one or more of datatrove, datasketch and rensa. A peer reads a part of the documents.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import json
import subprocess

import pyarrow as pa

from benchmarks.text_corpus import cpu_seconds, documents, options, show
from dataplane.corpus.minhash import MinHashParams, signatures

PEER = Path(__file__).with_name("peer_minhash.py")
NAMES = ("datatrove", "datasketch", "rensa")
PEER_CHARS = 300_000


def interpreters() -> list[Path]:
    """The interpreters behind --peer, which are taken off the command line; else that of `make bench-setup`, where it is."""
    if "--peer" not in sys.argv:
        return [path for path in (Path(".venv-peers/bin/python"),) if path.exists()]
    at = sys.argv.index("--peer")
    found = [Path(name) for name in sys.argv[at + 1 :]]
    del sys.argv[at:]
    return found


def size(texts: list[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


def theirs(texts: list[str], python: Path, name: str) -> tuple[float, str] | None:
    """MB/s and version, None where that environment has no such peer."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([str(python), str(PEER), name], input=lines, capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return size(texts) / found["seconds"], found["version"]


def main() -> None:
    pythons = interpreters()
    texts = documents(options(__doc__))
    column, params = pa.array(texts, pa.large_string()), MinHashParams()
    signatures(column.slice(0, 1), params)
    ours = size(texts) / cpu_seconds(lambda: signatures(column, params))
    part = texts[: max(1, PEER_CHARS // max(len(text) for text in texts))]
    for python in pythons:
        for name in NAMES:
            found = theirs(part, python, name)
            if found:
                show("minhash signatures, 14 x 8, 5-word shingles", ours, found[0], name, found[1], "MB/s")


if __name__ == "__main__":
    main()
