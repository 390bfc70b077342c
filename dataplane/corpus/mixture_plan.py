"""The plan of a mixture: what there is, what is wanted, how often it has to be repeated, what runs short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

_SHORT_BY = 1e-6  # a group runs short where it can give less than this much below what is wanted, relatively


@dataclass(frozen=True)
class Size:
    """What a group has: documents, and units (bytes or documents)."""

    documents: int
    units: int


@dataclass(frozen=True)
class GroupPlan:
    """One group's part of the mixture; units are bytes or documents.

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
class Plan:
    """Every group's part of the mixture, sorted by name."""

    by: str
    unit: str
    groups: Sequence[GroupPlan]

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

    def to_json(self) -> dict[str, Any]:
        """The plan as plain numbers, for metrics and the report."""
        groups = {
            group.name: {key: value for key, value in asdict(group).items() if key != "name"}
            | {"achieved": self.achieved(group), "short": group.short}
            for group in self.groups
        }
        return {"by": self.by, "unit": self.unit, "total": self.total, "groups": groups}

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
        return table
