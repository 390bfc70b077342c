"""The engine on one machine: `map(task, units)` in processes, in order, with retries and a journal."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dataplane.engine.journal import Journal
from dataplane.engine.units import Unit
from dataplane.errors import EnvironmentFault

MAX_LOST_WORKERS = 3
PARENT_POLL_SECONDS = 0.5

Task = Callable[[Any], Any]


def map(
    task: Task, units: Sequence[Unit], *, workers: int, journal: Journal, title: str, whole: Callable[[Any], bool] = lambda result: True
) -> Outcome:
    """Runs the task on each unit.

    Args:
        task: Picklable; takes a unit's work, returns a JSON-like result. Built anew in each worker, once.
        units: What to work on.
        workers: Processes; with 1 the work is done in this process.
        journal: Finished units are taken from it and added to it.
        title: Name of the progress bar.
        whole: Whether a journaled result can still be used (its files are there).

    Returns:
        The results in the order of `units`, whatever order they finished in.

    Raises:
        EnvironmentFault: Workers kept dying (out of memory, most likely).
        Exception: What the task raised; the journal keeps the units that were finished.
    """
    results: dict[int, Any] = {i: done for i, unit in enumerate(units) if (done := journal.get(unit.key)) is not None and whole(done)}
    todo = [i for i in range(len(units)) if i not in results]
    with _progress() as progress:
        bar = progress.add_task(title, total=len(units), completed=len(results))
        for i, result in _run(task, units, todo, workers):
            journal.put(units[i].key, result)
            results[i] = result
            progress.advance(bar)
    return Outcome([results[i] for i in range(len(units))], todo)


@dataclass(frozen=True)
class Outcome:
    """What `map` gives back.

    Attributes:
        results: One for each unit, in order.
        done: Places of the units that were worked on; the others stood in the journal.
    """

    results: list[Any]
    done: list[int]


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _run(task: Task, units: Sequence[Unit], todo: list[int], workers: int) -> Iterator[tuple[int, Any]]:
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
