"""The small lake of these tests as a fixture, made once for each format of the lake and copied for each test."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dataplane.snapshot import Snapshot
from tests.publish.small_lake import make


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], tuple[Path, dict[str, Snapshot]]]:
    """Gives the folder of a lake in the format that the environment asks for, and its snapshots."""
    made: dict[str, tuple[Path, dict[str, Snapshot]]] = {}

    def get() -> tuple[Path, dict[str, Snapshot]]:
        storage = os.environ.get("TERRAPLANE_LAKE_FORMAT", "lance")
        if storage not in made:
            folder = tmp_path_factory.mktemp(storage)
            made[storage] = folder, make(folder)
        return made[storage]

    return get


@pytest.fixture
def lake(project: Path, template: Callable[[], tuple[Path, dict[str, Snapshot]]]) -> dict[str, Snapshot]:
    """The project's tables: name -> snapshot."""
    folder, snapshots = template()
    for name in ("lake", "models"):
        shutil.copytree(folder / name, project / name, dirs_exist_ok=True)
    return {name: Snapshot(snapshot.table, snapshot.digest, snapshot.rows, project) for name, snapshot in snapshots.items()}
