"""Commands around examples for training: agreement of labels, augment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dataplane.commands.printing import JSON_OPTION, console, json_text, rows_as_table, section
from dataplane.errors import UsageError

METHODS = ("synonym", "insertion", "swap", "deletion", "back_translation")


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


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(METHODS),
    default=("swap",),
    show_default=True,
    help="May be given several times.",
)
@click.option("--copies", type=click.IntRange(min=1), default=1, show_default=True, help="Variants of each record by each method.")
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), default=0.1, show_default=True, help="Edits for each word.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed gives other variants.")
@click.option("--synonyms", type=click.Path(), help="Lists of words, a set a line, or the folder of a WordNet database.")
@click.option("--there", type=click.Path(path_type=Path), help="Folder of the model that translates out of the language.")
@click.option("--back", type=click.Path(path_type=Path), help="Folder of the model that translates back.")
@click.option("--field", default="text", show_default=True, help="Field of the text of records without messages.")
@click.option("--id-field", default="id", show_default=True, help="Field of the id; a record without one is named by its content.")
@click.option("--role", "roles", multiple=True, default=("user",), show_default=True, help="Whose messages are rewritten.")
@click.option("--only-variants", is_flag=True, help="Leave the records themselves out.")
@JSON_OPTION
def augment(
    source: Path,
    target: Path,
    methods: Sequence[str],
    synonyms: str | None,
    there: Path | None,
    back: Path | None,
    only_variants: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Writes the records of SOURCE (JSONL) and variants of them to TARGET, each variant with the id of its parent.

    Records held out for evaluation get no variants. The same seed gives the same variants, whatever else is in the file.
    """
    from dataplane.corpus.augmentation import Plan, augment_file, rewriter
    from dataplane.transforms.augment import NEEDS_SYNONYMS, vocabulary
    from dataplane.transforms.back_translation import BackTranslator

    if synonyms is None and (needing := sorted(NEEDS_SYNONYMS.intersection(methods))):
        raise UsageError(f"{' and '.join(needing)} need synonyms", where="augment", fix="name a file or a WordNet folder with --synonyms")
    plan = Plan(tuple(dict.fromkeys(methods)), keep_parents=not only_variants, **options)
    translate = BackTranslator(there, back) if there and back else None
    found = augment_file(source, target, plan, rewriter(plan, vocabulary(synonyms), translate))
    if as_json:
        click.echo(json_text(found))
    else:
        made = ", ".join(f"{count:,} by {method}" for method, count in found["variants"].items())
        click.echo(f"{target}: {found['records']:,} records, variants: {made}; {found['unchanged']:,} more were as another")


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
