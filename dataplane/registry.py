"""Finds operators, sources and rule sets by entry point, lazily, by name."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dataplane.errors import PluginError, did_you_mean
from dataplane.operator import Operator
from dataplane.source import Source

GROUPS = ("dataplane.sources", "dataplane.operators", "dataplane.rules", "dataplane.corpus", "trainplane.evaluators", "trainplane.rewards")


@lru_cache
def entries(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name, sorted.

    Raises:
        PluginError: Two distributions own one name.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(_installed().select(group=group), key=lambda p: (p.name, p.value)):
        rival = found.get(point.name)
        if rival is not None and rival.value != point.value:
            raise PluginError(
                f"two distributions register {point.name!r}: {owner(rival)} ({rival.value}) and {owner(point)} ({point.value})",
                where=group,
                fix="uninstall one of them, or rename the entry point",
            )
        found[point.name] = point
    return found


@lru_cache
def _installed() -> Any:
    """Those of all groups: each look at what is installed opens a file of every distribution."""
    return entry_points()


def owner(point: EntryPoint) -> str:
    """Distribution and version that registered an entry point."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"


def load(group: str, name: str, *, where: str = "") -> Any:
    """The object behind an entry point.

    Raises:
        PluginError: No such name, or its module cannot be imported.
    """
    points = entries(group)
    if name not in points:
        raise PluginError(
            f"no {group.rpartition('.')[2].removesuffix('s')} is called {name!r}, {did_you_mean(name, points)}",
            where=where or group,
            fix="correct the name in params.yaml, or install the plugin; `dataplane plugins list` shows what is there",
        )
    try:
        return points[name].load()
    except Exception as error:  # a foreign module may raise anything while it is imported
        raise PluginError(
            f"{points[name].value} of {owner(points[name])} cannot be imported: {type(error).__name__}: {error}",
            where=where or group,
            fix=f"repair or uninstall {owner(points[name])}",
        ) from error


def operator_class(name: str, *, where: str = "") -> type[Operator]:
    """The operator registered as `name`.

    Raises:
        PluginError: It is missing, is no Operator, or its class carries another name.
    """
    cls: type[Operator] = _checked("dataplane.operators", name, Operator, where)
    return cls


def source_class(name: str, *, where: str = "") -> type[Source]:
    """The source registered as `name`; raises as `operator_class` does."""
    cls: type[Source] = _checked("dataplane.sources", name, Source, where)
    return cls


def _checked(group: str, name: str, base: type[Any], where: str) -> Any:
    cls = load(group, name, where=where)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        fix = f"derive it from dataplane.{base.__name__}"
        raise PluginError(f"{name!r} is not a dataplane {base.__name__}", where=where or group, fix=fix)
    if getattr(cls, "name", None) != name:
        raise PluginError(
            f"entry point {name!r} leads to a class named {getattr(cls, 'name', None)!r}",
            where=where or group,
            fix="give both the same name",
        )
    return cls


def module_of(point: EntryPoint) -> str | None:
    """Path of the module behind an entry point once it is loaded, for the digest of its source."""
    module = sys.modules.get(point.module)
    return getattr(module, "__file__", None)
