"""The command line of the data plane. Heavy imports live inside the commands that need them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from dataplane.errors import TerraplaneError

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


class _Group(click.Group):
    """Prints an error that we know as a message with its fix, and exits with its code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TerraplaneError as error:
            click.echo(f"error: {error.render()}", err=True)
            raise SystemExit(error.exit_code) from None


@click.group(cls=_Group)
@click.version_option(package_name="terraplane")
def main() -> None:
    """Raw text to versioned, measured, deduplicated and packed tables. Work is started by `dvc repro`."""


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--source", "sources", multiple=True, required=True, metavar="NAME[:KIND]=GLOB", help="Raw files; may be given several times."
)
@click.option(
    "--benchmark", "benchmarks", multiple=True, metavar="NAME=GLOB", help="JSONL files of benchmark items to keep out of training."
)
@click.option("--instructions", multiple=True, metavar="GLOB", help="JSONL files of chat examples; adds the sft stage.")
@click.option("--preferences", multiple=True, metavar="GLOB", help="JSONL files of preference pairs; adds the dpo stage.")
@click.option("--in-place", is_flag=True, help="Read the raw files where they are instead of copying them under DVC.")
@click.option("--data-only", is_flag=True, help="Leave the training stages out.")
def init(
    directory: Path,
    sources: Sequence[str],
    benchmarks: Sequence[str],
    instructions: Sequence[str],
    preferences: Sequence[str],
    in_place: bool,
    data_only: bool,
) -> None:
    """Makes a project in DIRECTORY for your own files; `cd DIRECTORY && dvc repro` runs it."""
    from dataplane.project import Wanted, create

    wanted = Wanted(sources, benchmarks, instructions, preferences, in_place, training=not data_only)
    for line in create(directory, wanted):
        click.echo(line)


@main.command()
@click.argument("query")
@click.option("--format", "style", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@JSON_OPTION
def sql(query: str, style: str, as_json: bool) -> None:
    """Answers one read-only SQL question over the lake's tables ('SHOW TABLES' lists them)."""
    from dataplane.lineage.query import answer

    _print_table(answer(query), "json" if as_json else style)


@main.command()
@click.argument("doc_id")
@JSON_OPTION
def why(doc_id: str, as_json: bool) -> None:
    """Shows a document's whole life: origin, edits, signals, decisions, cluster, sequences, steps."""
    from dataplane.lineage.query import why as ask

    life = ask(doc_id)
    if as_json:
        click.echo(_json(life))
    else:
        _print_life(life)


@main.command()
@click.argument("doc_id")
@click.option("--check", is_flag=True, help="Only say whether the file still holds the payload that was ingested.")
def raw(doc_id: str, check: bool) -> None:
    """Writes a document's raw payload to stdout, read again from the file at its locator."""
    from dataplane.errors import DataError
    from dataplane.lineage.query import payload

    stored, found = payload(doc_id)
    if stored != found:
        fix = "the raw file has changed since it was ingested: restore it, or run `dvc repro`"
        raise DataError(f"the file holds {len(found)} bytes that differ from the {len(stored)} ingested", where=doc_id, fix=fix)
    if check:
        click.echo(f"{doc_id}: {len(found)} bytes, equal to what was ingested")
    else:
        sys.stdout.buffer.write(found)


@main.command()
def tour() -> None:
    """Says where the report is, and asks three questions to begin with."""
    from dataplane.lineage.query import examples

    for line in examples():
        click.echo(line)


@main.group()
def plugins() -> None:
    """Operators, sources and rule sets that are installed."""


@plugins.command("list")
@JSON_OPTION
def plugins_list(as_json: bool) -> None:
    """Lists every entry point with its distribution."""
    from dataplane.registry import GROUPS, entries, owner

    rows = [
        {"group": group, "name": name, "object": point.value, "distribution": owner(point)}
        for group in GROUPS
        for name, point in entries(group).items()
    ]
    _print_rows(rows, as_json)


@plugins.command("check")
@click.argument("names", nargs=-1)
@JSON_OPTION
def plugins_check(names: Sequence[str], as_json: bool) -> None:
    """Holds the operators' classes (all, or those named) and the project's params against the contract."""
    from dataplane.checks import check_plugins

    rows = check_plugins(names)
    _print_rows(rows, as_json)
    if any(row["fault"] for row in rows):
        raise SystemExit(1)


@plugins.command("lock")
def plugins_lock() -> None:
    """Writes plugins.lock.json: the code that the stages stand on, where DVC can see it."""
    from dataplane import lockfile
    from dataplane.params import load_params

    extra = {}
    if "sample" in load_params(Path("params.yaml")):  # this project's raw files come out of installed packages
        from dataplane.sample.packages import lock_entry

        extra["sample"] = lock_entry()
    click.echo(f"wrote {lockfile.write(extra=extra)}")


@main.group()
def models() -> None:
    """Model files that operators need."""


@models.command("list")
@JSON_OPTION
def models_list(as_json: bool) -> None:
    """Lists the known models and whether they are on this machine."""
    from dataplane.models import list_models
    from dataplane.settings import load_settings

    _print_rows(list_models(load_settings()), as_json)


@models.command("fetch")
@click.argument("names", nargs=-1)
def models_fetch(names: Sequence[str]) -> None:
    """Fetches models (those named, or all that the project's pipeline needs) and checks their sha256."""
    from dataplane.models import fetch, needed
    from dataplane.settings import load_settings

    settings = load_settings()
    for name in names or needed():
        click.echo(f"{name}: {fetch(name, settings)}")


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str)


