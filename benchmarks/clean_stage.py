"""The whole clean stage without NER on extracted text, and what it costs: beside datatrove, with two workers, cold, in memory.

    python benchmarks/clean_stage.py [--quick] [--corpus FILE_OR_FOLDER]

`one worker` reads raw records from the lake, decodes and repairs them, scrubs PII, names the language, measures what all rule sets
need, and writes every table; the rules of gopher_quality, gopher_repetition, c4 and fineweb then decide. The peer is the same chain of
datatrove's own steps over texts in memory (`make bench-setup`), in CPU seconds of one process; `same steps` looks for the two kinds of
personal data that it knows, `all PII` for all that scrub_pii does. `two workers` is wall time, of the
engine with its processes started; `cold start` the first batch of a process whose kernels were never compiled; `memory` the largest
process of ingest and clean over one file.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run by its path: tokenize.py must not hide the standard library's
    sys.path[0] = str(Path(__file__).parents[1])

import contextlib
import importlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import yaml

from benchmarks.text_corpus import documents, options, show
from dataplane import lockfile, schema
from dataplane.models import locate
from dataplane.settings import load_settings
from dataplane.snapshot import commit_parts, write_part

ROOT = Path(__file__).parents[1]
PEER = ROOT / ".venv-peers" / "bin" / "python"
PIPELINE = [{"use": "encoding_repair"}, {"use": "scrub_pii"}, {"use": "language"}, {"use": "text_signals"}]
# datatrove's step for personal data knows two kinds, and of addresses the public ones, as ours does by default.
AS_THE_PEER = [{**step, "params": {"kinds": ["email", "ip"]}} if step["use"] == "scrub_pii" else step for step in PIPELINE]
RULE_SETS = ("gopher_repetition", "gopher_quality", "c4", "fineweb")
PEER_DOCUMENTS, QUICK_PEER_DOCUMENTS = 1000, 120
WORKERS_BYTES, QUICK_WORKERS_BYTES = 400_000_000, 30_000_000
FILE_BYTES, QUICK_FILE_BYTES = 2_000_000_000, 50_000_000
COLD = """
import time
from benchmarks.clean_stage import cleaned
cleaned(["A text. " * 40, "一段中文。" * 40])
print(time.process_time())
"""
# ru_maxrss of the children is that of the largest of all processes below this one, in KiB.
PEAK = """
import resource, subprocess, sys
for stage in ("ingest", "clean"):
    subprocess.run([sys.executable, "-m", f"dataplane.stages.{stage}"], check=True, stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6)
"""


def raw_rows(texts: Sequence[str]) -> pa.Table:
    """Records of these texts."""
    columns: dict[str, Any] = {
        "doc_id": pa.array([f"{i:032x}" for i in range(len(texts))]),
        "length": pa.array([len(text.encode()) for text in texts], pa.int64()),
        "payload": pa.array([text.encode() for text in texts], pa.large_binary()),
    }
    same = {"source": "corpus", "kind": "web", "format": "text", "uri": "corpus", "member": "", "offset": 0, "mime": "text/plain"}
    for field in schema.RAW:
        if field.name not in columns:
            columns[field.name] = pa.array([same.get(field.name)] * len(texts), field.type)
    return pa.table(columns, schema=schema.RAW)


@contextlib.contextmanager
def project(texts: Sequence[str], workers: int = 1, pipeline: Sequence[Any] = PIPELINE) -> Iterator[None]:
    """A project in the current folder for the time being, with these records in its lake."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _write_params(Path(folder), workers, pipeline)
        rows = raw_rows(texts)
        commit_parts("raw", schema.RAW, [write_part("raw", schema.RAW, rows.to_batches(), Path(folder))], Path(folder))
        yield


def _write_params(folder: Path, workers: int, pipeline: Sequence[Any] = PIPELINE) -> None:
    source = {"name": "corpus", "kind": "web", "paths": ["corpus.jsonl"]}
    params = {"sources": [source], "clean": {"pipeline": list(pipeline)}, "select": {"rules": [{"use": name} for name in RULE_SETS]}}
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    (folder / "settings.yaml").write_text(f"workers: {workers}\n", encoding="utf-8")
    lockfile.write(folder)


