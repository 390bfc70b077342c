"""What a run has finished, so that a killed run resumes instead of starting again.

One small file for each finished unit, in a folder named by the identity of the work (operators, params, inputs): a
changed param is another identity and therefore other work.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from dataplane.snapshot import write_atomically

FOLDER = "journal"


class Journal:
    """The finished units of one identity of one stage.

    Args:
        root: Folder of the project.
        stage: Name of the stage.
        identity: Digest of everything that the results depend on.
    """

    def __init__(self, root: Path, stage: str, identity: str) -> None:
        self.stage_folder = root / FOLDER / stage
        self.folder = self.stage_folder / identity

    def begin(self) -> None:
        """Forgets the journals of other identities: their work is no longer asked for."""
        if self.stage_folder.is_dir():
            for path in self.stage_folder.iterdir():
                if path != self.folder:
                    shutil.rmtree(path)
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, unit: int) -> Any | None:
        """The result of a finished unit, None where it is not finished."""
        path = self._path(unit)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def put(self, unit: int, result: Any) -> None:
        """Records a finished unit, atomically."""
        write_atomically(self._path(unit), json.dumps(result))

    def end(self) -> None:
        """Forgets everything: the results are committed."""
        shutil.rmtree(self.stage_folder, ignore_errors=True)

    def _path(self, unit: int) -> Path:
        return self.folder / f"{unit:08d}.json"
