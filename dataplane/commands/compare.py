"""The command that compares two versions: diff."""

from __future__ import annotations

from typing import Any

import click

from dataplane.commands.printing import JSON_OPTION, console, json_text, section

SPELLED_OUT = 60  # characters of a sample's text on the screen; --json has more


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--table", default="documents", show_default=True, help="Table to compare.")
@click.option("--samples", type=click.IntRange(min=0), default=5, show_default=True, help="Rows to show of each change.")
@JSON_OPTION
def diff(a: str, b: str, table: str, samples: int, as_json: bool) -> None:
    """Shows what version B of a table gained, lost and changed against A: by source, language and rule, with samples.

    A and B are tags, digests (or their start), `current`, or Git revisions.
    """
    from dataplane.lineage.diff import diff as compare

    difference = compare(table, a, b, samples=samples).as_dict()
    if as_json:
        click.echo(json_text(difference))
    else:
        _print(difference)


def _print(difference: dict[str, Any]) -> None:
    from rich.text import Text

    screen = console()
    for side in ("a", "b"):
        version = difference[side]
        screen.print(
            Text(f"{side}  {difference['table']} {version['digest']}  {version['rows']:,} rows  ({version['name']})", style="bold")
        )
    screen.print(Text(f"gained {difference['gained']:,}, lost {difference['lost']:,}, changed {difference['changed']:,}"))
    for title in ("source", "language", "rule"):
        section(screen, f"by {title}", difference[f"by_{title}"])
    for change, rows in difference["samples"].items():
        section(screen, change, [_shortened(row) for row in rows])


def _shortened(row: dict[str, Any]) -> dict[str, Any]:
    """A sample that fits on a line."""
    if "doc_id" not in row:
        return row
    texts = {name: " ".join(row[name].split())[:SPELLED_OUT] for name in ("text_before", "text") if row.get(name)}
    return {"doc_id": row["doc_id"], "source": row.get("source"), "url": row.get("url"), "rules": ", ".join(row.get("rules", []))} | texts
