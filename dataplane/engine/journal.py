"""What has been done, so that a killed run resumes and a grown input costs only what is new.

One small file for each finished unit, named by the unit's key, in a folder named by the identity of the work
(operators, params, code). Nothing here is needed for a right result: without it the work is done again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from dataplane.errors import LakeBusy
from dataplane.lake.objectstore import write_atomically

FOLDER = "journal"
ABOUT = "about"
KEPT_IDENTITIES = 4  # so that going back to earlier params costs nothing


@contextmanager
def stage_lock(root: Path, stage: str) -> Iterator[None]:
    """Holds a stage, so that no other run of it writes the same tables.

    Raises:
        LakeBusy: Somebody else holds it.
    """
    path = root / FOLDER / f"{stage}.lock"
    path.parent.mkdir(exist_ok=True)
    try:
        with FileLock(path, timeout=0):
            yield
    except Timeout:
        raise LakeBusy(f"another run of stage {stage!r} is at work in this project", fix="wait for it to end") from None


class Journal:
    """The finished units of one identity of one stage.

    Args:
        root: Folder of the project.
        stage: Name of the stage.
        identity: Digest of what every result depends on, beside the unit.
    """

    def __init__(self, root: Path, stage: str, identity: str) -> None:
        self.stage_folder = root / FOLDER / stage
        self.folder = self.stage_folder / identity

    def begin(self) -> None:
        """Makes this identity the newest, and forgets all but the last few."""
        self.folder.mkdir(parents=True, exist_ok=True)
        os.utime(self.folder)
        for path in self._by_age()[KEPT_IDENTITIES:]:
            shutil.rmtree(path)

    def _by_age(self) -> list[Path]:
        """Folders of all identities, newest first."""
        folders = [path for path in self.stage_folder.iterdir() if path.is_dir()]
        return sorted(folders, key=lambda path: (path != self.folder, -path.stat().st_mtime_ns))

    def others(self) -> Iterator[Journal]:
        """The journals of earlier identities, newest first."""
        for path in self._by_age()[1:]:
            yield Journal(path.parents[2], path.parent.name, path.name)

    def get(self, key: str) -> Any | None:
        """The result of a finished unit, None where it is not finished."""
        try:
            return json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # a damaged one is not finished
            return None

    def put(self, key: str, result: Any) -> None:
        """Records a finished unit, atomically."""
        write_atomically(self.folder / f"{key}.json", json.dumps(result), FOLDER)

    def note(self, about: dict[str, Any]) -> None:
        """Says what the identity stands for, for later runs under another one."""
        write_atomically(self.folder / ABOUT, json.dumps(about), FOLDER)

    def about(self) -> dict[str, Any]:
        """What `note` said last; empty where nothing was."""
        try:
            return dict(json.loads((self.folder / ABOUT).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError):
            return {}

    def keep(self, keys: set[str]) -> None:
        """Forgets the units that are no longer part of the input."""
        for path in self.folder.glob("*.json"):
            if path.stem not in keys:
                path.unlink()
