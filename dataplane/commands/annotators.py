"""Commands around labelled examples: agreement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dataplane.commands.printing import JSON_OPTION, console, json_text, rows_as_table, section


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--annotators", metavar="A,B,...", help="Wide form: the columns that hold the annotators' labels, one row an item.")
@click.option("--item", default="item", show_default=True, help="Long form: the column that names the item.")
@click.option("--annotator", default="annotator", show_default=True, help="Long form: the column that names the annotator.")
@click.option("--label", default="label", show_default=True, help="Long form: the column of the label.")
@click.option("--order", metavar="A,B,...", help="The labels, lowest first; numbers are in order by themselves.")
@JSON_OPTION
def agreement(file: Path, annotators: str | None, item: str, annotator: str, label: str, order: str | None, as_json: bool) -> None:
    """Says how far the annotators of FILE agree beyond chance: Cohen's and Fleiss' kappa, Krippendorff's alpha.

    FILE is JSONL, Parquet, CSV or TSV: a row for each label (--item, --annotator, --label), or for each item (--annotators).
    """
    from dataplane.corpus.agreement import agreement as measure
    from dataplane.corpus.ratings import long, wide

    ordered = _names(order)
    ratings = wide(file, _names(annotators), ordered) if annotators else long(file, item, annotator, label, ordered)
    found = measure(ratings)
    if as_json:
        click.echo(json_text(found))
    else:
        _print(found)


def _names(listed: str | None) -> list[str]:
    return [name.strip() for name in (listed or "").split(",") if name.strip()]


def _print(found: dict[str, Any]) -> None:
    screen = console()
    fleiss = found["fleiss"]
    values = {"Fleiss' kappa": fleiss["kappa"], "mean Cohen's kappa": found["mean_kappa"]}
    values |= {f"Krippendorff's alpha, {level}": value for level, value in found["krippendorff"].items()}
    section(screen, f"{found['items']:,} items, {found['ratings']:,} ratings", [values])
    rows = [{**pair, "annotators": " – ".join(pair["annotators"])} for pair in found["pairs"]]
    if rows:
        rows_as_table(list(rows[0]), rows)
    rows_as_table(
        ["label", "ratings", "kappa"],
        [{"label": name, "ratings": count, "kappa": fleiss["by_label"].get(name)} for name, count in found["labels"].items()],
    )
