"""Seconds and memory of `whatif` and `funnel` over ten million documents' signals, each in a process of its own.

    python benchmarks/whatif.py [--quick] [--format lance|parquet] [--corpus PROJECT] [--part-rows N]

`seconds` are those of the question, once the modules are imported; `cpu` is the processor time in them (of which two free
cores need half, whatever else the machine does); `process` is the whole process with its start. The peer asks DuckDB for
both verdicts of every document over one Parquet copy of the signals, with neither tokens nor samples.
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
from collections.abc import Callable, Iterator
from typing import Any

QUESTION = "gopher_quality.min_words=100, language.min_score=0.8"
ROWS, QUICK_ROWS = 10_000_000, 1_000_000
PART_ROWS = 1 << 19
PEER = "duckdb full scan"
PEER_FOLDER = "peer"


Answer = dict[str, int]


def whatif() -> Callable[[], Answer]:
    """The question as the command asks it."""
    import duckdb  # noqa: F401  # all modules are imported before the clock starts
    import lance  # noqa: F401
    import pyarrow.dataset  # noqa: F401

    from dataplane.lineage.whatif import whatif

    def ask() -> Answer:
        found = whatif(QUESTION)
        return {side: found[side]["documents"] for side in ("gained", "lost")}

    return ask


def whatif_by_rules() -> Callable[[], Answer]:
    """The same where params.yaml has been edited since select ran, so that its decisions do not say what the other rules say."""
    from dataplane.lineage import flips

    ask = whatif()
    flips.are_current = lambda *_: False
    return ask


def funnel() -> Callable[[], Answer]:
    """The funnel as the command shows it."""
    import duckdb  # noqa: F401
    import lance  # noqa: F401
    import pyarrow.dataset  # noqa: F401

    from dataplane.lineage.funnel import funnel

    return lambda: {"left": funnel()["rules"][-1]["left"]}


def peer() -> Callable[[], Answer]:
    """Both verdicts of every document, by source and language."""
    import duckdb

    query = (Path(PEER_FOLDER) / "query.sql").read_text()

    def ask() -> Answer:
        rows = duckdb.execute(query).fetchall()
        return {"gained": sum(row[-1] for row in rows if row[2]), "lost": sum(row[-1] for row in rows if not row[2])}

    return ask


QUESTIONS: dict[str, Callable[[], Callable[[], Answer]]] = {
    "whatif": whatif,
    "whatif_by_rules": whatif_by_rules,
    "funnel": funnel,
    "peer": peer,
}


def write_peer() -> None:
    """The signals as Parquet files of the size that DuckDB likes, and the query over them."""
    import pyarrow.parquet as pq

    from dataplane.lake.sql import private_connection
    from dataplane.lineage.signals import FlatRules, any_of
    from dataplane.lineage.thresholds import change
    from dataplane.snapshot import Snapshot

    Path(PEER_FOLDER).mkdir(exist_ok=True)
    snapshot = Snapshot.load("documents")
    names = [name for name in snapshot.schema.names if name != "text"]
    with pq.ParquetWriter(f"{PEER_FOLDER}/signals.parquet", snapshot.open().schema.empty_table().select(names).schema) as writer:
        for batch in snapshot.batches(names, batch_size=122_880):
            writer.write_batch(batch)
    flat, changed = FlatRules(private_connection("100MB"), snapshot.schema), change(QUESTION)
    before, after = (any_of([flat.predicate(rule) for rule in rules]) for rules in (changed.before, changed.after))
    verdicts = f"SELECT source, language__lang, n_bytes, {before} AS before, {after} AS after FROM '{PEER_FOLDER}/signals.parquet'"
    query = f"SELECT source, language__lang, before, sum(n_bytes), count(*) FROM ({verdicts}) WHERE before <> after GROUP BY ALL"
    (Path(PEER_FOLDER) / "query.sql").write_text(query)


def measure(name: str, root: Path) -> dict[str, Any]:
    """Asks in a fresh process: seconds of the question and of the process, and its peak memory."""
    started = time.perf_counter()
    command = [sys.executable, __file__, "--ask", name]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return json.loads(output) | {"process": time.perf_counter() - started}


def rows(root: Path) -> Iterator[dict[str, Any]]:
    """The benchmark's lines."""
    import duckdb

    measured = {name: measure(name, root) for name in QUESTIONS}
    if not measured["whatif"]["answer"] == measured["whatif_by_rules"]["answer"] == measured["peer"]["answer"]:
        raise SystemExit(f"the answers differ: {measured}")
    for name in ("whatif", "whatif_by_rules", "funnel"):
        for key, unit in (("seconds", "s"), ("cpu", "s"), ("process", "s"), ("rss", "MiB")):
            peer = round(measured["peer"][key], 3) if name != "funnel" else None
            ours = round(measured[name][key], 3)
            yield {
                "name": f"{name}.{key}", "ours": ours, "peer": peer, "peer_name": PEER if peer else None,
                "peer_version": duckdb.__version__ if peer else None, "ratio": round(ours / peer, 2) if peer else None, "unit": unit,
            }  # fmt: skip


def run(root: Path) -> None:
    """Prints the lines for one project."""
    working = os.getcwd()
    os.chdir(root)
    try:
        write_peer()
    finally:
        os.chdir(working)
    for row in rows(root):
        print(json.dumps(row), flush=True)


def answer(name: str) -> None:
    """What the measured process does."""
    ask = QUESTIONS[name]()
    started = time.process_time()
    clock = time.perf_counter()
    found = ask()
    seconds = time.perf_counter() - clock
    print(json.dumps({"seconds": seconds, "cpu": time.process_time() - started, "rss": peak_memory(), "answer": found}))


def peak_memory() -> float:
    """The most memory that this process has had, in MiB. What getrusage tells includes that of the process it was forked from."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one million documents")
    parser.add_argument("--corpus", type=Path, help="a project with documents and what select wrote, instead of synthetic ones")
    parser.add_argument("--format", choices=["lance", "parquet"], default="lance", help="of the synthetic lake")
    parser.add_argument("--part-rows", type=int, default=PART_ROWS, help="rows of a fragment of the synthetic lake at most")
    parser.add_argument("--ask", choices=list(QUESTIONS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        answer(given.ask)
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        if given.corpus:
            _borrow(given.corpus, root)
        else:
            from signals_lake import make

            make(root, QUICK_ROWS if given.quick else ROWS, given.format, given.part_rows)
        run(root)


def _borrow(corpus: Path, root: Path) -> None:
    """A project that has the files of another, so that nothing is written there."""
    root.mkdir()
    for path in corpus.resolve().iterdir():
        if path.name != PEER_FOLDER:
            (root / path.name).symlink_to(path)


if __name__ == "__main__":
    main()
