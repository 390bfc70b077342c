"""The ledger: what each step consumed, chained by hashes, so that no step can be changed, lost or swapped unseen.

A line of JSON for each step, in a file that only grows. A checkpoint knows how long the file was; a run that resumes, or rolls back, cuts
it there without reading it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainplane.errors import LedgerBroken

GENESIS = "0" * 32
FIX = "delete the run's journal and train again"
LAST_BYTES = 1 << 16


@dataclass(frozen=True)
class Position:
    """An end of the ledger.

    Attributes:
        step: Steps so far.
        head: Chain hash of the last.
        size: Bytes of the file.
    """

    step: int = 0
    head: str = GENESIS
    size: int = 0

    def to_json(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        return asdict(self)


def chain_hash(previous: str, entry: Mapping[str, Any]) -> str:
    """Hash of a step and of everything before it.

    Args:
        previous: Chain hash of the step before.
        entry: step, seq_ids and token_hash; where there are any, skipped (sequences passed over just before) and rng (random key).
    """
    values = [previous, entry["step"], entry.get("skipped", 0), list(entry["seq_ids"]), entry["token_hash"], entry.get("rng", "")]
    return hashlib.sha256(json.dumps(values, separators=(",", ":")).encode()).hexdigest()[:32]


class Ledger:
    """The open ledger of a run.

    Args:
        path: Its file.
        position: What counts of it; later lines, written after the last checkpoint of a killed run, are cut off.

    Raises:
        LedgerBroken: The file ends before the position, or holds another step there.
    """

    def __init__(self, path: Path, position: Position | None = None) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self.rewind(position or Position())

    def rewind(self, position: Position) -> None:
        """Cuts the file back; nothing but its last line is read.

        Raises:
            LedgerBroken: The file ends before the position, or holds another step there.
        """
        if self.path.stat().st_size < position.size:
            raise LedgerBroken(f"the ledger is shorter than at step {position.step}", where=str(self.path), fix=FIX)
        os.truncate(self.path, position.size)
        last = _last_entry(self.path)
        if (last["step"], last["chain_hash"]) != (position.step, position.head):
            raise LedgerBroken(f"the ledger does not hold step {position.step} where the checkpoint says", where=str(self.path), fix=FIX)
        self.position = position

    @property
    def head(self) -> str:
        """Chain hash of the last step."""
        return self.position.head

    def append(self, entry: dict[str, Any]) -> None:
        """Adds one step: what `chain_hash` takes, and whatever else is known of it. Adds its chain_hash."""
        head = chain_hash(self.head, entry)
        line = (json.dumps(entry | {"chain_hash": head}) + "\n").encode()
        with self.path.open("ab") as stream:
            stream.write(line)
        self.position = Position(entry["step"], head, self.position.size + len(line))

    def sync(self) -> None:
        """Brings everything to disk; before a checkpoint names the head."""
        with self.path.open("ab") as stream:
            os.fsync(stream.fileno())

    def entries(self) -> Iterator[dict[str, Any]]:
        """All steps so far, one after the other."""
        with self.path.open(encoding="utf-8") as stream:
            yield from map(json.loads, stream)


def verify(entries: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Hands the steps on, each once its place in the chain is proven.

    Raises:
        LedgerBroken: A step is missing, out of order, or was changed.
    """
    head = GENESIS
    for number, entry in enumerate(entries, 1):
        head = chain_hash(head, entry)
        if entry["step"] != number or entry["chain_hash"] != head:
            raise LedgerBroken(
                f"the chain breaks at line {number} (step {entry['step']})", fix="the ledger was changed: train again, or restore it"
            )
        yield entry


def _last_entry(path: Path) -> dict[str, Any]:
    """The last step of a ledger; step 0 with the first hash where it is empty."""
    size = path.stat().st_size
    if not size:
        return {"step": 0, "chain_hash": GENESIS}
    length = LAST_BYTES
    while True:
        with path.open("rb") as stream:
            stream.seek(max(0, size - length))
            lines = stream.read().splitlines()
        if len(lines) > 1 or length >= size:
            break
        length *= 2
    try:
        return dict(json.loads(lines[-1]))
    except ValueError:
        return {"step": -1, "chain_hash": ""}
