"""`dataplane plugins check`: every operator's class against the contract, without running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dataplane.contract import check_class
from dataplane.errors import TerraplaneError
from dataplane.registry import entries, operator_class, owner, source_class
from dataplane.ruleset import load_rule_set


def check_plugins(names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row for each operator, source and rule set: its name, owner and fault (empty where it is sound).

    Args:
        names: Which to check; all by default.
    """
    checks: dict[str, Callable[[str], object]] = {
        "dataplane.operators": lambda name: check_class(operator_class(name)),
        "dataplane.sources": source_class,
        "dataplane.rules": load_rule_set,
    }
    rows = []
    for group, check in checks.items():
        for name, point in entries(group).items():
            if names and name not in names:
                continue
            try:
                check(name)
                fault = ""
            except TerraplaneError as error:
                fault = error.render()
            rows.append({"group": group, "name": name, "distribution": owner(point), "fault": fault})
    if missing := sorted(set(names) - {row["name"] for row in rows}):
        operator_class(missing[0])  # raises, with a hint at the closest name
    return rows
