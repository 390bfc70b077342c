"""Dated results: a file for each benchmark in benchmarks/results, a JSON line for each row, with when and on what it was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
STAMP = ("date", "version", "cores")
SHOWN_ALONE = frozenset({"first"})  # parts of the documents themselves, which are nobody's to commit
# Benchmark -> whose figures its rows are, by a pattern in the row's name. Without an entry a row belongs to what its name begins with,
# or to the operator that the benchmark is named after.
SUBJECTS: dict[str, dict[str, tuple[str, ...]]] = {
    "encoding": {"": ("encoding_repair",)},
    "language": {"": ("language",)},
    "perplexity": {"": ("perplexity", "perplexity_bucket")},
    "pii": {"": ("scrub_pii",)},
    "quality.encoding": {"": ("encoding_repair",)},
    "quality.html": {"": ("html_text",)},
    "quality.pii": {"": ("scrub_pii",)},
    "quality.quality": {"crawl": ("web_topics",), "": ("quality_model",)},
    "quality.toxicity": {"": ("toxicity", "toxicity_model")},
    "text_signals": {"": ("text_signals",)},
    "toxicity": {
        "word lists": ("toxicity", "web_topics"),
        "classifier": ("toxicity_model", "quality_model"),
        "block list": ("url_blocklist",),
    },
}  # fmt: skip


def write(benchmark: str, rows: Iterable[Mapping[str, Any]], stamp: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Replaces the results of one benchmark."""
    folder.mkdir(exist_ok=True)
    figures = [{key: value for key, value in row.items() if key not in SHOWN_ALONE} for row in rows]
    lines = [json.dumps({**stamp, "benchmark": benchmark, **row}, ensure_ascii=False) + "\n" for row in figures]
    (folder / f"{benchmark}.jsonl").write_text("".join(lines), encoding="utf-8")


def read(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Every row, by benchmark."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def subjects(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the operators, sources or rules (SET.REASON) that a row is about."""
    benchmark, name = str(row["benchmark"]), str(row.get("name", ""))
    for pattern, owners in SUBJECTS.get(benchmark, {}).items():
        if re.search(pattern, name):
            return owners
    return (re.split(r"[ ,:/]", name)[0], benchmark.rpartition(".")[2])
