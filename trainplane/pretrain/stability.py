"""When a step is wrong, and what is done then.

A spike is a loss or gradient norm more than `sigmas` standard deviations above the mean of the last steps that were right. The answer is
to go back to the last checkpoint, train the same steps again, and pass over the sequences that led to the spike. What was passed over
stands in the ledger, so the order stays a pure function of (seed, step, what was skipped).

Source: the window and the threshold are those of OLMo-core's SkipStepOptimizer; going back and skipping batches is section 5.1 of PaLM,
arXiv:2204.02311.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import asdict, dataclass, field
from statistics import fmean, pstdev
from typing import Any, Literal

from pydantic import Field, model_validator

from dataplane.params import Params
from trainplane.data.order import Batches

# Of the mean: the losses of a model that has learned all there is do not vary, and rounding is no spike.
SMALLEST_DEVIATION = 1e-3


class StabilityParams(Params):
    """What counts as a spike, and what is done about it."""

    policy: Literal["rollback", "stop", "off"] = Field(
        "rollback", description="Go back to the last checkpoint and skip the data, stop, or go on; NaN and infinity stop even then."
    )
    sigmas: float = Field(6.0, gt=0, description="Standard deviations above the mean that make a spike.")
    window: int = Field(128, ge=2, description="Steps that mean and deviation are of.")
    min_samples: int = Field(64, ge=2, description="Steps that have to be known before anything counts as a spike.")
    skip_steps: int = Field(1, ge=1, description="Steps, up to the spike, whose sequences are skipped; 1 is the step itself.")
    lr_scale: float = Field(1.0, gt=0, le=1, description="Factor on the learning rate after a rollback.")
    max_rollbacks: int = Field(5, ge=0, description="Rollbacks of a run before it stops.")

    @model_validator(mode="after")
    def _samples_fit(self) -> StabilityParams:
        if self.min_samples > self.window:
            raise ValueError("min_samples cannot be more than window")
        return self


class SpikeDetector:
    """Watches losses and gradient norms.

    Args:
        params: When something is a spike.
    """

    def __init__(self, params: StabilityParams) -> None:
        self.params = params
        self._seen: dict[str, deque[float]] = {name: deque(maxlen=params.window) for name in ("loss", "grad_norm")}

    def fault(self, loss: float, grad_norm: float) -> str | None:
        """What is wrong with a step, in words; None where nothing is, and then the step becomes part of the window."""
        values = {"loss": loss, "grad_norm": grad_norm}
        for name, value in values.items():
            if not math.isfinite(value):
                return f"{name} is {value}"
            limit = self.limit(name)
            if limit is not None and value > limit:
                return f"{name} {value:.4g} is above {limit:.4g}, {self.params.sigmas:g} sigma of {len(self._seen[name])} steps"
        for name, value in values.items():
            self._seen[name].append(value)
        return None

    def limit(self, name: str) -> float | None:
        """What a value may be; None before there are enough samples."""
        seen = self._seen[name]
        if len(seen) < self.params.min_samples:
            return None
        mean = fmean(seen)
        return mean + self.params.sigmas * max(pstdev(seen), SMALLEST_DEVIATION * abs(mean))

    def state(self) -> dict[str, list[float]]:
        """The window, for a checkpoint."""
        return {name: list(seen) for name, seen in self._seen.items()}

    def restore(self, state: dict[str, list[float]]) -> None:
        """Puts a window back."""
        for name, values in state.items():
            self._seen[name] = deque(values, self.params.window)


@dataclass(frozen=True)
class Intervention:
    """One rollback.

    Attributes:
        spike: Step that was wrong.
        from_step: First step that sees other sequences than it would have.
        sequences: How many are passed over before it.
        lr_scale: Factor on the learning rate from that step on.
        reason: What was wrong.
    """

    spike: int
    from_step: int
    sequences: int
    lr_scale: float
    reason: str


@dataclass
class Interventions:
    """All rollbacks of a run, in the order that they were made."""

    made: list[Intervention] = field(default_factory=list)

    def skipped_before(self, step: int) -> int:
        """Sequences that are passed over just before a step."""
        return sum(one.sequences for one in self.made if one.from_step == step)

    def lr_scale(self, step: int) -> float:
        """Factor on a step's learning rate."""
        return math.prod(one.lr_scale for one in self.made if one.from_step <= step)

    def add(self, params: StabilityParams, spike: int, checkpoint: int, batches: Batches, reason: str) -> Intervention:
        """Decides what is skipped: the last steps up to the spike, as far as the checkpoint.

        Args:
            params: How many.
            spike: Step that was wrong.
            checkpoint: Step that the run goes back to.
            batches: Sequences of each step.
            reason: What was wrong.
        """
        n_steps = min(params.skip_steps, spike - checkpoint)
        first = spike - n_steps + 1
        one = Intervention(spike, first, batches.before(spike + 1) - batches.before(first), params.lr_scale, reason)
        self.made.append(one)
        return one

    def to_json(self) -> list[dict[str, Any]]:
        """For checkpoint, ledger and evidence."""
        return [asdict(one) for one in self.made]

    @classmethod
    def parse(cls, rows: list[dict[str, Any]]) -> Interventions:
        """From JSON."""
        return cls([Intervention(**row) for row in rows])
