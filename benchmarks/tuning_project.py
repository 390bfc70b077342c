"""A project that begins at a model instead of training one, which the benchmarks of fine-tuning and of PPO run under `dvc repro`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
IGNORED = "/models/\n/metrics/\n/plots/\n/journal/\n/lake/\n"


def options(description: str | None) -> argparse.ArgumentParser:
    """What both take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", type=Path, help="Folder of a model with a chat template and a run.json; needed without --quick.")
    parser.add_argument("--quick", action="store_true", help="Few steps; without --model a tiny one with random weights.")
    parser.add_argument("--keep", type=Path, help="Folder for the project, which then stays.")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, which name a model unless they ask for the quick form."""
    given = parser.parse_args()
    if not (given.quick or given.model):
        parser.error("give --model FOLDER, or --quick")
    return given


def begin(root: Path, model: Path, stage: str) -> Path:
    """Puts a model in the place of a stage's; the folder, to which files may be added."""
    base = root / "models" / stage
    base.mkdir(parents=True)
    for path in model.iterdir():
        (base / path.name).symlink_to(path.resolve())
    return base


def write(root: Path, params: Mapping[str, Any], stages: Mapping[str, Any]) -> None:
    """Params, stages and lock, under Git and DVC."""
    from dataplane import lockfile
    from dataplane.stage_graph import dump

    (root / "params.yaml").write_text(dump(dict(params)), encoding="utf-8")
    (root / "dvc.yaml").write_text(dump({"stages": dict(stages)}), encoding="utf-8")
    lockfile.write(root)
    (root / ".gitignore").write_text(IGNORED, encoding="utf-8")
    for command in (["git", "init", "--quiet"], [sys.executable, "-m", "dvc", "init", "--quiet"]):
        subprocess.run(command, cwd=root, check=True, capture_output=True)


def repro(root: Path) -> float:
    """Runs the pipeline; the seconds it took."""
    started = time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", "dvc", "repro"], cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-4000:])
    return time.perf_counter() - started


def metrics(root: Path, stage: str) -> dict[str, Any]:
    """What a stage says of itself."""
    found: dict[str, Any] = json.loads((root / "metrics" / f"{stage}.json").read_text(encoding="utf-8"))
    return found


def row(name: str, ours: float, before: float, unit: str) -> dict[str, Any]:
    """One line of the result, beside the model before."""
    return {
        "name": name, "ours": ours, "peer": before, "peer_name": "the model before", "peer_version": "", "ratio": ours / before,
        "unit": unit,
    }  # fmt: skip
