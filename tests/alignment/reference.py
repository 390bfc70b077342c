"""The reference checks of alignment: what they are made of. `checks.py` runs them.

A check is a function that measures one number of a tiny model, and what is known of it beforehand. To add one, write a function under
`@check(source=...)` in a module that `checks.py` imports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKS: dict[str, Check] = {}


@dataclass(frozen=True)
class Outcome:
    """What a check found.

    Attributes:
        expected: The number that is known beforehand; with `at_least`, the least that it may be.
        got: What was measured.
        tolerance: How far it may be off.
        at_least: Whether more than expected is fine too.
    """

    expected: float
    got: float
    tolerance: float
    at_least: bool = False

    @property
    def ok(self) -> bool:
        """Whether it holds; NaN does not."""
        return self.got >= self.expected if self.at_least else abs(self.got - self.expected) <= self.tolerance


@dataclass(frozen=True)
class Lab:
    """What checks measure on.

    Attributes:
        work: A folder for them.
        pretrained: Folder of a tiny model with random weights.
    """

    work: Path
    pretrained: Path

    def tokenizer(self) -> Any:
        """Of the model."""
        from trainplane.tokenizer import load_tokenizer

        return load_tokenizer(self.pretrained)

    def model(self) -> Any:
        """The model, loaded afresh."""
        from trainplane.model.build import load

        return load(self.pretrained).eval()


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        source: Where the expected number is from.
        measure: Does the work.
    """

    source: str
    measure: Callable[[Lab], Outcome]

    def run(self, name: str, lab: Lab) -> dict[str, Any]:
        """The check as a row; one that raises has failed."""
        try:
            found = self.measure(lab)
        except Exception as error:  # noqa: BLE001  # a check that breaks has failed, and the others are told all the same
            told = f"{type(error).__name__}: {error}"
            return {"name": name, "source": self.source, "expected": None, "got": told, "tolerance": None, "ok": False}
        expected = f">= {found.expected:g}" if found.at_least else found.expected
        return {
            "name": name, "source": self.source, "expected": expected, "got": found.got, "tolerance": found.tolerance, "ok": found.ok,
        }  # fmt: skip


def check(*, source: str) -> Callable[[Callable[[Lab], Outcome]], Callable[[Lab], Outcome]]:
    """Puts a function among the checks, under its own name."""

    def register(measure: Callable[[Lab], Outcome]) -> Callable[[Lab], Outcome]:
        CHECKS[measure.__name__] = Check(source, measure)
        return measure

    return register
