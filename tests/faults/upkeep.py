"""Kills what changes a lake as a whole, before each step it takes, and runs it again: compact, move, the tombstones of forget.

    python -m tests.faults.upkeep [--format parquet] [--job compact] [--every 3] --json

The project holds two versions of the tables. After a kill every current version has to be read whole, in the lake that settings.yaml
names, and so has every other that a manifest names; after the second run all is as if nothing had been killed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dataplane import tombstones
from dataplane.lineage.forget import Chosen, bury, choose
from dataplane.settings import LakeSettings
from dataplane.upkeep.move import move
from dataplane.upkeep.space import drop, unreferenced
from tests.faults import books
from tests.faults.corpus import change_corpus, make
from tests.faults.forked import Outcome, answer, preload, run_forked, run_stage
from tests.faults.trigger import Point

STAGES = ("ingest", "train_lm", "clean", "select")
CHANGED = ("raw", "documents", "selected")  # tables that a changed corpus changes
OTHER = {"lance": "parquet", "parquet": "lance"}
WHY = "asked for"


def forget_one() -> None:
    """Sets the tombstone of the first Chinese document."""
    bury(choose(Chosen(match="source = 'zh' AND uri LIKE '%/1.txt'")), WHY)


JOBS: dict[str, Callable[[str], Any]] = {
    "compact": lambda form: drop(unreferenced()),
    "move": lambda form: move(LakeSettings.parse({"format": OTHER[form]}, where="lake")),
    "forget": lambda form: forget_one(),
}


@dataclass(frozen=True)
class State:
    """What a project holds.

    Attributes:
        current: Table -> digest that its snapshot file names.
        versions: Table -> digests that its manifests name.
        forgotten: Tombstones, as (doc_id, why).
        settings: Text of settings.yaml.
    """

    current: dict[str, str]
    versions: dict[str, list[str]]
    forgotten: list[list[str]]
    settings: str


@dataclass
class Killed:
    """A run that was killed before a step, and what was wrong then and after the run that followed."""

    job: str
    step: int
    what: str
    faults: list[str] = field(default_factory=list)


def state(root: Path) -> State:
    """What the project holds now."""
    buried = [[stone.doc_id, stone.why] for stone in tombstones.read(root)]
    return State(books.digests(root), books.versions(root), buried, (root / "settings.yaml").read_text())


def told(root: Path) -> State:
    """The same from a child, since this process has to open nothing."""
    return State(**answer(lambda: asdict(state(root))))


class Harness:
    """A project with a past, and what happens to it.

    Args:
        folder: Where to work.
        form: Format of the tables.
    """

    def __init__(self, folder: Path, form: str) -> None:
        self.folder, self.form, self.base = folder, form, folder / "base"
        make(self.base)
        shutil.copy(Path(__file__).parents[2] / "dvc.yaml", self.base)  # tells which stage writes a table
        (self.base / "settings.yaml").write_text(f"lake: {{format: {form}}}\n")
        for change in (lambda root: None, change_corpus):
            change(self.base)
            for stage in STAGES:
                self._ended(run_stage(self.base, stage, Point(), self._notes()))
        self.before = told(self.base)
        if any(len(self.before.versions[table]) != 2 for table in CHANGED):
            raise RuntimeError(f"two versions are wanted: {self.before.versions}")

    def kills(self, job: str, every: int) -> Iterator[Killed]:
        """One kill before each step of the job, or each so-manieth."""
        root = self._copy()
        steps = self._ended(self._run(root, job, Point())).steps
        wanted = told(root)
        if wanted == self.before or not steps:
            raise RuntimeError(f"{job} does nothing")
        for step in range(1, len(steps) + 1, every):
            yield self._kill(job, step, steps[step - 1], wanted)

    def _kill(self, job: str, step: int, what: str, wanted: State) -> Killed:
        root, found = self._copy(), Killed(job, step, what)
        if not self._run(root, job, Point("step", step)).killed:
            found.faults.append("it was not killed")
        found.faults += answer(lambda: self._faults_now(root))
        again = self._run(root, job, Point("rerun"))
        if again.code or again.killed:
            found.faults.append(f"second run: exit code {again.code}: {again.log}")
        else:
            found.faults += answer(lambda: _faults_at_the_end(root, wanted))
        return found

    def _faults_now(self, root: Path) -> list[str]:
        now = state(root)
        changed = [f"{table} shows {digest}" for table, digest in now.current.items() if digest != self.before.current.get(table)]
        gone = [f"{table} is gone" for table in self.before.current if table not in now.current]
        return (
            changed
            + gone
            + books.unreadable(root, {t: [digest] for t, digest in now.current.items()})
            + books.unreadable(root, now.versions)
        )

    def _run(self, root: Path, job: str, point: Point) -> Outcome:
        return run_forked(root, lambda: JOBS[job](self.form), point, self._notes())

    def _copy(self) -> Path:
        root = self.folder / "trial"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.base, root)
        return root

    def _notes(self) -> Path:
        notes = self.folder / "notes"
        shutil.rmtree(notes, ignore_errors=True)
        notes.mkdir()
        return notes

    def _ended(self, outcome: Outcome) -> Outcome:
        if outcome.code or outcome.killed:
            raise RuntimeError(f"failed undisturbed:\n{outcome.log}")
        return outcome


def _faults_at_the_end(root: Path, wanted: State) -> list[str]:
    now = state(root)
    differs = [f"{name} is {value}" for name, value in asdict(now).items() if value != asdict(wanted)[name]]
    return differs + books.unreadable(root, now.versions) + books.orphans(root)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=list(OTHER), default="lance", help="of the tables")
    parser.add_argument("--job", action="append", choices=list(JOBS), help="only this one; may be given several times")
    parser.add_argument("--every", type=int, default=1, help="kill before each step with this distance")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each kill, and one for all")
    options = parser.parse_args()
    preload(STAGES)
    kills: list[Killed] = []
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder), options.format)
        for job in options.job or JOBS:
            for kill in harness.kills(job, options.every):
                kills.append(kill)
                if options.json or kill.faults:
                    print(json.dumps(asdict(kill)), flush=True)
    result = {"kills": len(kills), "not_ok": sum(bool(kill.faults) for kill in kills)}
    print(json.dumps(result))
    return 1 if result["not_ok"] or not kills else 0


if __name__ == "__main__":
    sys.exit(main())
