"""From a step of fine-tuning to the examples it consumed, and from each to the line or the raw record it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dataplane.errors import ModelMissing, UsageError
from trainplane.align.adapter import read_run
from trainplane.data.jsonl import files_digest, read_records
from trainplane.errors import LedgerBroken
from trainplane.lineage.ledger import verify
from trainplane.lineage.trace import raw_origins

LEDGER = "consumed.jsonl"


def trace_examples(folder: Path, step: int, root: Path = Path()) -> dict[str, Any]:
    """What one step of a fine-tuned model consumed.

    Args:
        folder: Of the model.
        step: Optimizer step, from 1.
        root: Folder of the project.

    Returns:
        The step's line of the ledger, once the chain is proven up to the end that run.json names, and under "examples" each id with its
        origin: {"line": "file:line"}, or the raw locator of a document; None for one that is gone since.

    Raises:
        LedgerBroken: The chain does not hold, or the files of the data have changed since.
        UsageError: There is no such step, or the model was not fine-tuned.
    """
    run = read_run(folder, folder.name)
    entries = list(verify(_lines(folder)))
    if not entries or entries[-1]["chain_hash"] != run.get("chain_hash"):
        raise LedgerBroken("the ledger does not end where run.json says", where=str(folder / LEDGER), fix=f"dvc repro {folder.name}")
    if not 1 <= step <= len(entries):
        raise UsageError(f"{folder} has {len(entries)} steps, not {step}", fix="name a step of the run")
    entry = dict(entries[step - 1])
    names = entry.pop("ids")
    origins = _origins(run, names, root)
    return entry | {"model": run["digest"], "examples": [{"id": name, "origin": origins.get(name)} for name in names]}


def _lines(folder: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in (folder / LEDGER).read_text(encoding="utf-8").splitlines()]
    except OSError:
        raise ModelMissing(f"{folder} has no {LEDGER}: it was not fine-tuned", fix="name the folder of sft, dpo, ...") from None
    except ValueError:
        raise LedgerBroken("a line is no JSON", where=str(folder / LEDGER), fix=f"dvc repro {folder.name}") from None


def _origins(run: Mapping[str, Any], names: Sequence[str], root: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = raw_origins(set(names), root) if run.get("sources") else {}
    if run["data"]:
        if files_digest(run["data"], root) != run["data_digest"]:
            raise LedgerBroken("the files of the data are not those that were trained on", fix="git checkout, dvc checkout, or train again")
        wanted = set(names) - set(found)
        found |= {
            record["id"]: {"line": where}
            for where, record in read_records(run["data"], root)
            if record.get("id") in wanted and record.get("split", "train") == "train"
        }
    return found
