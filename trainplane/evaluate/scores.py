"""Scores of one model: the rows of the table `evals`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

ALL = "all"


@dataclass(frozen=True)
class Score:
    """One measurement.

    Attributes:
        stage: Which model.
        checkpoint: Digest of its weights, "" where there is none.
        task: What was measured on.
        task_version: Of the task.
        group: "all", "source=...", "lang=...".
        metric: What was measured.
        value: The measurement.
        standard_error: Of the value, NaN where it cannot be told.
        n: Documents or items.
        template_hash: Of what the model is asked.
        contamination: Verdict on the items.
        items: Value of each item by its id, where the score is their mean over all; not in the table.
    """

    task: str
    group: str
    metric: str
    value: float
    standard_error: float
    n: int
    stage: str = ""
    checkpoint: str = ""
    task_version: str = "1"
    template_hash: str = ""
    contamination: str = "unchecked"
    items: Mapping[str, float] | None = None

    def row(self, run_id: str, seed: int) -> dict[str, Any]:
        """The row of the table."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "items"}
        values["standard_error"] = None if math.isnan(self.standard_error) else self.standard_error
        return values | {"run_id": run_id, "seed": seed}

    def of(self, stage: str, checkpoint: str) -> Score:
        """The same measurement, of this model."""
        return replace(self, stage=stage, checkpoint=checkpoint)


def groups(names: Mapping[str, Sequence[str | None]]) -> dict[str, list[int]]:
    """Places of each group.

    Args:
        names: Grouping ("source", "lang") -> the name of each item.

    Returns:
        "all" and "grouping=name" -> places, in the order of the names.
    """
    n = len(next(iter(names.values()), ()))
    found: dict[str, list[int]] = {ALL: list(range(n))}
    for grouping, values in names.items():
        for name in sorted({value for value in values if value}):
            found[f"{grouping}={name}"] = [place for place, value in enumerate(values) if value == name]
    return found


def ratio(numerators: Iterable[float], denominators: Iterable[float]) -> tuple[float, float]:
    """Ratio of two sums, and its standard error over the units (the linearised variance of a ratio; NaN for one unit).

    Source: Cochran 1977, Sampling Techniques, section 2.11.
    """
    pairs = list(zip(numerators, denominators, strict=True))
    whole = math.fsum(d for _, d in pairs)
    value = math.fsum(n for n, _ in pairs) / whole
    if len(pairs) < 2:
        return value, math.nan
    spread = math.fsum((n - value * d) ** 2 for n, d in pairs)
    return value, math.sqrt(len(pairs) / (len(pairs) - 1) * spread) / whole
