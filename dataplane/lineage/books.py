"""What select has decided already: the rules that a question leaves alone need not be asked again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.deciding import Rule
from dataplane.lake.runs import read_records
from dataplane.lineage.alignment import Follower
from dataplane.lineage.thresholds import Change
from dataplane.params import load_params
from dataplane.snapshot import Snapshot, snapshot_path

Mask = npt.NDArray[np.bool_]


def are_current(root: Path, documents: Snapshot, changed: Change) -> bool:
    """Whether `select_decisions` says of these documents what the project's rules say of them, rule by rule."""
    if not snapshot_path("select_decisions", root).exists():
        return False
    digest = Snapshot.load("select_decisions", root).digest
    runs = [run for run in read_records(root) if run["status"] == "COMPLETE" and run["outputs"].get("select_decisions") == digest]
    tree = load_params(root / "params.yaml")
    now = {"select": tree.get("select"), "clean.pipeline": (tree.get("clean") or {}).get("pipeline")}
    return (
        bool(runs)
        and runs[-1]["inputs"] == {"documents": documents.digest}
        and runs[-1]["params"] == now
        and runs[-1]["op_ids"] == {rule.operator: rule.op_id for rule in changed.before}
        and not _named(changed.same) & _named(changed.gone)
    )


def _named(rules: Sequence[Rule]) -> set[tuple[str, str]]:
    """How decisions name these rules; two uses of a rule set may share a name."""
    return {(rule.op_id, rule.reason) for rule in rules}


class Unchanged(Follower):
    """Notes which documents fail a rule that the question leaves alone.

    Args:
        decisions: The table `select_decisions`.
        gone: The rules of the project that the question changes.
        rows: Number of documents.

    Attributes:
        fails: bool [rows]
    """

    def __init__(self, decisions: Snapshot, gone: Sequence[Rule], rows: int) -> None:
        self._gone = _named(gone)
        self.fails: Mask = np.zeros(rows, np.bool_)
        super().__init__(decisions.open(), ["op_id", "reason"], self._note)

    def _note(self, batch: pa.RecordBatch, places: npt.NDArray[np.int64]) -> None:
        changed = np.zeros(len(batch), np.bool_)
        for op_id, reason in self._gone:
            same = pc.and_(pc.equal(batch.column("op_id"), op_id), pc.equal(batch.column("reason"), reason))
            changed |= same.to_numpy(zero_copy_only=False)
        self.fails[places[~changed]] = True
