"""Proves a ledger: the chain holds, and each step's tokens are those of the snapshot in the order that the seed says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dataplane.snapshot import Snapshot
from trainplane.data.order import sequences_of_step
from trainplane.data.packed import Packed
from trainplane.errors import LedgerBroken
from trainplane.lineage.ledger import verify


def verify_run(seed: int, global_batch: int, root: Path = Path()) -> dict[str, Any]:
    """Recomputes chain, order and token hashes from `packed`.

    Args:
        seed: Of the run.
        global_batch: Sequences in a step.
        root: Folder of the project.

    Raises:
        LedgerBroken: Names the first step that is not as it should be.
    """
    entries = Snapshot.load("consumed", root).to_table().sort_by("step").to_pylist()
    head = verify(entries)
    packed = Packed(Snapshot.load("packed", root))
    for entry in entries:
        expected = sequences_of_step(seed, entry["step"], global_batch, packed.n_sequences)
        if not np.array_equal(expected, entry["seq_ids"]):
            raise LedgerBroken(f"step {entry['step']} did not see the sequences that seed {seed} gives it")
        if packed.batch(expected).token_hash() != entry["token_hash"]:
            raise LedgerBroken(f"the tokens of step {entry['step']} are not those of the snapshot")
    return {"steps": len(entries), "chain_hash": head, "packed": Snapshot.load("packed", root).digest}
