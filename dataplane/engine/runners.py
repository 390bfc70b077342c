"""Which runner the settings ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dataplane.engine import local, ray
from dataplane.engine.mapping import Runner, Task
from dataplane.engine.rows import RowsTask
from dataplane.engine.units import Unit
from dataplane.settings import Settings

# Of all units together: below, one process is done before two have loaded their models.
FEW_ROWS, FEW_BYTES = 1024, 16 << 20


def runner(settings: Settings, root: Path) -> Runner:
    """Processes of this machine, or a Ray cluster.

    Args:
        settings: engine, workers and ray of settings.yaml.
        root: Folder of the project.
    """

    def run(task: Task, units: Sequence[Unit], todo: list[int]) -> Iterator[tuple[int, Any]]:
        if settings.engine == "ray":
            return ray.run(task, units, todo, root, settings.ray)
        return local.run(task, units, todo, 1 if _stays(settings, task, [units[i] for i in todo]) else settings.n_workers())

    return run


def _stays(settings: Settings, task: Task, units: Sequence[Unit]) -> bool:
    """Whether the work stays in this process: nobody asked for workers, and there is little of it."""
    rows = [unit.rows for unit in units]
    if settings.workers or None in rows or sum(n for n in rows if n) > FEW_ROWS:
        return False
    return not isinstance(task, RowsTask) or task.new_bytes([unit.work for unit in units]) <= FEW_BYTES
