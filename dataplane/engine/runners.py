"""Which runner the settings ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dataplane.engine import local, ray
from dataplane.engine.mapping import Runner, Task
from dataplane.engine.units import Unit
from dataplane.settings import Settings

FEW_ROWS = 1024  # of all units together


def runner(settings: Settings, root: Path) -> Runner:
    """Processes of this machine, or a Ray cluster.

    Args:
        settings: engine, workers and ray of settings.yaml.
        root: Folder of the project.
    """

    def run(task: Task, units: Sequence[Unit], todo: list[int]) -> Iterator[tuple[int, Any]]:
        if settings.engine == "ray":
            return ray.run(task, units, todo, root, settings.ray)
        return local.run(task, units, todo, 1 if _stays(settings, [units[i] for i in todo]) else settings.n_workers())

    return run


def _stays(settings: Settings, units: Sequence[Unit]) -> bool:
    """Whether the work stays in this process: nobody asked for workers, and it would be done before they have loaded their models."""
    rows = [unit.rows for unit in units]
    return not settings.workers and None not in rows and sum(n for n in rows if n) <= FEW_ROWS
