"""A finished run: what it trained on, in which order, and what it passed over. Only arithmetic lies between places and steps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.errors import DataError
from dataplane.snapshot import Snapshot, find_version
from trainplane.data.order import Batches

MODEL = Path("models/pretrain")


@dataclass(frozen=True)
class TrainedRun:
    """What models/pretrain/run.json says.

    Attributes:
        seed: Of the order.
        batches: Sequences in each step.
        steps: Steps of the run.
        skips: (step, sequences passed over just before it), by step.
        packed: The version of `packed` that it trained on.
        digest: Of the weights.
        chain_hash: Head of the ledger.
    """

    seed: int
    batches: Batches
    steps: int
    skips: tuple[tuple[int, int], ...]
    packed: Snapshot
    digest: str
    chain_hash: str

    @classmethod
    def load(cls, root: Path = Path(), model: Path = MODEL) -> TrainedRun:
        """The run of a model.

        Raises:
            DataError: There is none, or the lake no longer has its sequences.
        """
        path = root / model / "run.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            packed = find_version("packed", found["data_digest"], root)
            skips = skips_of(found["interventions"])
            batches = Batches.of(found["global_batch"], found.get("batch_schedule", ()))
        except FileNotFoundError:
            raise DataError(f"there is no pretrained model ({path})", fix="run `dvc repro pretrain`") from None
        except (ValueError, KeyError) as error:
            raise DataError(f"{path} does not tell of a run: {error!r}", fix="run `dvc repro pretrain`") from None
        if packed is None:
            raise DataError(f"the lake no longer has packed {found['data_digest']}, which the model trained on", fix="run `dvc checkout`")
        return cls(found["seed"], batches, found["step"], skips, packed, found["digest"], found["chain_hash"])

    def first_place(self, step: int) -> int:
        """Place of a step's first sequence in the order."""
        return self.batches.before(step) + sum(sequences for from_step, sequences in self.skips if from_step <= step)

    def step_of(self, place: int) -> int | None:
        """The step that took what stands at a place; None where it was passed over."""
        skipped = 0
        for from_step, sequences in self.skips:
            first_skipped = self.batches.before(from_step) + skipped
            if place < first_skipped:
                break
            if place < first_skipped + sequences:
                return None
            skipped += sequences
        return self.batches.step_of(place - skipped)


def skips_of(interventions: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, int], ...]:
    """(step, sequences passed over just before it), by step, each step once."""
    sums: dict[int, int] = {}
    for one in interventions:
        sums[one["from_step"]] = sums.get(one["from_step"], 0) + one["sequences"]
    return tuple(sorted(sums.items()))
