"""Which runner the settings ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dataplane.engine import local, ray
from dataplane.engine.mapping import Runner, Task
from dataplane.engine.units import Unit
from dataplane.settings import Settings


def runner(settings: Settings, root: Path) -> Runner:
    """Processes of this machine, or a Ray cluster.

    Args:
        settings: engine, workers and ray of settings.yaml.
        root: Folder of the project.
    """

    def run(task: Task, units: Sequence[Unit], todo: list[int]) -> Iterator[tuple[int, Any]]:
        if settings.engine == "ray":
            return ray.run(task, units, todo, root, settings.ray)
        return local.run(task, units, todo, settings.n_workers())

    return run
