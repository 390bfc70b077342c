"""The ledger: what each step consumed, chained by hashes, so that no step can be changed, lost or swapped unseen.

A line of JSON for each step, in a file that only grows; a resumed run cuts it back to its checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trainplane.errors import LedgerBroken

GENESIS = "0" * 32


def chain_hash(previous: str, step: int, seq_ids: Sequence[int], token_hash: str) -> str:
    """Hash of a step and of everything before it."""
    text = json.dumps([previous, step, list(seq_ids), token_hash], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Ledger:
    """The open ledger of a run.

    Args:
        path: Its file.
        steps: Steps that count; later lines, written after the last checkpoint of a killed run, are cut off.

    Raises:
        LedgerBroken: The file has fewer whole lines than `steps`, or their chain does not hold.
    """

    def __init__(self, path: Path, steps: int) -> None:
        self.path = path
        kept = list(_whole_lines(path))[:steps]
        if len(kept) < steps:
            raise LedgerBroken(
                f"the ledger holds {len(kept)} of {steps} steps", where=str(path), fix="delete the run's journal and train again"
            )
        self.head = verify(kept)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        with partial.open("w", encoding="utf-8") as stream:
            stream.writelines(json.dumps(entry) + "\n" for entry in kept)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)

    def append(self, entry: dict[str, Any]) -> None:
        """Adds one step: step, epoch, seq_ids, token_hash, losses, loss, learning_rate, grad_norm. Sets chain_hash."""
        self.head = chain_hash(self.head, entry["step"], entry["seq_ids"], entry["token_hash"])
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry | {"chain_hash": self.head}) + "\n")

    def sync(self) -> None:
        """Brings everything to disk; before a checkpoint names the head."""
        with self.path.open("a", encoding="utf-8") as stream:
            os.fsync(stream.fileno())

    def entries(self) -> list[dict[str, Any]]:
        """All steps so far."""
        return list(_whole_lines(self.path))


def verify(entries: Sequence[dict[str, Any]]) -> str:
    """Recomputes the chain and returns its head.

    Raises:
        LedgerBroken: A step is missing, out of order, or was changed.
    """
    head = GENESIS
    for number, entry in enumerate(entries, 1):
        head = chain_hash(head, entry["step"], entry["seq_ids"], entry["token_hash"])
        if entry["step"] != number or entry["chain_hash"] != head:
            raise LedgerBroken(
                f"the chain breaks at line {number} (step {entry['step']})", fix="the ledger was changed: train again, or restore it"
            )
    return head


def _whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Entries up to the first line that a kill cut short."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            try:
                yield json.loads(line)
            except ValueError:
                return
