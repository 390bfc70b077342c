"""Settings: where and how fast a run goes. They never change an output, so they are not hashed.

Order, strongest first: environment (TERRAPLANE_WORKERS, TERRAPLANE_LAKE_URI, ...), settings.yaml of the project, defaults.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import Field, model_validator

from dataplane.errors import ParamsError
from dataplane.params import Params

FILE = "settings.yaml"


class LakeSettings(Params):
    """Where the tables lie, and who keeps their versions. The content digests are the same everywhere."""

    format: Literal["lance", "parquet"] = Field("lance", description="Format of the tables.")
    dvc: Literal["cached", "referenced"] = Field(
        "cached",
        description="cached: DVC holds the tables; referenced: DVC holds only the snapshot files, and the tables stay where they are.",
    )
    uri: str = Field("", description="Folder or s3://bucket/prefix of the tables; empty is the project's `lake`. Needs dvc: referenced.")

    @property
    def held(self) -> str:
        """Suffix of the tables that DVC holds; empty where it holds only their snapshot files."""
        return self.format if self.dvc == "cached" else ""

    @model_validator(mode="after")
    def _elsewhere_is_referenced(self) -> Self:
        if self.uri and self.dvc != "referenced":
            raise ValueError("tables outside the project cannot be held by DVC: set lake.dvc to referenced")
        return self


class LineageSettings(Params):
    """Where the events of runs go, in the format of OpenLineage. A key for the server is taken from OPENLINEAGE_API_KEY alone."""

    openlineage: Literal["file", "http", "off"] = Field(
        "file", description="file: lake/runs/openlineage.jsonl; http: the server at `url`; off: nowhere. A url by itself means http."
    )
    url: str = Field("", description="Server that takes OpenLineage events, such as http://localhost:5000.")
    namespace: str = Field("terraplane", min_length=1, description="Namespace of the project's jobs and tables; one for each project.")

    @model_validator(mode="before")
    @classmethod
    def _as_meant(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        values = dict(values)
        if values.get("openlineage") is False:  # YAML reads a bare `off` so
            values["openlineage"] = "off"
        if values.get("url"):
            values.setdefault("openlineage", "http")
        return values

    @model_validator(mode="after")
    def _has_a_server(self) -> Self:
        if "@" in self.url:  # no ValueError: pydantic would repeat the url, password and all
            fix = "put the server's key into the environment: OPENLINEAGE_API_KEY"
            raise ParamsError("the url holds a user or a password", where="lineage.url", fix=fix)
        where = urlsplit(self.url)
        if self.openlineage == "http" and not (where.scheme in ("http", "https") and where.hostname):
            raise ValueError("openlineage: http needs a url that begins with http:// or https://")
        return self


class RaySettings(Params):
    """The Ray cluster of `engine: ray`. The project's folder has the same path on all its machines."""

    address: str = Field(
        "auto", min_length=1, description="auto: the cluster that this machine is part of; ray://HOST:PORT; local: one on this machine."
    )
    cpus: float = Field(1.0, gt=0, description="Cores that Ray sets aside for a unit.")
    memory_bytes: int = Field(0, ge=0, description="Memory that Ray sets aside for a unit, bytes; 0 sets none aside.")


class TrainingSettings(Params):
    """How training runs on this machine, and what it keeps. Weights and ledger are the same, up to rounding where the ranks differ."""

    tensorboard: str = Field("", description="Folder for TensorBoard's events of pretraining; empty for none. Needs the extra tensorboard.")
    mlflow: str = Field("", description="Tracking URI or folder of MLflow; empty for none. Needs the extra mlflow.")
    wandb: str = Field(
        "", description="Project of Weights & Biases, offline with WANDB_MODE=offline; empty for none. Needs the extra wandb."
    )
    sequences: str = Field("", description="Folder of this machine's copies of sequences; empty is journal/sequences of the project.")
    rank_exit_seconds: float = Field(30.0, gt=0, description="Seconds in which a rank has to notice that another has ended.")
    processes: int = Field(1, ge=1, description="Ranks that a stage starts by itself; torchrun or DeepSpeed's launcher overrule it.")
    keep_checkpoints: int = Field(2, ge=1, description="How many of the newest checkpoints stay.")
    keep_every: int = Field(0, ge=0, description="Checkpoints of every so many steps stay for good; 0 for none.")
    checkpoint_in_background: bool = Field(True, description="Whether training goes on while a checkpoint is written; it costs memory.")
    smoke_test_from: int = Field(1000, ge=0, description="Runs of so many steps begin with a test of save and restore; 0 for never.")
    alarm_factor: float = Field(10.0, gt=1, description="A step that takes so many times the usual is a stall; a rank so is a straggler.")
    stall_seconds: float = Field(120.0, gt=0, description="No stall is told of before so many seconds.")


class Settings(Params):
    """Settings of one project."""

    engine: Literal["local", "ray"] = Field(
        "local", description="local: stages work in processes of this machine; ray: on a Ray cluster. The digests are the same."
    )
    workers: int = Field(0, ge=0, description="Worker processes of engine local; 0 takes one for each core, and none for a few rows.")
    ray: RaySettings = Field(default_factory=lambda: RaySettings.parse(None, where="ray"), description="The cluster of engine ray.")
    models: str = Field("", description="Folder of fetched models; empty takes the user's cache folder.")
    lake: LakeSettings = Field(default_factory=lambda: LakeSettings.parse(None, where="lake"), description="Where the tables lie.")
    lineage: LineageSettings = Field(
        default_factory=lambda: LineageSettings.parse(None, where="lineage"), description="Where the events of runs go."
    )
    training: TrainingSettings = Field(
        default_factory=lambda: TrainingSettings.parse(None, where="training"), description="How training runs on this machine."
    )

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
    return Settings.parse(_overridden(Settings, values, "TERRAPLANE"), where=FILE)


def _overridden(cls: type[Params], values: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The values with those of the environment in place: TERRAPLANE_LAKE_URI is lake.uri."""
    values = dict(values)
    for key, field in cls.model_fields.items():
        name = f"{prefix}_{key.upper()}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, Params):
            inner = _overridden(field.annotation, values.get(key) or {}, name)
            if inner:
                values[key] = inner
        elif override := os.environ.get(name):
            values[key] = override
    return values
