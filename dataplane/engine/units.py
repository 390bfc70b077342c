"""Units of work that keep their name when the input grows.

A unit's key is a digest of its content. Work that was done for a key is not done again, whatever else was added to or
taken from the input, so the borders between units must not move when something is put in the middle: they follow
the stored fragments, and where small things are grouped, the content itself says where a group ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dataplane.params import digest
from dataplane.snapshot import Snapshot

T = TypeVar("T")
MAX_GROUP = 4  # times the mean size
WORTH_A_UNIT = 128  # rows
_HEX_DIGITS = 8


@dataclass(frozen=True)
class Unit:
    """One piece of work.

    Attributes:
        key: Digest of all that its result depends on beside params and code.
        work: What the task is given.
        rows: How many rows have to be worked on; None where nobody knows.
    """

    key: str
    work: Any
    rows: int | None = None


def ranges(snapshot: Snapshot, unit_rows: int) -> list[Unit]:
    """Units that are (offset, count) of a table's rows: parts of its fragments, none above `unit_rows`.

    A fragment that is worth it is two at least: what came in one file is then not the work of one core alone.
    """
    units: list[Unit] = []
    offset = 0
    for fragment in snapshot.fragments():
        n_parts = max(-(-fragment.rows // unit_rows), min(2, fragment.rows // WORTH_A_UNIT))
        borders = [fragment.rows * i // n_parts for i in range(n_parts + 1)]
        for start, stop in itertools.pairwise(borders):
            key = digest([fragment.total, start, stop])
            units.append(Unit(key, (offset + start, stop - start)))
        offset += fragment.rows
    return units


def whole_fragments(snapshot: Snapshot, unit_rows: int) -> list[Unit]:
    """Units that are (offset, count) of a table's rows: neighbouring fragments together, about `unit_rows`."""
    units: list[Unit] = []
    offset = 0
    for group in content_groups(snapshot.fragments(), unit_rows, weight=lambda f: f.rows, name=lambda f: f.total):
        rows = sum(fragment.rows for fragment in group)
        units.append(Unit(digest([fragment.total for fragment in group]), (offset, rows)))
        offset += rows
    return units


def content_groups(items: Sequence[T], size: int, *, weight: Callable[[T], int], name: Callable[[T], str]) -> Iterator[list[T]]:
    """Neighbouring items in groups of about `size`, with borders that an insertion elsewhere does not move.

    Whether an item ends its group is told by its own name and weight alone, so that a group is in the mean as heavy as `size` and
    the groups behind an insertion are what they were. Only a group that grew much too large is cut by its weight.

    Args:
        items: In order.
        size: Mean weight of a group.
        weight: Weight of an item.
        name: What an item is known by; a hex digest, or any text.
    """
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += weight(item)
        if _drawn(name(item)) * size < weight(item) or total >= MAX_GROUP * size:
            yield group
            group, total = [], 0
    if group:
        yield group


def _drawn(name: str) -> float:
    """A number from 0 to 1 that is as good as random, and always the same for a name."""
    return float(int(digest(name)[:_HEX_DIGITS], 16) / 16**_HEX_DIGITS)
