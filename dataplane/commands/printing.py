"""How answers look on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def json_text(value: Any) -> str:
    """JSON for people: indented, with every script readable."""
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)


def print_rows(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Prints mappings as a table or as JSON."""
    if as_json:
        click.echo(json_text(list(rows)))
    else:
        rows_as_table(list(rows[0]) if rows else [], rows)


def rows_as_table(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Prints mappings as a table with these columns."""
    from rich.table import Table

    shown = Table(show_edge=False, header_style="bold")
    for name in names:
        shown.add_column(str(name), overflow="fold")
    for row in rows:
        shown.add_row(*[cell(value) for value in row.values()])
    console().print(shown)


def cell(value: Any) -> Any:
    """One value as the text of a cell."""
    from rich.text import Text

    if value is None:
        return Text("-", style="dim")
    if isinstance(value, float):
        return Text(f"{value:.6g}")
    # Text, not markup: a document may hold square brackets and control characters.
    return Text("".join(c if c.isprintable() or c == "\n" else "�" for c in str(value)))


def console() -> Any:
    """The terminal, or a wide page where the output goes into a pipe."""
    from rich.console import Console

    # Off a terminal, wide enough that a pipe does not fold columns.
    return Console() if sys.stdout.isatty() else Console(width=200)


def section(screen: Any, title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Prints rows under a title: one row as a list of its fields, several as a table, none not at all."""
    from rich.text import Text

    if not rows:
        return
    screen.print(Text(f"\n{title}", style="bold cyan"))
    if len(rows) == 1:
        for key, value in rows[0].items():
            screen.print(Text(f"  {key:<14} "), cell(value), sep="")
        return
    rows_as_table(list(rows[0]), rows)
