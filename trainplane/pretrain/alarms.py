"""Heartbeat, stalls and stragglers: a run that hangs says so, and where.

`heartbeat.json` tells when which step ended; `alarms.jsonl` what was out of the ordinary. Both lie in the run's folder, and an alarm is on
stderr as well. No alarm changes anything about the training.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import threading
import time
from collections import deque
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

from dataplane.settings import TrainingSettings
from trainplane.pretrain.ranks import rank

HEARTBEAT, ALARMS = "heartbeat.json", "alarms.jsonl"
KNOWN_STEPS = 64
MIN_STEPS = 8  # before anything is usual
LOOKS_PER_LIMIT = 20


class Alarms:
    """Watches the steps of this rank from a thread, while the context is open.

    Args:
        folder: Of the run.
        settings: When a step is a stall, and a rank a straggler.
    """

    def __init__(self, folder: Path, settings: TrainingSettings) -> None:
        self.folder, self.settings = folder, settings
        self._taken: deque[float] = deque(maxlen=KNOWN_STEPS)
        self._last, self._step, self._told = time.monotonic(), 0, False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="alarms", daemon=True)

    def __enter__(self) -> Self:
        self._last = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join()

    def beat(self, step: int, seconds: list[float]) -> None:
        """A step has ended.

        Args:
            step: Its number.
            seconds: How long it took on each rank.
        """
        self._taken.append(max(seconds))
        self._last, self._step, self._told = time.monotonic(), step, False
        if rank() != 0:
            return
        usual = median(seconds)
        for number, taken in enumerate(seconds):
            if len(seconds) > 1 and taken > self.settings.alarm_factor * usual:
                self._alarm("straggler", step, rank=number, seconds=taken, usual=usual)
        partial = self.folder / f"{HEARTBEAT}.partial"
        partial.write_text(json.dumps({"step": step, "at": time.time(), "seconds": seconds}), encoding="utf-8")
        partial.replace(self.folder / HEARTBEAT)

    def limit(self) -> float:
        """Seconds without a step that are a stall."""
        usual = median(self._taken) if len(self._taken) >= MIN_STEPS else 0.0
        return max(self.settings.stall_seconds, self.settings.alarm_factor * usual)

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, self.settings.stall_seconds / LOOKS_PER_LIMIT)):
            silent = time.monotonic() - self._last
            if silent > self.limit() and not self._told:
                self._told = True
                self._alarm("stall", self._step + 1, rank=rank(), seconds=silent, usual=self.limit())
                faulthandler.dump_traceback(sys.stderr, all_threads=True)

    def _alarm(self, kind: str, step: int, **known: Any) -> None:
        with (self.folder / ALARMS).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"alarm": kind, "step": step, "at": time.time(), **known}) + "\n")
        sys.stderr.write(f"pretrain: {kind} at step {step}, rank {known['rank']}: {known['seconds']:.1f} s\n")
