"""The engine on one machine: units are worked on in processes, and workers that die are replaced."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from dataplane.engine.mapping import Task
from dataplane.engine.units import Unit
from dataplane.errors import EnvironmentFault

MAX_LOST_WORKERS = 3
PARENT_POLL_SECONDS = 0.5


def run(task: Task, units: Sequence[Unit], todo: list[int], workers: int) -> Iterator[tuple[int, Any]]:
    """Works on the units at the places `todo`: a `mapping.Runner`, but for the number of workers.

    Args:
        task: What to do with a unit's work.
        units: All units.
        todo: Places of those that are to be done.
        workers: Processes; with 1 the work is done in this process.

    Yields:
        (place, result), in the order in which they finish.

    Raises:
        EnvironmentFault: Workers kept dying (out of memory, most likely).
    """
    if workers == 1 or len(todo) <= 1:
        for i in todo:
            yield i, task(units[i].work)
        return
    lost = 0
    while todo:
        finished: set[int] = set()
        try:
            for i, result in _pool(task, units, todo, workers):
                finished.add(i)
                yield i, result
        except BrokenProcessPool:
            lost += 1
            if lost > MAX_LOST_WORKERS:
                raise EnvironmentFault(
                    f"worker processes died {lost} times; unfinished units: {[i for i in todo if i not in finished][:5]}",
                    fix="look for an out-of-memory kill in the system log; lower `workers` in settings.yaml, then run again",
                ) from None
        todo = [i for i in todo if i not in finished]


def _pool(task: Task, units: Sequence[Unit], todo: list[int], workers: int) -> Iterator[tuple[int, Any]]:
    # spawn: a forked child would inherit the locks of Arrow's and Lance's threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(todo)), mp_context=context, initializer=_start, initargs=(task, os.getpid())) as pool:
        pending: dict[Future[Any], int] = {}
        queue = iter(todo)
        try:
            for i in queue:
                pending[pool.submit(_work, units[i].work)] = i
                if len(pending) < 2 * workers:
                    continue
                yield from _drain(pending)
            while pending:
                yield from _drain(pending)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _drain(pending: dict[Future[Any], int]) -> Iterator[tuple[int, Any]]:
    done, _ = wait(pending, return_when=FIRST_COMPLETED)
    for future in done:
        i = pending.pop(future)
        yield i, future.result()


_task: Task | None = None


def _start(task: Task, parent: int) -> None:
    """Keeps the task in the worker, and ends the worker when its parent is killed (nobody else would)."""
    global _task
    _task = task
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    os._exit(1)


def _work(unit: Any) -> Any:
    if _task is None:
        raise RuntimeError("worker was not started by the engine")
    return _task(unit)
