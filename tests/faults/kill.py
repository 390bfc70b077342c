"""Kills the data stages with `kill -9`, again and again, and holds what is left against runs that nobody disturbed.

    python -m tests.faults.kill --count 200 --json

A stage is forked from a process that has imported everything, so that a kill falls into the stage's own life and not into
the start of Python. Half of the kills hit a project without earlier versions, half one whose input has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults import books
from tests.faults.corpus import STAGES, WRITES, change_corpus, make
from tests.faults.forked import Outcome, answer, preload, run_stage, wait_for_group
from tests.faults.trigger import Point

MAX_AFTER_SECONDS = 0.02
KINDS = {"step": 45, "after": 25, "time": 20, "parent": 5, "worker": 5}  # out of 100
UNDISTURBED = Point()
SECOND_KILL_SHARE = 0.2  # of the runs that follow a kill
POOLED = ("ingest", "select", "dedup", "decontaminate", "tokenize")  # stages whose workers start fast
WORKER_STEPS = 6


@dataclass(frozen=True)
class Base:
    """A project as it is just before a stage runs, and how that run goes undisturbed.

    Attributes:
        folder: The project; each kill gets a copy.
        versions: Table -> digests of the versions that are there.
        current: Table -> digest of the snapshot file.
        steps: How many steps the run has.
        seconds: How long it takes, by the number of workers.
        after: Table -> digest once the stage is done, and file -> hash of what else it writes.
    """

    folder: Path
    versions: dict[str, list[str]]
    current: dict[str, str]
    steps: int
    seconds: dict[int, float]
    after: dict[str, str]


@dataclass
class Kill:
    """One kill, and what was found after it and after the run that followed."""

    stage: str
    history: str
    point: Point
    running: str
    faults: dict[str, list[str]] = field(default_factory=dict)
    lost: int = 0
    doubled: int = 0

    @property
    def ok(self) -> bool:
        return not (any(self.faults.values()) or self.lost or self.doubled)

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage, "history": self.history, **self.point.to_json(), "running": self.running, "ok": self.ok,
            "lost": self.lost, "doubled": self.doubled, "faults": {name: found for name, found in self.faults.items() if found},
        }  # fmt: skip


class Harness:
    """Prepares the projects, and kills.

    Args:
        folder: Where to work.
        seed: Of the points.
        stages: Which stages to kill.
        form: Format of the tables.
    """

    def __init__(self, folder: Path, seed: int, stages: Sequence[str], form: str) -> None:
        self.folder, self.stages, self.rng, self.form = folder, list(stages), random.Random(seed), form
        self.bases: dict[tuple[str, str], Base] = {}

    def prepare(self) -> None:
        """Runs all that is needed undisturbed: the corpus, the changed corpus on top of it, and the changed corpus alone."""
        first, alone = self._project("first"), self._project("alone")
        stages = up_to(self.stages)
        wanted = {stage: self._undisturbed(first, stage, "new") for stage in stages}
        change_corpus(alone)
        wanted_changed = {stage: self._undisturbed(alone, stage, "") for stage in stages}
        change_corpus(first)
        grown = {stage: self._undisturbed(first, stage, "grown") for stage in stages}
        if grown != wanted_changed or grown == wanted:
            raise RuntimeError("undisturbed runs differ: a changed input, processed on top of the old one, is not what it is alone")

    def _project(self, name: str) -> Path:
        root = make(self.folder / name)
        (root / "settings.yaml").write_text(f"lake: {{format: {self.form}}}\n")
        return root

    def _run(self, root: Path, stage: str, point: Point = UNDISTURBED) -> Outcome:
        notes = self.folder / "notes"
        shutil.rmtree(notes, ignore_errors=True)
        notes.mkdir()
        outcome = run_stage(root, stage, point, notes)
        if point.kind == "none" and (outcome.code or outcome.killed):
            raise RuntimeError(f"{stage} failed undisturbed:\n{outcome.log}")
        return outcome

    def _undisturbed(self, root: Path, stage: str, history: str) -> dict[str, str]:
        """Runs the stage, and keeps the project as it was before, unless `history` has no name."""
        folder = self.folder / f"{history}_{stage}"
        kept = history and stage in self.stages
        if kept:
            shutil.copytree(root, folder)
        outcome = self._run(root, stage)
        after = _after(root, stage)
        if kept:
            versions, current = answer(lambda: [books.versions(folder), books.digests(folder)])
            self.bases[stage, history] = Base(folder, versions, current, len(outcome.steps), {1: outcome.seconds}, after)
        return after

    def kills(self, count: int) -> Iterator[Kill]:
        """Kills that many times, each stage in turn."""
        done = 0
        for (stage, history), base in itertools.cycle(self.bases.items()):
            for kill in self._trial(stage, history, base, count - done):
                done += 1
                yield kill
            if done >= count:
                return

    def _trial(self, stage: str, history: str, base: Base, most: int) -> list[Kill]:
        """A run that is killed, perhaps twice, and then left in peace; no kill where its point lay behind its end."""
        root = self.folder / "trial"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(base.folder, root)
        kills: list[Kill] = []
        outcome = None
        while outcome is None or (outcome.killed and len(kills) < most and self.rng.random() < SECOND_KILL_SHARE):
            point = self._point(stage, base)
            outcome = self._run(root, stage, point)
            running = self._last_step(outcome, point)
            if outcome.killed or (point.kind == "worker" and running):
                faults = answer(lambda: _faults_now(root, base)) if outcome.killed else {}
                kills.append(Kill(stage, history, point, running, faults))
        if kills:
            self._settle(root, stage, base, kills[-1], outcome)
        return kills

    def _settle(self, root: Path, stage: str, base: Base, kill: Kill, killed: Outcome) -> None:
        """Runs the stage to its end, and adds what is wrong then to the last kill."""
        again = self._run(root, stage, Point("rerun"))
        if kill.point.kind == "parent":
            # Its workers wrote beside the run that followed; what they left goes with the next.
            wait_for_group(killed.group)
            again = self._run(root, stage, Point("rerun"))
        if again.code or again.killed:
            kill.faults["rerun"] = [f"exit code {again.code}", again.log]
        else:
            kill.faults |= answer(lambda: _faults_at_the_end(root, stage, base))
            kill.lost, kill.doubled = answer(lambda: books.misplaced(root, stage))

    def _point(self, stage: str, base: Base) -> Point:
        kind = self.rng.choices(list(KINDS), list(KINDS.values()))[0]
        if kind in ("parent", "worker") and stage not in POOLED:
            kind = "time"
        if kind == "step":
            return Point(kind, self.rng.randint(1, base.steps))
        if kind == "after":
            return Point(kind, self.rng.randint(1, base.steps), self.rng.uniform(0, MAX_AFTER_SECONDS))
        if kind == "worker":
            return Point(kind, self.rng.randint(1, WORKER_STEPS), workers=2)
        workers = 2 if kind == "parent" else 1
        return Point(kind, 0, self.rng.uniform(0, self._seconds(stage, base, workers)), workers)

    def _seconds(self, stage: str, base: Base, workers: int) -> float:
        """How long the stage takes with so many workers; measured when it is first asked for."""
        if workers not in base.seconds:
            root = self.folder / "timed"
            shutil.copytree(base.folder, root)
            base.seconds[workers] = self._run(root, stage, Point("none", workers=workers)).seconds
            shutil.rmtree(root)
        return base.seconds[workers]

    def _last_step(self, outcome: Outcome, point: Point) -> str:
        if point.kind != "worker":
            return outcome.steps[-1] if outcome.steps else ""
        notes = self.folder / "notes" / "worker"
        steps = notes.read_text().splitlines() if notes.exists() else []
        return steps[-1] if len(steps) == point.step else ""


def up_to(stages: Sequence[str]) -> list[str]:
    """These stages and all before them."""
    return STAGES[: 1 + max(STAGES.index(stage) for stage in stages)]


def _after(root: Path, stage: str) -> dict[str, str]:
    """What a stage leaves that has to be equal for equal runs: digests of tables, hashes of models and metrics."""
    metrics = root / "metrics" / f"{stage}.json"
    found = books.digests(root)
    tables = {table: found[table] for table in WRITES[stage]}
    return tables | books.models(root, stage) | {metrics.name: hashlib.sha256(metrics.read_bytes()).hexdigest()}


def _faults_now(root: Path, base: Base) -> dict[str, list[str]]:
    """What a kill broke: earlier versions, or tables that show neither the old content nor the new."""
    current = books.digests(root)
    torn = [
        f"{table}: {digest} is neither the old nor the new"
        for table, digest in current.items()
        if digest not in (base.current.get(table), base.after.get(table))
    ]
    missing = [f"{table}: the snapshot file is gone" for table in base.current if table not in current]
    shown = {table: [digest] for table, digest in current.items()}
    return {"torn": torn + missing, "unreadable": books.unreadable(root, base.versions) + books.unreadable(root, shown)}


def _faults_at_the_end(root: Path, stage: str, base: Base) -> dict[str, list[str]]:
    """What is wrong once the stage has run to its end."""
    after = _after(root, stage)
    wrong = [f"{name}: {digest}" for name, digest in after.items() if digest != base.after.get(name)]
    left = books.versions(root)
    gone = [f"{table} {digest} is gone" for table, of in base.versions.items() for digest in of if digest not in left[table]]
    return {"wrong": wrong, "gone": gone, "unreadable at the end": books.unreadable(root, left), "orphans": books.orphans(root)}


def summary(kills: Sequence[Kill], seconds: float) -> dict[str, Any]:
    """All kills in one line."""
    found = Counter(name for kill in kills for name, faults in kill.faults.items() if faults)
    return {
        "kills": len(kills), "lost": sum(kill.lost for kill in kills), "doubled": sum(kill.doubled for kill in kills),
        "wrong_digests": found["wrong"], "faults": dict(found), "not_ok": sum(not kill.ok for kill in kills), "seconds": round(seconds, 1),
        "by_kind": dict(Counter(kill.point.kind for kill in kills)), "by_stage": dict(Counter(kill.stage for kill in kills)),
        "steps_hit": len({(kill.stage, kill.running) for kill in kills}),
    }  # fmt: skip


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many kills")
    parser.add_argument("--seed", type=int, default=1, help="of the points")
    parser.add_argument("--stage", action="append", choices=STAGES, help="only this stage; may be given several times")
    parser.add_argument("--format", choices=["lance", "parquet"], default="lance", help="of the tables")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each kill, and one for all")
    options = parser.parse_args()
    started, kills, stages = time.monotonic(), [], options.stage or STAGES
    preload(up_to(stages))
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder), options.seed, stages, options.format)
        harness.prepare()
        for kill in harness.kills(options.count):
            kills.append(kill)
            if options.json or not kill.ok:
                print(json.dumps(kill.to_json()), flush=True)
    result = summary(kills, time.monotonic() - started)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 1 if result["not_ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
