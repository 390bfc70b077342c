"""The rows of a measurement that takes nothing but its data, as lines."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


def show_rows(about: str | None, rows: Callable[[Path], Iterable[Mapping[str, Any]]], argv: list[str]) -> None:
    """Prints each row as soon as it is there: as JSON with --json, else as words.

    Args:
        about: What `--help` says.
        rows: Measures on a folder in the layout of the public data sets.
        argv: The command's arguments.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder in the layout of the public data sets")
    parser.add_argument("--json", action="store_true", help="one JSON line for each row")
    arguments = parser.parse_args(argv)
    for row in rows(arguments.data):
        print(json.dumps(row, ensure_ascii=False) if arguments.json else "  ".join(f"{k}={v}" for k, v in row.items()), flush=True)
