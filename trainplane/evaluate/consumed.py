"""Which items of a task a model was trained on, by the ledgers of its fine-tuning and of that of the models before it.

Pretraining's documents are held against the items by the decontaminate stage; here it is the examples and pairs that the ledgers name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dataplane.errors import ParamsError
from dataplane.snapshot import Snapshot
from trainplane.align.adapter import read_run
from trainplane.align.training_data import lake_texts
from trainplane.data.jsonl import files_digest, read_records

LEDGER = "consumed.jsonl"
ITEMS = "items"  # stands for the benchmark


@dataclass(frozen=True)
class Consumed:
    """What fine-tuning showed a model.

    Attributes:
        names: Of the records, "stage/id".
        texts: Of the records, all their strings.
        unknown: Stages whose records cannot be told: their files changed, or their model is gone.
    """

    names: list[str]
    texts: list[str]
    unknown: list[str]


def consumed(models: Path, name: str, root: Path) -> Consumed:
    """Records that a model and those it comes from were trained on, each once.

    Args:
        models: Folder of the models.
        name: Of the model.
        root: Of the project, that the data's patterns are read from.
    """
    found = Consumed([], [], [])
    for folder, run in _lineage(models, name, found.unknown):
        if run["stage"] == "pretrain":
            continue
        if not _same_data(run, root):
            found.unknown.append(run["stage"])
            continue
        for record_id, text in _records(folder, run, root):
            found.names.append(f"{run['stage']}/{record_id}")
            found.texts.append(text)
    return found


def _lineage(models: Path, name: str, unknown: list[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The model, the one it comes from, and so on to one without a parent."""
    by_digest = {read_run(path.parent, "evaluate")["digest"]: path.parent for path in sorted(models.glob("*/run.json"))}
    folder: Path | None = models / name
    while folder is not None:
        run = read_run(folder, "evaluate")
        yield folder, run
        parent = run.get("parent")
        folder = by_digest.get(parent)
        if parent and folder is None:
            unknown.append(f"the model before {run['stage']}")


def _same_data(run: Mapping[str, Any], root: Path) -> bool:
    try:
        same_files = "data" in run and files_digest(run["data"], root) == run.get("data_digest")
    except ParamsError:  # the files are gone
        return False
    return same_files and all(Snapshot.load(name, root).digest == digest for name, digest in run.get("snapshots", {}).items())


def _records(folder: Path, run: Mapping[str, Any], root: Path) -> Iterator[tuple[str, str]]:
    """Id and text of the records and documents that the ledger names; held-out records may bear the same id."""
    lines = (folder / LEDGER).read_text(encoding="utf-8").splitlines()
    ids = {record_id for line in lines for record_id in json.loads(line)["ids"]}
    if run.get("sources"):
        yield from lake_texts(sorted(ids), root)
    for _, record in read_records(run["data"], root):
        if record.get("id") in ids and record.get("split", "train") == "train":
            yield record["id"], "\n".join(_strings(record))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def items_consumed(items: Sequence[Mapping[str, Any]], seen: Consumed, params: Mapping[str, Any]) -> tuple[list[str], int]:
    """Items that a record holds, by the n-grams and the share of them that decontamination goes by.

    Args:
        items: With id, question, and choices or references.
        seen: What the model was trained on.
        params: Of the decontaminate stage.

    Returns:
        Ids of the items found, sorted, and how many items are too short to be looked for.
    """
    from dataplane.corpus.contamination import DecontaminateParams, index_items, scan

    asked = DecontaminateParams(**{key: value for key, value in params.items() if key != "benchmarks"})
    index = index_items(((ITEMS, item["id"], [item["question"], *_answers(item)]) for item in items), asked)
    hits = scan(index, pa.array(seen.names, pa.string()), pa.array(seen.texts, pa.large_string()))
    over = hits.filter(pc.greater_equal(hits["covered"], asked.min_covered))
    return sorted(set(over["item_id"].to_pylist())), index.skipped.get(ITEMS, 0)


def _answers(item: Mapping[str, Any]) -> list[str]:
    return list(item.get("choices") or item.get("references") or [])


def told(items: Sequence[Mapping[str, Any]], seen: Consumed, params: Mapping[str, Any]) -> str:
    """What to say of the items beside the verdict on the corpus; "" where fine-tuning showed the model nothing."""
    said = []
    if seen.texts:
        found, too_short = items_consumed(items, seen, params)
        said.append(f"{len(found)} of {len(items)} items trained on" if found else "none fine-tuned on")
        said += [f"{too_short} of {len(items)} too short to be looked for"] * (too_short > 0)
    said += [f"unchecked against {stage}" for stage in seen.unknown]
    return "; ".join(said)
