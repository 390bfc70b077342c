"""Commands that ask the lake: sql, why, raw, tour."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dataplane.commands.printing import JSON_OPTION, console, json_text, section


@click.command()
@click.argument("query", required=False)
@click.option("--format", "style", type=click.Choice(["table", "json", "csv", "parquet"]), help="By the suffix of --out, or table.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write; it is replaced once the answer is complete.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, help="Seconds it may take.")
@click.option("--memory", default="2GB", show_default=True, help="Memory it may take.")
@JSON_OPTION
def sql(query: str | None, style: str | None, out: Path | None, timeout: float, memory: str, as_json: bool) -> None:
    """Answers one read-only SQL question over the lake's tables ('SHOW TABLES' lists them).

    Without QUERY it reads the question from a pipe, or asks for questions on a terminal. An older version of a table is
    asked as documents AT (VERSION => 'TAG OR DIGEST') or documents AT (TIMESTAMP => '2026-12-01 10:00').
    """
    from dataplane.commands.answers import chosen_format, show, write_answer
    from dataplane.lake.sql import answering, connect

    style = chosen_format("json" if as_json else style, out)
    if query is None and sys.stdin.isatty():
        from dataplane.lake.repl import Repl

        Repl(connect(memory_limit=memory), show, timeout=timeout).run()
        return
    with answering(connect(memory_limit=memory), query if query is not None else sys.stdin.read(), timeout=timeout) as answer:
        write_answer(answer, style, out)


@click.command()
@click.argument("doc_id")
@JSON_OPTION
def why(doc_id: str, as_json: bool) -> None:
    """Shows a document's whole life: origin, edits, signals, decisions, cluster, sequences, steps."""
    from dataplane.lineage.query import why as ask

    life = ask(doc_id)
    if as_json:
        click.echo(json_text(life))
    else:
        _print_life(life)


@click.command()
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


@click.command()
def tour() -> None:
    """Says where the report is, and asks three questions to begin with."""
    from dataplane.lineage.query import examples

    for line in examples():
        click.echo(line)


def _print_life(life: dict[str, Any]) -> None:
    from rich.text import Text

    screen = console()
    screen.print(Text(f"{life['doc_id']}  {life['verdict']}", style="bold"))
    section(screen, "origin", [{k: v for k, v in life["origin"].items() if v not in (None, "")}])
    section(screen, "edits", [{k: v for k, v in row.items() if k != "run_id"} for row in life["edits"]])
    if life["document"]:
        signals = [
            {"signal": f"{operator}.{name}", "value": value}
            for operator, values in life["document"].items()
            if isinstance(values, dict)
            for name, value in values.items()
        ]
        section(screen, "signals", signals)
    section(screen, "decisions", [{k: row[k] for k in ("stage", "operator", "reason", "signals")} for row in life["decisions"]])
    section(screen, "quarantine", life["quarantine"])
    section(screen, "duplicate cluster", [life["duplicate"]] if life["duplicate"] else [])
    section(screen, "repeats", life["repeats"])
    section(screen, "contamination", life["contamination"])
    section(screen, "cut out", life["cuts"])
    section(screen, "mixture", life["mixture"])
    section(screen, "sequences", life["sequences"])
    section(screen, "steps", life["steps"])
