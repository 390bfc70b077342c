"""Runs stages and questions in forked children of a process that has imported everything and opened nothing."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.faults import trigger
from tests.faults.trigger import ARM, Point, Trigger

# What the stages load when they first work, and what the operators of `clean` do, which takes longer than all the rest.
HEAVY = (
    "chardet",
    "duckdb",
    "fsspec.implementations.local",
    "lance",
    "lance.fragment",
    "numba",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "tokenizers",
)
HEAVY_OF_CLEAN = ("ftfy", "lxml.html", "phonenumbers", "presidio_analyzer", "resiliparse.extract.html2text", "resiliparse.parse.html")
# Small units, so that a small corpus has many of them: a kill finds some done and some not.
UNIT_SIZES = {
    "dataplane.stages.ingest": {"UNIT_BYTES": 3000},
    "dataplane.stages.clean": {"UNIT_ROWS": 16},
    "dataplane.stages.select": {"UNIT_ROWS": 32},
    "dataplane.engine.documents": {"UNIT_ROWS": 16},
}
HUNG_SECONDS = 300
BROKEN = 70  # exit code of a child that failed in a way nobody foresaw
POLL_SECONDS = 0.0005


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        killed: Whether a signal ended it.
        code: Its exit code otherwise.
        seconds: How long it took.
        steps: What it did, in order.
        log: What it printed.
        group: Its process group.
    """

    killed: bool
    code: int
    seconds: float
    steps: list[str]
    log: str
    group: int


def preload(stages: Sequence[str]) -> None:
    """Imports what these stages need. Nothing may be opened here: Lance and Arrow start threads, which a fork does not take along."""
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    heavy = (*HEAVY, *(HEAVY_OF_CLEAN if "clean" in stages else ()))
    for name in (*heavy, *UNIT_SIZES, *(f"dataplane.stages.{stage}" for stage in stages)):
        importlib.import_module(name)
    for name, sizes in UNIT_SIZES.items():
        for constant, value in sizes.items():
            setattr(sys.modules[name], constant, value)


def run_stage(root: Path, stage: str, point: Point, notes: Path) -> Outcome:
    """Runs a stage in a process group of its own, until its end or its point; arguments as `run_forked`."""
    module = sys.modules[f"dataplane.stages.{stage}"]
    return run_forked(root, lambda: module.stage_main(module.main), point, notes)


def run_forked(root: Path, work: Callable[[], Any], point: Point, notes: Path) -> Outcome:
    """Does the work in a process group of its own, until its end or its point.

    Args:
        root: The project; its folder is the current one.
        work: What to do.
        point: Where it is killed.
        notes: An empty folder for what is noted, outside the project.
    """
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _be_child(lambda: _under(root, work, point, notes), notes / "log")
    status = _wait(pid, point)
    seconds = time.monotonic() - started
    if point.kind != "parent":
        _kill_group(pid)
    steps = (notes / "steps").read_text().splitlines() if (notes / "steps").exists() else []
    killed = os.WIFSIGNALED(status)
    return Outcome(killed, 0 if killed else os.WEXITSTATUS(status), seconds, steps, (notes / "log").read_text(), pid)


def wait_for_group(group: int) -> None:
    """Returns when no process of the group is left: workers see within a second that their parent is gone."""
    deadline = time.monotonic() + HUNG_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise TimeoutError(f"workers of {group} live on")


def _under(root: Path, work: Callable[[], Any], point: Point, notes: Path) -> None:
    from dataplane.engine import local

    os.chdir(root)
    os.environ["TERRAPLANE_WORKERS"] = str(point.workers)
    if point.kind == "worker":
        os.environ[ARM] = f"{notes / 'worker'}:{point.step}"
        local._start = trigger.start_worker
    step = point.step if point.kind in ("step", "after") else 0
    Trigger(notes / "steps", step, point.seconds).install()
    work()


def _be_child(work: Callable[[], Any], log: Path) -> NoReturn:
    """Does the work with its output in a file, and ends without what a parent would have to tidy up."""
    code = 0
    try:
        os.setsid()
        out = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(out, 1)
        os.dup2(out, 2)
        work()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - whatever it is, a child must not go on as its parent
        traceback.print_exc()
        code = BROKEN
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, point: Point) -> int:
    timed = point.kind in ("time", "parent")
    deadline = time.monotonic() + (point.seconds if timed else HUNG_SECONDS)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        if time.monotonic() >= deadline:
            os.kill(pid, signal.SIGKILL) if point.kind == "parent" else _kill_group(pid)
            return os.waitpid(pid, 0)[1]
        time.sleep(POLL_SECONDS)


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def answer(question: Callable[[], Any]) -> Any:
    """What the question gives in a child, as JSON brings it back.

    Raises:
        RuntimeError: The child failed; the message is its traceback.
    """
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result", Path(folder) / "log"
        pid = os.fork()
        if pid == 0:
            _be_child(lambda: result.write_text(json.dumps(question())) and None, log)
        if _wait(pid, Point()):
            raise RuntimeError(log.read_text())
        return json.loads(result.read_text())
