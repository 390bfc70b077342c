"""What a run shows of itself: a curve for `dvc plots`, and a bar on stderr."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def write_curve(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows of one shape as CSV, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]) if rows else ["step"])
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(path)


def progress_bar() -> Progress:
    """A bar with loss, time gone and time left; silent where stderr is no terminal."""
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
    )  # fmt: skip
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
