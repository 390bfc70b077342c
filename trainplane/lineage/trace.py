"""From a step of training to its sequences, their documents and each document's raw locator; and from a document to its steps.

Nothing here looks through the ledger: the order is a pure function, so a document's steps follow from its sequences by the way back of the
permutation, and only those steps are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dataplane.errors import UsageError
from dataplane.snapshot import Snapshot
from trainplane.data.order import places_of
from trainplane.errors import LedgerBroken
from trainplane.lineage.doc_index import DocIndex
from trainplane.lineage.trained import TrainedRun

LOCATOR = ["doc_id", "source", "kind", "format", "uri", "member", "offset", "length", "row", "url"]
LATEST = "latest"


def trace_step(step: int, run: str = LATEST, root: Path = Path()) -> dict[str, Any]:
    """What one step consumed.

    Args:
        step: Optimizer step, from 1.
        run: "latest", or the start of a run_id.
        root: Folder of the project.

    Returns:
        The step's line of the ledger, and under "sequences" each sequence with its loss and its spans, each with its own loss (nats a
        token) and the raw locator.

    Raises:
        UsageError: No such run or step.
    """
    entry = _entry(Snapshot.load("consumed", root), step, run)
    packed = TrainedRun.load(root).packed
    table = packed.take(entry["seq_ids"], ["seq_id", "n_tokens", "spans"]).to_pylist()
    origins = raw_origins({span["doc_id"] for sequence in table for span in sequence["spans"]}, root)
    sequences = [
        {
            "seq_id": sequence["seq_id"],
            "loss": loss,
            "n_tokens": sequence["n_tokens"],
            "spans": [
                span | {"loss": span_loss, "origin": origins.get(span["doc_id"])}
                for span, span_loss in zip(sequence["spans"], span_losses, strict=True)
            ],
        }
        for sequence, loss, span_losses in zip(table, entry["losses"], entry["document_losses"], strict=True)
    ]
    left_out = ("seq_ids", "losses", "document_losses")
    return {name: value for name, value in entry.items() if name not in left_out} | {"sequences": sequences}


def trace_document(doc_id: str, root: Path = Path(), before: int | None = None) -> dict[str, Any]:
    """Every step that saw a document, or the certificate that none did.

    Args:
        doc_id: The document.
        root: Folder of the project.
        before: Only steps up to this one, such as a checkpoint's; the whole run by default.

    Returns:
        "seq_ids" that hold it; "steps" with epoch, loss of the sequence and of the document; "skipped": places of it that a rollback passed
        over; and "certificate": what `seen: false` rests on, to be checked by `trainplane verify`.

    Raises:
        UsageError: That is no doc_id, or the run has fewer steps.
        LedgerBroken: The ledger says otherwise than the order.
    """
    run = TrainedRun.load(root)
    last = run.steps if before is None else before
    if not 1 <= last <= run.steps:
        raise UsageError(f"the run has {run.steps} steps, not {last}", fix="name a step of the run")
    seq_ids = DocIndex(run.packed, root).seq_ids(doc_id)
    places = places_of(np.array(seq_ids, np.int64), run.seed, run.packed.rows, run.first_place(last) + run.global_batch)
    found = [(int(place), run.step_of(int(place))) for place in places]
    steps = _seen(run, [(place, step) for place, step in found if step is not None], doc_id, root)
    certificate = {
        "seen": bool(steps), "up_to_step": last, "steps_of_run": run.steps, "weights": run.digest, "chain_hash": run.chain_hash,
        "packed": run.packed.digest, "seed": run.seed, "global_batch": run.global_batch, "skips": [list(skip) for skip in run.skips],
    }  # fmt: skip
    skipped = [place for place, step in found if step is None]
    return {"doc_id": doc_id, "seq_ids": seq_ids, "steps": steps, "skipped": skipped, "certificate": certificate}


def _seen(run: TrainedRun, found: list[tuple[int, int]], doc_id: str, root: Path) -> list[dict[str, Any]]:
    """What the ledger says of the steps that took these places; a step is a row of `consumed`."""
    if not found:
        return []
    columns = ["step", "epoch", "run_id", "seq_ids", "losses", "document_losses"]
    entries = Snapshot.load("consumed", root).take([step - 1 for _, step in found], columns).to_pylist()
    out = []
    for (place, step), entry in zip(found, entries, strict=True):
        row = place - run.first_place(step)
        seq_id = entry["seq_ids"][row]
        (spans,) = run.packed.take([seq_id], ["spans"]).column("spans").to_pylist()
        losses = [loss for span, loss in zip(spans, entry["document_losses"][row], strict=True) if span["doc_id"] == doc_id]
        if entry["step"] != step or not losses:
            raise LedgerBroken(
                f"the ledger does not hold document {doc_id} at step {step}, where the order has it", fix="trainplane verify"
            )
        known = {"step": step, "epoch": entry["epoch"], "seq_id": seq_id, "loss": entry["losses"][row]}
        out.append(known | {"document_losses": losses, "run_id": entry["run_id"]})
    return out


def _entry(consumed: Snapshot, step: int, run: str) -> dict[str, Any]:
    """A step's row; steps lie in their order."""
    rows = consumed.take([step - 1]).to_pylist() if 1 <= step <= consumed.rows else []
    if run != LATEST:
        rows = [row for row in rows if row["run_id"].startswith(run)]
    if not rows:
        known = sorted({row["run_id"] for row in consumed.to_table(columns=["run_id"]).to_pylist()})
        raise UsageError(
            f"run {run!r} has no step {step}; there are {consumed.rows} steps of {', '.join(known)}", fix="name another step or run"
        )
    found: dict[str, Any] = rows[0]
    if found["step"] != step:
        raise LedgerBroken(f"row {step - 1} of consumed is of step {found['step']}", fix="trainplane verify")
    return found


def raw_origins(doc_ids: set[str], root: Path) -> dict[str, dict[str, Any]]:
    """The raw locator of each document; only those rows are read."""
    rows = Snapshot.load("raw", root).to_table(columns=LOCATOR, among={"doc_id": sorted(doc_ids)}).to_pylist()
    return {row["doc_id"]: {name: value for name, value in row.items() if name != "doc_id"} for row in rows}
