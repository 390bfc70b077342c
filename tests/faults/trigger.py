"""What a stage runs under in the kill harness: each step that touches the project's files is noted, and one of them may be the last.

Steps are what Python's audit hook sees (opening for writing, renaming, removing, making folders), every fsync, and the
begin and end of Lance's own writes. They are counted before they happen.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

AUDITED = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.utime", "os.truncate", "shutil.rmtree"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ARM = "TERRAPLANE_FAULT_WORKER"  # environment of a worker: where to note its steps, and which of them is its last


@dataclass(frozen=True)
class Point:
    """Where a run ends.

    Attributes:
        kind: `step`: just before a step; `after`: some time after it; `time`: some time after the start; `parent`: the same, but
            its workers live on for a moment; `worker`: before a step of one worker, which dies alone; `none`, `rerun`: never.
        step: Number of the step, from 1.
        seconds: The time.
        workers: Processes that the stage runs with.
    """

    kind: str = "none"
    step: int = 0
    seconds: float = 0.0
    workers: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Trigger:
    """Notes steps in a file, and ends its process at one of them.

    Args:
        log: The file.
        step: The last step; 0 for none.
        seconds: How long after that step. 0 kills the whole process group before the step.
        alone: Whether only this process dies.
    """

    def __init__(self, log: Path, step: int, seconds: float = 0.0, alone: bool = False) -> None:
        self._root = f"{Path.cwd()}{os.sep}"
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._step, self._seconds, self._alone, self._count = step, seconds, alone, 0

    def install(self) -> None:
        """From now on."""
        sys.addaudithook(self._audit)
        os.fsync = self._around(os.fsync, "fsync", ends=False)  # type: ignore[assignment]
        import lance
        import lance.fragment

        lance.LanceDataset.commit = staticmethod(self._around(lance.LanceDataset.commit, "lance commit"))
        lance.fragment.write_fragments = self._around(lance.fragment.write_fragments, "lance write")
        tags = sys.modules["lance.dataset"].Tags  # the name lance.dataset is that of a function
        for name in ("create", "update"):
            setattr(tags, name, self._around(getattr(tags, name), "lance tag"))

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            writes = (isinstance(args[1], str) and set(args[1]) & set("wax+")) or (args[2] or 0) & WRITING
            if writes:
                self._note("open", args[0])
        elif event in AUDITED:
            self._note(event, args[1] if event == "os.rename" else args[0])

    def _note(self, what: str, path: Any) -> None:
        if isinstance(path, int):
            return
        full = os.path.abspath(os.fsdecode(path))
        if full.startswith(self._root):
            self._passed(f"{what} {full.removeprefix(self._root)}")

    def _around(self, function: Callable[..., Any], name: str, ends: bool = True) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            self._passed(f"{name} begins" if ends else name)
            result = function(*args, **kwargs)
            if ends:
                self._passed(f"{name} ends")
            return result

        return noted

    def _passed(self, what: str) -> None:
        os.write(self._log, f"{what}\n".encode())
        self._count += 1
        if self._count != self._step:
            return
        if self._seconds:
            # The kernel ends the process as at once as SIGKILL would: no handler, no clean-up, not even the GIL is waited for.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
        elif self._alone:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            os.killpg(0, signal.SIGKILL)


def start_worker(task: Any, parent: int) -> None:
    """The engine's own start of a worker, under a trigger where this is the first that came."""
    from dataplane.engine import local

    local._start(task, parent)
    log, step = os.environ[ARM].rsplit(":", 1)
    try:
        os.close(os.open(log, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    Trigger(Path(log), int(step), alone=True).install()
