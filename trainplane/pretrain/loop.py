"""The training loop: from a packed snapshot to weights, with a ledger of every step, resumable after any kill."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainplane.data.order import epoch_of_step, sequences_of_step
from trainplane.data.packed import Batch, Packed, make_batch
from trainplane.errors import NotFinite
from trainplane.lineage.ledger import GENESIS, Ledger
from trainplane.params import PretrainParams
from trainplane.pretrain import checkpoint
from trainplane.pretrain.engine import Engine
from trainplane.pretrain.metrics import progress_bar
from trainplane.pretrain.schedule import learning_rate


@dataclass(frozen=True)
class HeldOut:
    """Held-out documents as one batch for the loss that is watched.

    Attributes:
        batch: A document a row, cut to the sequence length.
    """

    batch: Batch

    @classmethod
    def of(cls, token_lists: list[list[int]], sequence_length: int, eos_id: int, pad_id: int) -> HeldOut:
        """Rows of EOS, the document and EOS, cut and padded."""
        rows = [[eos_id, *tokens, eos_id][:sequence_length] for tokens in token_lists]
        ids = np.full((len(rows), max(map(len, rows), default=1)), pad_id, np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        spans = [[{"seq_start": 0, "length": len(row)}] for row in rows]
        return cls(make_batch(np.arange(len(rows)), ids, spans))


class Trainer:
    """One run.

    Args:
        engine: The model under DeepSpeed.
        packed: The sequences.
        params: Of pretraining.
        folder: Of the run's checkpoints and ledger.
        held_out: What the held-out loss is measured on, None for nothing.
    """

    def __init__(self, engine: Engine, packed: Packed, params: PretrainParams, folder: Path, held_out: HeldOut | None) -> None:
        self.engine, self.packed, self.params, self.folder, self.held_out = engine, packed, params, folder, held_out
        folder.mkdir(parents=True, exist_ok=True)
        found = checkpoint.load(folder, engine.deepspeed)
        self.step, head = found or (0, GENESIS)
        self.ledger = Ledger(folder / "ledger.jsonl", self.step)
        if self.ledger.head != head:
            raise ValueError("the ledger does not end where the checkpoint says")
        self.seconds: dict[int, float] = {}

    def run(self) -> list[dict[str, Any]]:
        """Trains to the last step; returns the ledger's entries."""
        with progress_bar() as progress:
            bar = progress.add_task("pretrain", total=self.params.steps, completed=self.step, said="")
            while self.step < self.params.steps:
                entry = self._advance()
                progress.update(bar, advance=1, said=f"loss {entry['loss']:.3f}")
        return self.ledger.entries()

    def _advance(self) -> dict[str, Any]:
        step, params = self.step + 1, self.params
        started = time.monotonic()
        seq_ids = sequences_of_step(params.seed, step, params.global_batch, self.packed.n_sequences)
        batch = self.packed.batch(seq_ids)
        rate = learning_rate(step, params)
        result = self.engine.step(batch, rate, step=step)
        if not math.isfinite(result.loss):
            raise NotFinite(
                f"the loss of step {step} is {result.loss}", where="pretrain", fix="lower learning_rate, or look at the documents"
            )
        entry = {
            "step": step, "epoch": epoch_of_step(step, params.global_batch, self.packed.n_sequences), "seq_ids": seq_ids.tolist(),
            "token_hash": batch.token_hash(), "losses": result.losses, "loss": result.loss, "learning_rate": rate,
            "grad_norm": result.grad_norm,
        }  # fmt: skip
        self.seconds[step] = time.monotonic() - started
        if self.held_out is not None and (step % params.held_out_every == 0 or step == params.steps):
            entry["held_out_loss"] = held_out_loss(self.engine, self.held_out)
        self.ledger.append(entry)
        self.step = step
        if step % params.checkpoint_every == 0 and step < params.steps:
            self.ledger.sync()
            checkpoint.save(self.folder, self.engine.deepspeed, step, self.ledger.head)
        return entry


def held_out_loss(engine: Engine, held_out: HeldOut) -> float:
    """Mean loss over the held-out tokens, nats."""
    return float(engine.sequence_losses(held_out.batch).sum() / max(1, held_out.batch.n_labels()))