def _print_rows(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        click.echo(_json(list(rows)))
    else:
        _rows_as_table(list(rows[0]) if rows else [], rows)


def _print_table(table: Any, style: str) -> None:
    printers: dict[str, Callable[[Any], None]] = {"json": _as_json, "csv": _as_csv, "table": _as_table}
    printers[style](table)


def _as_json(table: Any) -> None:
    click.echo(_json(table.to_pylist()))


def _as_csv(table: Any) -> None:
    import csv

    writer = csv.writer(sys.stdout)
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        writer.writerow([value if not isinstance(value, dict | list) else _json(value) for value in row.values()])


def _as_table(table: Any) -> None:
    _rows_as_table(table.column_names, table.to_pylist())


def _rows_as_table(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    shown = Table(show_edge=False, header_style="bold")
    for name in names:
        shown.add_column(str(name), overflow="fold")
    for row in rows:
        shown.add_row(*[_cell(value) for value in row.values()])
    _console().print(shown)


def _cell(value: Any) -> Any:
    from rich.text import Text

    if value is None:
        return Text("-", style="dim")
    if isinstance(value, float):
        return Text(f"{value:.6g}")
    # Text, not markup: a document may hold square brackets and control characters.
    return Text("".join(c if c.isprintable() or c == "\n" else "�" for c in str(value)))


def _console() -> Any:
    from rich.console import Console

    # Off a terminal, wide enough that a pipe does not fold columns.
    return Console() if sys.stdout.isatty() else Console(width=200)


def _print_life(life: dict[str, Any]) -> None:
    from rich.text import Text

    console = _console()
    console.print(Text(f"{life['doc_id']}  {life['verdict']}", style="bold"))
    _section(console, "origin", [{k: v for k, v in life["origin"].items() if v not in (None, "")}])
    _section(console, "edits", [{k: v for k, v in row.items() if k != "run_id"} for row in life["edits"]])
    if life["document"]:
        signals = [
            {"signal": f"{operator}.{name}", "value": value}
            for operator, values in life["document"].items()
            if isinstance(values, dict)
            for name, value in values.items()
        ]
        _section(console, "signals", signals)
    _section(console, "decisions", [{k: row[k] for k in ("stage", "operator", "reason", "signals")} for row in life["decisions"]])
    _section(console, "quarantine", life["quarantine"])
    _section(console, "duplicate cluster", [life["duplicate"]] if life["duplicate"] else [])
    _section(console, "contamination", life["contamination"])
    _section(console, "mixture", life["mixture"])
    _section(console, "sequences", life["sequences"])
    _section(console, "steps", life["steps"])


def _section(console: Any, title: str, rows: Sequence[dict[str, Any]]) -> None:
    from rich.text import Text

    if not rows:
        return
    console.print(Text(f"\n{title}", style="bold cyan"))
    if len(rows) == 1:
        for key, value in rows[0].items():
            console.print(Text(f"  {key:<14} "), _cell(value), sep="")
        return
    _rows_as_table(list(rows[0]), rows)
