"""Checkpoints that a killed run resumes from: everything or nothing, at any number of ranks.

    step_00000100/state.json      where the run stood (step, data position, spike window, ledger's head), and each file's hash
    step_00000100/step_00000100/  DeepSpeed's files: weights, optimizer, loss scale, counters
    latest.json, best.json        which folder to resume from; which had the lowest held-out loss

A checkpoint is written as step_N.partial. It is renamed once every rank has written its files through to disk and has read them back,
bit for bit; only then is an older one removed. A kill or a full disk leaves the ones before it whole. Random numbers need no place here:
each step seeds every rank anew (pretrain/randomness.py).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.errors import EnvironmentFault, TerraplaneError, of_system
from dataplane.settings import TrainingSettings
from trainplane.errors import TrainingError
from trainplane.pretrain.engine import Engine
from trainplane.pretrain.host_copy import HostCopy, file_hash
from trainplane.pretrain.parts import Part, parts_of_ranks
from trainplane.pretrain.ranks import barrier, broadcast, gather, rank, world_size
from trainplane.pretrain.reshard import reshard

LATEST, BEST, STATE = "latest.json", "best.json", "state.json"
PARTIAL = ".partial"
IDLE, WRITING, WRITTEN = "idle", "writing", "written"


@dataclass(frozen=True)
class _Pending:
    """A checkpoint that is being written."""

    name: str
    state: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run. Every rank calls the same methods in the same order.

    Args:
        folder: Of the run; all ranks have to see it.
        engine: Ours.
        settings: How many stay, and whether training waits for the disk.
    """

    def __init__(self, folder: Path, engine: Engine, settings: TrainingSettings) -> None:
        self.folder, self.engine, self.settings = folder, engine.deepspeed, settings
        self.groups, self.layout, self.parts = list(engine.parameters.values()), engine.layout, parts_of_ranks(engine)
        self._copy = HostCopy()
        self._pending: _Pending | None = None
        self.engine.checkpoint_engine = self._copy

    def save(self, state: dict[str, Any]) -> None:
        """Takes a copy of everything, and writes it: in the background where the settings say so.

        Args:
            state: JSON of where the run stands, with `step`; and `held_out_loss` where it was measured at that step.
        """
        self.wait()
        name = step_name(state["step"])
        partial = self.folder / f"{name}{PARTIAL}"
        if rank() == 0:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        barrier()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.engine.save_checkpoint(str(partial), tag=name, client_state={}, save_latest=False)
        parts = [[[part.to_json() for part in group] for group in groups] for groups in self.parts]
        self._pending = _Pending(name, state | self._shape() | {"parts": parts})
        self._copy.start(partial)
        if not self.settings.checkpoint_in_background:
            self.wait()

    def status(self) -> str:
        """Where this rank's writing stands; the ranks tell each other at each step."""
        if self._pending is None:
            return IDLE
        return WRITTEN if self._copy.done() else WRITING

    def settle(self, statuses: list[str]) -> None:
        """Makes a checkpoint count once every rank has written it.

        Args:
            statuses: Of all ranks.

        Raises:
            EnvironmentFault: A rank could not write, most often for want of room; on every rank.
        """
        if self._pending is None or any(status != WRITTEN for status in statuses):
            return
        pending, self._pending = self._pending, None
        told = gather((self._copy.files, _told(self._copy.failure())))
        failures = [failure for _, failure in told if failure is not None]
        failure = broadcast(self._publish(pending, [files for files, _ in told]) if rank() == 0 and not failures else None)
        for found in [*failures, *([failure] if failure is not None else [])]:
            raise found

    def wait(self) -> None:
        """Waits until what is being written counts."""
        self._copy.join()
        self.settle(gather(self.status()))

    def _publish(self, pending: _Pending, files: list[dict[str, Any]]) -> TerraplaneError | None:
        """What rank 0 does once all files are there; returns what went wrong."""
        partial, final = self.folder / f"{pending.name}{PARTIAL}", self.folder / pending.name
        try:
            merged = {name: about for of_rank in files for name, about in of_rank.items()}
            _write_json(partial / STATE, pending.state | {"files": merged})
            _sync_folders(partial)
            if final.exists():
                shutil.rmtree(final)
            partial.rename(final)
            _sync(self.folder)
            self._point(LATEST, pending)
            if "held_out_loss" in pending.state and pending.state["held_out_loss"] <= self._best_loss():
                self._point(BEST, pending)
            self._prune()
        except OSError as error:
            return _told(error)
        return None

    def _point(self, pointer: str, pending: _Pending) -> None:
        _write_json(self.folder / pointer, {"name": pending.name, "held_out_loss": pending.state.get("held_out_loss")})

    def _best_loss(self) -> float:
        loss = _read_json(self.folder / BEST).get("held_out_loss")
        return float("inf") if loss is None else float(loss)

    def _prune(self) -> None:
        """Removes the older ones: not the last few, nor the best, nor each `keep_every`-th step."""
        names = [path.name for path in self.folder.glob("step_*") if not path.name.endswith(PARTIAL)]
        kept = set(sorted(names)[-self.settings.keep_checkpoints :]) | {_read_json(self.folder / BEST).get("name", "")}
        every = self.settings.keep_every
        kept |= {name for name in names if every and int(name.removeprefix("step_")) % every == 0}
        for name in names:
            if name not in kept:
                # Under a name that no reader takes for a checkpoint: a kill may leave half of it.
                gone = self.folder / f"{name}{PARTIAL}"
                shutil.rmtree(gone, ignore_errors=True)
                (self.folder / name).rename(gone)
                shutil.rmtree(gone)

    def find(self) -> Path | None:
        """The newest checkpoint that is whole; one that is damaged is passed over with a warning. None where there is none.

        Raises:
            TrainingError: There are checkpoints, and all are damaged.
        """
        names = [path.name for path in self.folder.glob("step_*") if not path.name.endswith(PARTIAL)]
        candidates: list[str] = broadcast(sorted(names, reverse=True))
        for name in candidates:
            faults = [fault for found in gather(damaged_files(self.folder / name, rank(), world_size())) for fault in found]
            if not faults:
                return self.folder / name
            if rank() == 0:
                sys.stderr.write(f"pretrain: checkpoint {name} is damaged ({', '.join(faults[:3])}): an older one is taken\n")
        if candidates:
            raise TrainingError("every checkpoint is damaged", where=str(self.folder), fix="delete the run's journal and train again")
        return None

    def load(self, found: Path) -> dict[str, Any]:
        """Puts a checkpoint into the engine.

        Returns:
            Where the run stood, as given to `save`.
        """
        state = _read_json(found / STATE)
        barrier()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.engine.load_checkpoint(str(found), tag=found.name)
        return state

    def restore(self) -> dict[str, Any] | None:
        """Puts the newest whole checkpoint into the engine; None where there is none.

        One that other ranks made, or another ZeRO stage, is cut anew.

        Raises:
            TrainingError: It cannot be: it holds state in a form that is not known here.
        """
        self.wait()
        found = self.find()
        if found is None:
            return None
        state, here = _read_json(found / STATE), self._shape()
        made = {name: state[name] for name in here}
        if made == here:
            return self.load(found)
        if "parts" not in state:
            raise TrainingError("an older version made the checkpoint", where=str(found), fix="go on with the ranks that made it")
        parts = [[[Part.parse(row) for row in group] for group in groups] for groups in state["parts"]]
        barrier()
        reshard(self.engine, self.groups, found / found.name, made["zero_stage"], parts, self.parts)
        barrier()
        return state

    def _shape(self) -> dict[str, int]:
        """What DeepSpeed's files depend on."""
        stage = int(self.engine.zero_optimization_stage())
        return {"world_size": self.layout.world, "zero_stage": stage, "tensor": self.layout.tensor, "pipeline": self.layout.pipeline}