def run(*stages: str) -> None:
    """Runs stages in the current project, their summaries to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        for stage in stages:
            importlib.import_module(f"dataplane.stages.{stage}").main()


def cleaned(texts: Sequence[str]) -> None:
    """One process, from nothing to the first documents."""
    with project(texts):
        run("clean")


def one_worker(texts: Sequence[str], pipeline: Sequence[Any]) -> float:
    """CPU seconds of clean and of the rules, in one process in which all is loaded."""
    with project(texts[:2], 1, pipeline):
        run("clean", "select")
    with project(texts, 1, pipeline):
        started = time.process_time()
        run("clean", "select")
        return time.process_time() - started


def beside_datatrove(texts: Sequence[str], quick: bool) -> None:
    some = texts[:: max(1, len(texts) // (QUICK_PEER_DOCUMENTS if quick else PEER_DOCUMENTS))]
    ours = {name: _megabytes(texts) / one_worker(texts, steps) for name, steps in (("same steps", AS_THE_PEER), ("all PII", PIPELINE))}
    if not PEER.is_file():
        sys.exit(f"datatrove was not measured: {PEER} is not there; run `make bench-setup`")
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps(text) + "\n" for text in some)
        file.flush()
        command = [str(PEER), str(ROOT / "benchmarks" / "peer_clean_stage.py"), file.name, str(locate("lid.176", load_settings()))]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    peer = json.loads(done.stdout.splitlines()[-1])
    for name, speed in ours.items():
        show(f"clean_stage, one worker, {name}", speed, _megabytes(some) / peer["seconds"], "datatrove", peer["version"], "MB/s")


def two_workers(texts: Sequence[str], least_bytes: int) -> None:
    """Wall time of the stage; the start of the workers is in it."""
    many = list(texts) * max(1, round(least_bytes / (_megabytes(texts) * 1e6)))
    speed = {}
    for workers in (1, 2):
        with project(many, workers):
            started = time.perf_counter()
            run("clean")
            speed[workers] = _megabytes(many) / (time.perf_counter() - started)
    show("clean_stage, two workers, wall time", speed[2], speed[1], "one worker", version("terraplane"), "MB/s")


def cold_start() -> None:
    """CPU time from the start of Python to the first documents, with an empty cache of compiled kernels, and with a full one."""
    seconds = {}
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
        for name in ("cold", "warm"):
            done = subprocess.run([sys.executable, "-c", COLD], stdout=subprocess.PIPE, text=True, check=True, env=environment)
            seconds[name] = float(done.stdout.splitlines()[-1])
    show("clean_stage, first documents, kernels not compiled", seconds["cold"], seconds["warm"], "compiled", version("numba"), "s")


def memory(texts: Sequence[str], file_bytes: int) -> None:
    """Largest process of ingest and clean over one file of JSON lines, and over one of a tenth."""
    largest = {}
    for name, size in (("small", file_bytes // 10), ("whole", file_bytes)):
        with tempfile.TemporaryDirectory() as folder:
            _write_params(Path(folder), workers=2)
            _write_file(Path(folder), texts, size)
            command = [sys.executable, "-c", PEAK]
            done = subprocess.run(
                command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
            )
            largest[name] = float(done.stdout.splitlines()[-1])
    name = f"clean_stage, memory of the largest worker, a file of {file_bytes / 1e6:,.0f} MB"
    show(name, largest["whole"], largest["small"], "a file of a tenth", version("terraplane"), "MB")


def _write_file(folder: Path, texts: Sequence[str], size: int) -> None:
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        while file.tell() < size:
            file.writelines(lines)


def _megabytes(texts: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


def main() -> None:
    chosen = options(__doc__)
    texts = documents(chosen)
    beside_datatrove(texts, chosen.quick)
    cold_start()
    two_workers(texts, QUICK_WORKERS_BYTES if chosen.quick else WORKERS_BYTES)
    memory(texts, QUICK_FILE_BYTES if chosen.quick else FILE_BYTES)


if __name__ == "__main__":
    main()
