"""Settings: where and how fast a run goes. They never change an output, so they are not hashed.

Order, strongest first: environment (TERRAPLANE_WORKERS, TERRAPLANE_MODELS), settings.yaml of the project, defaults.
"""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from pydantic import Field

from dataplane.params import Params

FILE = "settings.yaml"


class Settings(Params):
    """Settings of one project."""

    workers: int = Field(0, ge=0, description="Worker processes; 0 takes one for each core.")
    models: str = Field("", description="Folder of fetched models; empty takes the user's cache folder.")

    def n_workers(self) -> int:
        """Worker processes to start."""
        return self.workers or len(os.sched_getaffinity(0))

    def models_dir(self) -> Path:
        """Folder that fetched models are kept in."""
        if self.models:
            return Path(self.models).expanduser()
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return Path(cache).expanduser() / "terraplane" / "models"


def load_settings(root: Path = Path()) -> Settings:
    """Settings of the project at `root`.

    Raises:
        ParamsError: An unknown setting or a value out of range.
    """
    path = root / FILE
    values = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}
    for key in Settings.model_fields:
        override = os.environ.get(f"TERRAPLANE_{key.upper()}")
        if override:
            values[key] = override
    return Settings.parse(values, where=FILE)
