"""Kills a pretraining run with `kill -9`, again and again, and holds what it comes to against a run that nobody disturbed.

    python -m tests.faults.resume --count 50 --json

The run has two ranks (gloo), two micro-batches a step, shuffled epochs of 2.5 steps, dropout, and checkpoints that are written in the
background. It is killed at a random moment, resumed and killed again, up to three times. After each kill a copy of what is left is gone on
with to the end in peace: its weights (fp32) and ledger must be equal bit for bit. Half of the kills end all ranks at once; half end one,
and the other must end by itself. (While ranks still look for each other, ending the rest is the launcher's part: there all are killed.)
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.faults import small_training
from tests.faults.small_training import RANKS, Run

MAX_KILLS = 3  # of one run
SHARE_IN_START = 0.1  # of the kills; the others fall among the steps, where more can go wrong
END_SECONDS = 60.0  # in which a rank ends once it is alone


@dataclass
class Trial:
    """One run that was killed.

    Attributes:
        kills: For each: the ranks that were killed, when, after how many steps in the ledger, and whether what it left came to the end
            exactly.
        faults: What was wrong.
    """

    kills: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def trials(folder: Path, count: int, seed: int) -> Iterator[Trial]:
    """Kills that many times."""
    rng = random.Random(seed)
    expected, starting = _undisturbed(folder / "undisturbed")
    if _undisturbed(folder / "again")[0] != expected:
        raise RuntimeError("two undisturbed runs differ")
    done = 0
    while done < count:
        trial = _trial(folder / "trial", rng, starting, min(MAX_KILLS, count - done), expected)
        done += len(trial.kills)
        if trial.kills:
            yield trial


def _undisturbed(folder: Path) -> tuple[dict[str, Any], tuple[float, float]]:
    """What a run comes to, with the seconds of its start and of its steps."""
    run = small_training.start(folder)
    began = time.monotonic()
    while run.alive() and not _stepping(folder):
        time.sleep(0.001)
    started = time.monotonic()
    if any(run.wait()):
        raise RuntimeError(run.said())
    return small_training.result(folder), (started - began, time.monotonic() - started)


def _trial(folder: Path, rng: random.Random, seconds: tuple[float, float], most: int, expected: dict[str, Any]) -> Trial:
    """A run that is killed and resumed, and killed again; what each kill leaves is compared.

    Args:
        folder: Of the run.
        rng: Says when.
        seconds: How long it takes to start, and to train.
        most: How often it may be killed.
        expected: What it has to come to.
    """
    shutil.rmtree(folder, ignore_errors=True)
    trial = Trial()
    for _ in range(rng.randint(1, most)):
        for path in folder.glob("started_*"):
            path.unlink()
        run = small_training.start(folder)
        in_start = rng.random() < SHARE_IN_START
        ranks = list(range(RANKS)) if in_start or rng.random() < 0.5 else [rng.randrange(RANKS)]
        at = rng.uniform(0, seconds[0] if in_start else seconds[1])
        if not _killed(run, folder, in_start, ranks, at, trial):
            break
        found = {"steps": _steps(folder), "checkpoints": _checkpoints(folder)}
        faults = _faults_of_resume(folder, expected)
        trial.kills.append({"ranks": ranks, "in_start": in_start, "seconds": round(at, 3), **found, "exact": not faults})
        trial.faults += faults
    return trial


def _faults_of_resume(folder: Path, expected: dict[str, Any]) -> list[str]:
    """Goes on with a copy of what a kill left; what came out otherwise."""
    left = folder.with_name("resumed")
    shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(folder, left)
    try:
        found = small_training.finish(left)
    except RuntimeError as error:
        return [str(error)]
    return [f"{name} differs" for name in expected if found[name] != expected[name]]


def _killed(run: Run, folder: Path, in_start: bool, ranks: list[int], seconds: float, trial: Trial) -> bool:
    """Waits, some seconds after the start or the first step, and kills; False where the run had ended before."""
    while not in_start and run.alive() and not _stepping(folder):
        time.sleep(0.001)
    end = time.monotonic() + seconds
    while time.monotonic() < end and run.alive():
        time.sleep(0.001)
    if not run.alive():
        run.wait()
        return False
    run.kill(ranks)
    end = time.monotonic() + END_SECONDS
    while run.alive() and time.monotonic() < end:
        time.sleep(0.002)
    if run.alive():
        trial.faults.append("a rank lives on without the others")
        run.kill(list(range(RANKS)))
    run.wait()
    return True


def _stepping(folder: Path) -> bool:
    """Whether every rank is past its start."""
    return all((folder / f"started_{number}").exists() for number in range(RANKS))


def _steps(folder: Path) -> int:
    ledger = folder / "ledger.jsonl"
    return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


def _checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step_*"))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="how many kills")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each run that was killed, and one for all")
    options = parser.parse_args()
    began, found = time.monotonic(), []
    small_training.preload()
    with tempfile.TemporaryDirectory() as folder:
        for trial in trials(Path(folder), options.count, options.seed):
            found.append(trial)
            if options.json or trial.faults:
                print(json.dumps(asdict(trial)), flush=True)
    kills = [kill for trial in found for kill in trial.kills]
    total = {
        "kills": len(kills), "runs": len(found), "exact": sum(kill["exact"] for kill in kills),
        "alone": sum(len(kill["ranks"]) < RANKS for kill in kills), "while_saving": sum(_saving(kill) for kill in kills),
        "steps_hit": sorted({kill["steps"] for kill in kills}), "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip
    print(json.dumps(total) if options.json else "\n".join(f"{name}: {value}" for name, value in total.items()))
    return 1 if any(trial.faults for trial in found) else 0


def _saving(kill: dict[str, Any]) -> bool:
    return any(name.endswith(".partial") for name in kill["checkpoints"])


if __name__ == "__main__":
    sys.exit(main())
