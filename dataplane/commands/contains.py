"""The command that asks whether evaluation items are in the training data: contains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dataplane.commands.printing import JSON_OPTION, print_rows

SHOWN = 3  # documents of an item on a terminal


@click.command()
@click.option("--text", "texts", multiple=True, metavar="TEXT", help="An item; may be given several times.")
@click.option("--file", "files", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), help="JSONL, JSON or CSV.")
@click.option("--field", "fields", multiple=True, metavar="FIELD", help="Fields of a file's items, as in decontaminate.benchmarks.")
@click.option("--id-field", default="", help="Field that names the item; empty takes file name and line number.")
@click.option("--in", "within", default="mixture", show_default=True, help="Table of documents to look in; consumed: by a model, so far.")
@JSON_OPTION
def contains(texts: Sequence[str], files: Sequence[Path], fields: Sequence[str], id_field: str, within: str, as_json: bool) -> None:
    """Says of evaluation items whether they are in the training data, and in which documents.

    N-grams and the share that counts are those of `decontaminate` in params.yaml. An item is contained where one document holds
    that share of it, partly contained where documents hold some of its n-grams; too short ones cannot be told.
    """
    from dataplane.corpus.containment import look_for
    from dataplane.corpus.contamination import DecontaminateParams
    from dataplane.errors import UsageError
    from dataplane.params import load_params

    items = {f"text {i}": [text] for i, text in enumerate(texts, 1)} | _items(files, fields, id_field)
    if not items:
        raise UsageError("there is no item to look for", where="contains", fix="give --text, or --file with --field")
    params = DecontaminateParams.parse(load_params(Path("params.yaml")).get("decontaminate"), where="decontaminate")
    found = look_for(items, within, params)
    rows: list[dict[str, Any]] = [
        {"item": one.item_id, "verdict": one.verdict(params), "covered": one.covered, "documents": one.documents} for one in found
    ]
    if not as_json:
        for row in rows:
            named = [f"{doc_id} ({share:.0%} of its {n}-grams)" for doc_id, n, share in row["documents"][:SHOWN]]
            row["documents"] = "\n".join(
                [*named, *([f"and {len(row['documents']) - SHOWN} more"] if len(row["documents"]) > SHOWN else [])]
            )
    print_rows(rows, as_json)


def _items(files: Sequence[Path], fields: Sequence[str], id_field: str) -> dict[str, list[str]]:
    from glob import escape

    from dataplane.corpus.benchmark_items import Benchmark, read_items
    from dataplane.errors import UsageError

    if files and not fields:
        raise UsageError("the fields of the items are not named", where="contains", fix="give --field, as in --field question")
    found: dict[str, list[str]] = {}
    for file in files:
        for item_id, passages in read_items(
            Benchmark(name="asked", paths=[escape(str(file))], task="", fields=list(fields), id_field=id_field)
        ):
            found[item_id] = [*found.get(item_id, []), *passages]
    return found
