"""The one verb of the engine: `map(task, units)`, in order, with a journal; a runner says in which processes of which machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dataplane.engine.journal import Journal
from dataplane.engine.units import Unit

# Takes a unit's work, returns a JSON-like result. Picklable: it is built anew in each worker, once.
Task = Callable[[Any], Any]
# (task, units, places to do) -> (place, result), in the order in which they finish.
Runner = Callable[[Task, Sequence[Unit], list[int]], Iterator[tuple[int, Any]]]


@dataclass(frozen=True)
class Outcome:
    """What `map` gives back.

    Attributes:
        results: One for each unit, in order.
        done: Places of the units that were worked on; the others stood in the journal.
    """

    results: list[Any]
    done: list[int]


def map(
    task: Task, units: Sequence[Unit], *, run: Runner, journal: Journal, title: str, whole: Callable[[Any], bool] = lambda result: True
) -> Outcome:
    """Runs the task on each unit.

    Args:
        task: What to do with a unit's work.
        units: What to work on.
        run: Does the units that are not done.
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
        for i, result in run(task, units, todo):
            journal.put(units[i].key, result)
            results[i] = result
            progress.advance(bar)
    return Outcome([results[i] for i in range(len(units))], todo)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
