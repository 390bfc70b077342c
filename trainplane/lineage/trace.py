"""From a step of training to its sequences, their documents and each document's raw locator; and from a document to its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dataplane.errors import UsageError
from dataplane.snapshot import Snapshot

LOCATOR = ["doc_id", "source", "kind", "format", "uri", "member", "offset", "length", "row", "url"]
LATEST = "latest"


def trace_step(step: int, run: str = LATEST, root: Path = Path()) -> dict[str, Any]:
    """What one step consumed.

    Args:
        step: Optimizer step, from 1.
        run: "latest", or the start of a run_id.
        root: Folder of the project.

    Returns:
        The step's line of the ledger, and under "sequences" each sequence with its loss and its spans, each with the raw locator.

    Raises:
        UsageError: No such run or step.
    """
    entry = _entry(Snapshot.load("consumed", root), step, run)
    packed = Snapshot.load("packed", root)
    table = packed.take(entry["seq_ids"], ["seq_id", "n_tokens", "spans"]).to_pylist()
    origins = _origins({span["doc_id"] for sequence in table for span in sequence["spans"]}, root)
    sequences = [
        {
            "seq_id": sequence["seq_id"],
            "loss": loss,
            "n_tokens": sequence["n_tokens"],
            "spans": [span | {"origin": origins[span["doc_id"]]} for span in sequence["spans"]],
        }
        for sequence, loss in zip(table, entry["losses"], strict=True)
    ]
    return {name: value for name, value in entry.items() if name not in ("seq_ids", "losses")} | {"sequences": sequences}


def trace_document(doc_id: str, run: str = LATEST, root: Path = Path()) -> dict[str, Any]:
    """The sequences that hold a document, and the steps that consumed them."""
    seq_ids = [
        row["seq_id"]
        for batch in Snapshot.load("packed", root).batches(columns=["seq_id", "spans"])
        for row in batch.to_pylist()
        if any(span["doc_id"] == doc_id for span in row["spans"])
    ]
    wanted = set(seq_ids)
    steps = [
        {"step": entry["step"], "epoch": entry["epoch"], "seq_id": seq_id, "loss": loss, "run_id": entry["run_id"]}
        for entry in _entries(Snapshot.load("consumed", root), run)
        for seq_id, loss in zip(entry["seq_ids"], entry["losses"], strict=True)
        if seq_id in wanted
    ]
    return {"doc_id": doc_id, "seq_ids": seq_ids, "steps": steps}


def _entries(consumed: Snapshot, run: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = consumed.to_table().to_pylist()
    if run == LATEST:
        return entries
    return [entry for entry in entries if entry["run_id"].startswith(run)]


def _entry(consumed: Snapshot, step: int, run: str) -> dict[str, Any]:
    rows = consumed.to_table(among={"step": [step]}).to_pylist()
    if run != LATEST:
        rows = [row for row in rows if row["run_id"].startswith(run)]
    if not rows:
        known = sorted({row["run_id"] for row in consumed.to_table(columns=["run_id"]).to_pylist()})
        raise UsageError(
            f"run {run!r} has no step {step}; there are {consumed.rows} steps of {', '.join(known)}", fix="name another step or run"
        )
    found: dict[str, Any] = rows[0]
    return found


def _origins(doc_ids: set[str], root: Path) -> dict[str, dict[str, Any]]:
    """The raw locator of each document; only those rows are read."""
    rows = Snapshot.load("raw", root).to_table(columns=LOCATOR, among={"doc_id": sorted(doc_ids)}).to_pylist()
    return {row["doc_id"]: {name: value for name, value in row.items() if name != "doc_id"} for row in rows}
