"""Where a run's numbers go besides `metrics.jsonl`: TensorBoard, MLflow, Weights & Biases. Each is imported only where it is asked for.

A run that goes on after a kill goes on in the same MLflow and W&B run: the run's folder gives them their id. What a rollback undid stays
there, under the same steps: both keep what they are told.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from dataplane.errors import EnvironmentFault
from dataplane.settings import TrainingSettings

MLFLOW_RUN = "mlflow.json"
EXPERIMENT = "terraplane"


class Writer(Protocol):
    """Takes the numbers of steps."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """A step's numbers."""

    def close(self) -> None:
        """Brings everything to where it belongs."""


class TensorBoard:
    """Events in a folder; names with a slash become groups."""

    def __init__(self, folder: str, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._events = SummaryWriter(folder, purge_step=step + 1)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """A step's numbers."""
        for name, value in values.items():
            self._events.add_scalar(name, value, step)

    def close(self) -> None:
        """Brings the events to disk."""
        self._events.close()


class MLflow:
    """A run of the experiment `terraplane`, on a server or in a folder.

    Args:
        uri: Tracking URI.
        folder: Of the run, which remembers MLflow's.
    """

    def __init__(self, uri: str, folder: Path) -> None:
        if "://" not in uri:
            # MLflow asks for this word before it writes into a folder.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            uri = Path(uri).absolute().as_uri()
        from mlflow import MlflowClient

        self._client = MlflowClient(uri)
        told = folder / MLFLOW_RUN
        if not told.exists():
            known = self._client.get_experiment_by_name(EXPERIMENT)
            experiment = known.experiment_id if known else self._client.create_experiment(EXPERIMENT)
            run = self._client.create_run(experiment, run_name=folder.name)
            told.write_text(json.dumps({"run_id": run.info.run_id}), encoding="utf-8")
        self._run_id = json.loads(told.read_text(encoding="utf-8"))["run_id"]
        self._client.update_run(self._run_id, "RUNNING")

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """A step's numbers."""
        import time

        from mlflow.entities import Metric

        at = int(time.time() * 1000)
        self._client.log_batch(self._run_id, metrics=[Metric(name, value, at, step) for name, value in values.items()])

    def close(self) -> None:
        """Says that the run is over."""
        self._client.set_terminated(self._run_id)


class WandB:
    """A run of W&B; WANDB_MODE=offline keeps it on disk.

    Args:
        project: Of W&B.
        folder: Of the run; its name is the run's id.
    """

    def __init__(self, project: str, folder: Path) -> None:
        import wandb

        quiet = wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True)
        self._run = wandb.init(project=project, id=folder.name, dir=str(folder), resume="allow", settings=quiet)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """A step's numbers."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()


def writers(settings: TrainingSettings, folder: Path, step: int) -> list[Writer]:
    """What the settings ask for.

    Args:
        settings: Of training.
        folder: Of the run.
        step: Finished steps.

    Raises:
        EnvironmentFault: A package is not installed.
    """
    wanted: dict[str, tuple[str, Callable[[], Writer]]] = {
        "tensorboard": (settings.tensorboard, lambda: TensorBoard(settings.tensorboard, step)),
        "mlflow": (settings.mlflow, lambda: MLflow(settings.mlflow, folder)),
        "wandb": (settings.wandb, lambda: WandB(settings.wandb, folder)),
    }
    return [_made(name, make) for name, (asked, make) in wanted.items() if asked]


def _made(name: str, make: Callable[[], Any]) -> Writer:
    try:
        writer: Writer = make()
    except ImportError as error:
        raise EnvironmentFault(
            f"settings.yaml asks for training.{name}, and it cannot be imported: {error}",
            where="pretrain",
            fix=f"pip install terraplane[{name}], or empty that setting",
        ) from None
    return writer
