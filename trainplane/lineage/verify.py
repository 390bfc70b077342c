"""Proves a ledger: the chain holds, each step has the sequences that seed and skips give it, their tokens, and its random key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dataplane.snapshot import Snapshot
from trainplane.data.order import sequences_at
from trainplane.data.packed import Packed
from trainplane.errors import LedgerBroken
from trainplane.lineage.ledger import GENESIS, verify
from trainplane.lineage.trained import MODEL, TrainedRun
from trainplane.pretrain.randomness import step_key

COLUMNS = ["step", "skipped", "seq_ids", "token_hash", "rng", "chain_hash"]
STEPS_AT_ONCE = 256


def verify_run(root: Path = Path(), model: Path = MODEL) -> dict[str, Any]:
    """Recomputes chain, order, skips, tokens and random keys of a model's run from `packed`, step by step in bounded memory.

    Args:
        root: Folder of the project.
        model: Folder of the model, below the root.

    Raises:
        LedgerBroken: Names the first step that is not as it should be.
    """
    run = TrainedRun.load(root, model)
    packed, skips, steps, head = Packed(run.packed), dict(run.skips), 0, GENESIS
    for entry in verify(_entries(root)):
        steps, head = entry["step"], entry["chain_hash"]
        check_step(entry, run, packed, skips)
    if (steps, head) != (run.steps, run.chain_hash):
        raise LedgerBroken(f"the ledger ends at step {steps} with {head}, the model at step {run.steps} with {run.chain_hash}")
    return {"steps": steps, "skipped": sum(skips.values()), "chain_hash": head, "packed": run.packed.digest, "weights": run.digest}


def check_step(entry: Mapping[str, Any], run: TrainedRun, packed: Packed, skips: Mapping[int, int]) -> None:
    """Holds one step against what the run's seed and the snapshot say of it.

    Raises:
        LedgerBroken: It is otherwise.
    """
    step = entry["step"]
    if entry["skipped"] != skips.get(step, 0):
        raise LedgerBroken(f"step {step} passed over {entry['skipped']} sequences, the run says {skips.get(step, 0)}")
    expected = sequences_at(run.seed, run.first_place(step), run.batches.size(step), packed.n_sequences)
    if not np.array_equal(expected, entry["seq_ids"]):
        raise LedgerBroken(f"step {step} did not see the sequences that seed {run.seed} gives it")
    if packed.batch(expected).token_hash() != entry["token_hash"]:
        raise LedgerBroken(f"the tokens of step {step} are not those of the snapshot")
    if step_key(run.seed, step) != entry["rng"]:
        raise LedgerBroken(f"the random key of step {step} does not follow from seed {run.seed}")


def _entries(root: Path) -> Iterator[dict[str, Any]]:
    for batch in Snapshot.load("consumed", root).batches(COLUMNS, batch_size=STEPS_AT_ONCE):
        yield from batch.to_pylist()
