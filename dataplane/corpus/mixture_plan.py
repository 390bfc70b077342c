"""The plan of a mixture: what there is, what is wanted, how often it has to be repeated, what runs short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

_SHORT_BY = 1e-6  # a group runs short where it can give less than this much below what is wanted, relatively


@dataclass(frozen=True)
class Size:
    """What a group has: documents, and units (bytes, documents or tokens)."""

    documents: int
    units: int


@dataclass(frozen=True)
class GroupPlan:
    """One group's part of the mixture; units are bytes, documents or tokens.

    Attributes:
        name: The group.
        documents: Documents available.
        available: Units available.
        asked: Share asked, of all groups.
        wanted: Units wanted.
        asked_epochs: How often the group has to be gone through for that.
        epochs: How often it is gone through, at most max_epochs.
        taken: Units that the mixture gets: as planned, and after sampling as they are.
    """

    name: str
    documents: int
    available: int
    asked: float
    wanted: float
    asked_epochs: float
    epochs: float
    taken: float

    @property
    def short(self) -> bool:
        """Whether max_epochs of the group are fewer units than wanted."""
        return self.epochs * self.available < self.wanted * (1 - _SHORT_BY)


@dataclass(frozen=True)
class PhasePlan:
    """One stretch of training.

    Attributes:
        name: Its name.
        part: Its part of the mixture.
        asked: Group -> share asked of the phase.
        taken: Group -> units that the phase gets; empty before sampling.
    """

    name: str
    part: float
    asked: Mapping[str, float]
    taken: Mapping[str, float]

    def achieved(self, group: str) -> float:
        """Share of the phase that a group gets."""
        total = sum(self.taken.values())
        return self.taken.get(group, 0.0) / total if total else 0.0

    def to_json(self) -> dict[str, Any]:
        """The phase as plain numbers."""
        groups = {name: {"asked": asked, "achieved": self.achieved(name)} for name, asked in self.asked.items()}
        return {"name": self.name, "part": self.part, "total": sum(self.taken.values()), "groups": groups}


@dataclass(frozen=True)
class Plan:
    """Every group's part of the mixture, sorted by name; and of each phase, where there are any."""

    by: str
    unit: str
    groups: Sequence[GroupPlan]
    phases: Sequence[PhasePlan] = ()

    @property
    def total(self) -> float:
        """Units of the mixture."""
        return float(sum(group.taken for group in self.groups))

    def achieved(self, group: GroupPlan) -> float:
        """Share of the mixture that the group gets."""
        return group.taken / self.total if self.total else 0.0

    def with_taken(self, taken: Sequence[int]) -> Plan:
        """The plan after sampling, with the units taken of each group."""
        return replace(self, groups=[replace(group, taken=float(units)) for group, units in zip(self.groups, taken, strict=True)])

    def with_phases(self, taken: Mapping[str, Sequence[float]]) -> Plan:
        """The plan after sampling, with the units that each phase takes of each group."""
        phases = [replace(phase, taken={name: units[i] for name, units in taken.items()}) for i, phase in enumerate(self.phases)]
        return replace(self, phases=phases)

    @property
    def largest_gap(self) -> float:
        """Largest difference between a share that was asked and the one achieved, over all groups and phases."""
        gaps = [abs(self.achieved(group) - group.asked) for group in self.groups]
        gaps += [abs(phase.achieved(name) - asked) for phase in self.phases for name, asked in phase.asked.items()]
        return max(gaps, default=0.0)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain numbers, for metrics and the report."""
        groups = {
            group.name: {key: value for key, value in asdict(group).items() if key != "name"}
            | {"achieved": self.achieved(group), "short": group.short}
            for group in self.groups
        }
        phases = [phase.to_json() for phase in self.phases]
        return {"by": self.by, "unit": self.unit, "total": self.total, "largest_gap": self.largest_gap, "groups": groups, "phases": phases}

    def to_table(self) -> Table:
        """The plan as a rich table, to be printed before anything is done."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=f"mixture by {self.by}, in {self.unit}: {self.total:,.0f}")
        table.add_column(self.by)
        for heading in ("documents", "available", "wanted", "epochs", "taken", "asked", "achieved", ""):
            table.add_column(heading, justify="right")
        for group in self.groups:
            table.add_row(
                Text(group.name),
                f"{group.documents:,}",
                f"{group.available:,}",
                f"{group.wanted:,.0f}",
                f"{group.epochs:.2f}",
                f"{group.taken:,.0f}",
                f"{group.asked:.2%}",
                f"{self.achieved(group):.2%}",
                "runs short" if group.short else "",
            )
        for phase in self.phases:
            table.add_section()
            for name, asked in phase.asked.items():
                taken, achieved = (f"{phase.taken[name]:,.0f}", f"{phase.achieved(name):.2%}") if phase.taken else ("", "")
                table.add_row(Text(f"{phase.name}: {name}"), "", "", "", "", taken, f"{asked:.2%}", achieved, "")
        return table
