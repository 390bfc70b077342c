"""Measures everything anew and writes benchmarks/results: `python benchmarks/measure.py --data FOLDER [NAME ...]`.

Every part of benchmarks/quality is scored on the sets of FOLDER, and the speed benchmarks run with --quick on the texts of its
corpus.tar.xz. A part that cannot be measured (its set is not there, its model, its peer) is a row that says so, and exit status 1.
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
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from benchmarks import results

ROOT = Path(__file__).parents[1]
SHARED = frozenset(
    {"__init__", "__main__", "html_sets", "parity_peer", "udhr"}
)  # modules of benchmarks/quality that score nothing themselves
# Those that measure operators; the others are about the lake, histories and memory. Some are given the whole folder, not its texts.
SPEED = ("operators", "clean_stage", "text_signals", "html_text", "language", "pii", "toxicity", "encoding", "perplexity", "line_rules")
OF_THE_FOLDER = frozenset({"html_text"})
MIN_ASCII_SHARE = 0.95  # of an English text
PARITY = ["--limit", "2000", "--rule", "reference"]  # of the rest see docs/parity.md: the peer reads a megabyte in some seconds
SECONDS = 3600


def commands(data: Path, texts: Path) -> dict[str, list[str]]:
    """Benchmark -> its command line."""
    scored = sorted(path.stem for path in (ROOT / "benchmarks" / "quality").glob("*.py") if path.stem not in SHARED)
    quality = {f"quality.{name}": ["benchmarks.quality", name, "--data", str(data), "--json"] for name in scored}
    quality["quality.parity"] = ["benchmarks.quality", "parity", "--data", str(texts / "english"), "--json", *PARITY]
    timed = [name for name in SPEED if (ROOT / "benchmarks" / f"{name}.py").is_file()]
    corpus = {name: str(data if name in OF_THE_FOLDER else texts) for name in timed}
    return quality | {name: [f"benchmarks.{name}", "--quick", "--corpus", corpus[name]] for name in timed}


def measure(command: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows that a benchmark prints; the last says what went wrong, if something did."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        yield {"missing": f"it took more than {SECONDS} s"}
        return
    found = [line for line in done.stdout.splitlines() if line.startswith("{")]
    yield from (json.loads(line) for line in found)
    if done.returncode or not found:
        # The lines of a traceback are indented, the error below it is not.
        said = [line for line in done.stderr.splitlines() if line[:1].strip()] or [f"exit status {done.returncode} and no row"]
        yield {"missing": said[-1].replace(str(ROOT), ".")}


def write_texts(data: Path, folder: Path) -> None:
    """The plain texts of corpus.tar.xz, for the speed benchmarks, with the English ones in a folder of their own."""
    archive = data / "corpus.tar.xz"
    if not archive.is_file():
        return
    with tarfile.open(archive) as opened:
        opened.extractall(folder, [m for m in opened if m.name.endswith((".txt", ".md"))], filter="data")
    files = [path for path in folder.rglob("*") if path.is_file()]
    for language in ("english", "other"):
        (folder / language).mkdir()
    for i, path in enumerate(files):
        content = path.read_bytes()
        english = sum(byte < 128 for byte in content) > MIN_ASCII_SHARE * len(content)
        path.rename(folder / ("english" if english else "other") / f"{i}{path.suffix}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these (quality.html, operators, ...)")
    parser.add_argument("--data", type=Path, required=True, help="folder in the layout of the public data sets")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        parser.error(f"{arguments.data} is no folder")
    stamp = {"date": datetime.now(UTC).date().isoformat(), "version": version("terraplane"), "cores": os.cpu_count()}
    missing = []
    with tempfile.TemporaryDirectory() as texts:
        write_texts(arguments.data, Path(texts))
        known = commands(arguments.data.resolve(), Path(texts))
        if unknown := sorted(set(arguments.names) - set(known)):
            parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(known)}")
        for name in arguments.names or known:
            rows = list(measure(known[name]))
            results.write(name, rows, stamp)
            faults = [f"{name}: {row.get('name', '')} {row['missing']}" for row in rows if row.get("missing")]
            missing += faults
            print(f"{name}: {len(rows) - len(faults)} rows", *(f"  not measured: {fault}" for fault in faults), sep="\n", flush=True)
    if missing:
        sys.exit(f"{len(missing)} could not be measured")


if __name__ == "__main__":
    main()