def step_name(step: int) -> str:
    """Name of a checkpoint's folder."""
    return f"step_{step:08d}"


def damaged_files(checkpoint: Path, part: int = 0, parts: int = 1) -> list[str]:
    """Files of a checkpoint that are missing or not as they were written.

    Args:
        checkpoint: Its folder.
        part: Which share of the files to look at, from 0.
        parts: Of how many.
    """
    files = _read_json(checkpoint / STATE).get("files")
    if not files:
        return [STATE]
    return [
        name
        for name, about in sorted(files.items())[part::parts]
        if not (checkpoint / name).is_file() or file_hash(checkpoint / name) != about["sha256"]
    ]


def _told(error: BaseException | None) -> TerraplaneError | None:
    """An error as every rank can raise it."""
    if error is None or isinstance(error, TerraplaneError):
        return error
    if isinstance(error, OSError):
        return of_system(error)
    # torch's writer has no OSError of its own for a disk that is full.
    return EnvironmentFault(
        f"a checkpoint could not be written: {type(error).__name__}: {error}",
        fix="make room, then run the same again: finished work is kept",
    )


def _write_json(path: Path, value: dict[str, Any]) -> None:
    """Replaces a file, through to disk."""
    partial = path.with_name(f"{path.name}{PARTIAL}")
    with partial.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=1, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)
    _sync(path.parent)


def _read_json(path: Path) -> dict[str, Any]:
    """A file's content; nothing where it is missing or damaged."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def _sync_folders(folder: Path) -> None:
    """Brings the names of a tree to disk; its files are there already."""
    for path in [*(path for path in folder.rglob("*") if path.is_dir()), folder]:
        _sync(path)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
