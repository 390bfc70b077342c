"""Commands that measure the lake: whatif, funnel, stats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from dataplane.commands.printing import JSON_OPTION, cell, console, json_text, print_rows, rows_as_table, section

# What of DuckDB's SUMMARIZE goes on a terminal; --json has all.
SUMMARY = ("column_name", "column_type", "min", "max", "approx_unique", "avg", "q50", "null_percentage")


@click.command()
@click.argument("question", metavar='"NAME.PARAM=VALUE, ..."')
@click.option("--samples", type=click.IntRange(0, 100), default=5, show_default=True, help="Documents to show each way.")
@JSON_OPTION
def whatif(question: str, samples: int, as_json: bool) -> None:
    """Says what other thresholds would gain and lose in select, without running the pipeline.

    NAME is a rule set or filter, PARAM one of its params, as in "gopher_quality.min_words=100, language.min_score=0.8".
    Every use of NAME takes the value; NAME[1] means its second use in select.rules alone. Of a param by language, as in
    "fineweb2.max_newline_ratio={de: 0.2}", the languages that are named change.
    """
    from dataplane.lineage.whatif import SIDES
    from dataplane.lineage.whatif import whatif as ask

    found = ask(question, samples=samples)
    if as_json:
        click.echo(json_text(found))
        return
    screen = console()
    _table(screen, "thresholds", [{k: row[k] for k in ("place", "name", "param", "before", "after")} for row in found["thresholds"]])
    for note in found["notes"]:
        _title(screen, f"note: {note}")
    for side in SIDES:
        _print_side(screen, side, found[side])


@click.command()
@click.option("--by", type=click.Choice(["source", "language"]), help="Tell the steps apart by it.")
@JSON_OPTION
def funnel(by: str | None, as_json: bool) -> None:
    """Shows how many documents each step dropped, why, and what was left."""
    from dataplane.lineage.funnel import funnel as ask

    found = ask(by=by)
    if as_json:
        click.echo(json_text(found))
        return
    screen = console()
    _table(screen, "steps", found["steps"])
    _table(screen, "rules of select, in order", found["rules"])
    _table(screen, "reasons; each document counts for its first", found["reasons"])


@click.command()
@click.argument("table", required=False)
@click.option("--at", default="current", show_default=True, metavar="VERSION", help="A tag, or a digest or its start.")
@click.option("--all", "huge", is_flag=True, help="Summarise text, payload and input_ids as well.")
@JSON_OPTION
def stats(table: str | None, at: str, huge: bool, as_json: bool) -> None:
    """Summarises a version of TABLE: size, columns, tokens, duplicates. Without TABLE, the sizes of all."""
    from dataplane.lineage.stats import overview
    from dataplane.lineage.stats import stats as ask

    if table is None:
        print_rows(overview(), as_json)
        return
    found = ask(table, at=at, huge=huge)
    if as_json:
        click.echo(json_text(found))
        return
    screen = console()
    section(screen, table, [{name: found[name] for name in ("digest", "rows", "bytes")}])
    _table(screen, "columns", [{name: row[name] for name in SUMMARY} for row in found["columns"]])
    for name in ("tokens_by_source", "tokens_by_language"):
        _table(screen, name.replace("_", " "), found.get(name, []))
    if "duplicates" in found:
        section(screen, "duplicates", [{"clusters": found["duplicates"]["clusters"], **found["duplicates"]["dropped"]}])
        _table(screen, "largest clusters", found["duplicates"]["largest"])


def _print_side(screen: Any, side: str, found: Mapping[str, Any]) -> None:
    """One side of a what-if: totals, groups, samples."""
    n_tokens = "unknown tokens" if found["tokens"] is None else f"{found['tokens']:,} tokens ({found['estimated_tokens']:,} estimated)"
    _title(screen, f"{side}: {found['documents']:,} documents, {found['bytes']:,} bytes, {n_tokens}")
    for name in ("by_reason", "by_source", "by_language"):
        _table(screen, name.replace("_", " "), found[name])
    for sample in found["samples"]:
        fields = {name: sample[name] for name in ("source", "url", "text")}
        signals = ", ".join(f"{name} {cell(value)}" for name, value in sample["signals"].items())
        section(screen, sample["doc_id"], [{"reasons": ", ".join(sample["reasons"]), "signals": signals, **fields}])


def _title(screen: Any, text: str) -> None:
    from rich.text import Text

    screen.print(Text(f"\n{text}", style="bold"))


def _table(screen: Any, title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Prints rows under a title, also where there is one row; none not at all."""
    if rows:
        _title(screen, title)
        rows_as_table(list(rows[0]), rows)
