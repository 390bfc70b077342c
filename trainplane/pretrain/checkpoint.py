"""Checkpoints that a killed run resumes from: everything or nothing.

A checkpoint is written beside its place and renamed into it; the file `latest` is replaced last. A kill at any point leaves
the previous one whole.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

LATEST = "latest.json"


def save(folder: Path, engine: Any, step: int, head: str, keep: int = 2) -> None:
    """Writes a checkpoint: weights, optimizer, random state, step, and the ledger's head.

    Args:
        folder: Of the run's checkpoints.
        engine: DeepSpeed's.
        step: Finished steps.
        head: Chain hash of the ledger at that step.
        keep: How many stay, this one included.
    """
    import torch

    name = f"step_{step:08d}"
    partial = folder / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    state = {"step": step, "head": head, "torch_rng": torch.get_rng_state().tolist()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine.save_checkpoint(str(partial), tag=name, client_state={}, save_latest=False)
    (partial / "state.json").write_text(json.dumps(state), encoding="utf-8")
    _sync(partial)
    final = folder / name
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    pointer = folder / f"{LATEST}.partial"
    pointer.write_text(json.dumps({"name": name}), encoding="utf-8")
    _sync(folder)
    pointer.replace(folder / LATEST)
    for old in sorted(folder.glob("step_*"))[:-keep]:
        shutil.rmtree(old)


def load(folder: Path, engine: Any) -> tuple[int, str] | None:
    """Puts the last checkpoint into the engine; returns its step and ledger head, None where there is none."""
    import torch

    pointer = folder / LATEST
    if not pointer.exists():
        return None
    name = json.loads(pointer.read_text(encoding="utf-8"))["name"]
    state = json.loads((folder / name / "state.json").read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine.load_checkpoint(str(folder / name), tag=name)
    torch.set_rng_state(torch.tensor(state["torch_rng"], dtype=torch.uint8))
    return int(state["step"]), str(state["head"])


def _sync(folder: Path) -> None:
    """Brings a folder's files to disk before a rename makes them count."""
    for path in [*folder.rglob("*"), folder]:
        if path.is_file() or path.is_dir():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
