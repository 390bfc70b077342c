"""Commands that make what operators read: train-quality, train-toxicity, compile-blocklist, fit-site-lines, fit-instruction-pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataplane.commands.printing import JSON_OPTION, cell, console, json_text, print_rows, rows_as_table

if TYPE_CHECKING:
    from dataplane.corpus.linear_model import Labelled

_OUT = click.option("--out", required=True, type=click.Path(path_type=Path), help="File of the model; a report FILE.json lies beside it.")
FIELD = click.option("--text-field", default="text", show_default=True, help="Field or column of the text.")
_SETTINGS = click.option("--set", "settings", multiple=True, metavar="PARAM=VALUE", help="A param of it: c=2, char_n=5.")


@click.command("train-quality")
@click.option("--positive", required=True, multiple=True, metavar="GLOB", help="Files of good documents (JSONL, Parquet, CSV, text).")
@click.option("--negative", required=True, multiple=True, metavar="GLOB", help="Files of bad documents.")
@_OUT
@FIELD
@_SETTINGS
@JSON_OPTION
def train_quality(
    positive: Sequence[str], negative: Sequence[str], out: Path, text_field: str, settings: Sequence[str], as_json: bool
) -> None:
    """Trains the classifier of the operator quality_model, and says how good it is and what it dislikes.

    An --out that ends in .bin makes it one of fastText.
    """
    from dataplane.corpus.labelled import two_sides

    if out.suffix == ".bin":
        _trained_fasttext(lambda: two_sides(positive, negative, "good", text_field), out, settings, as_json)
        return
    _trained(lambda: two_sides(positive, negative, "good", text_field), out, settings, {}, as_json)


@click.command("train-toxicity")
@click.option("--data", required=True, multiple=True, metavar="GLOB", help="Files of labelled documents (CSV, TSV, JSONL, Parquet).")
@click.option("--lang", required=True, help="Language of the documents, as the operator language names it.")
@_OUT
@FIELD
@click.option("--label-field", default="label", show_default=True, help="Field of the label: 0 and 1, or names, several parted by |.")
@click.option("--neutral", multiple=True, help="A label that means there is nothing; several are known (0, none, neither, ...).")
@click.option("--innocent", multiple=True, metavar="GLOB", help="Files of ordinary documents: what toxic text is to be told from.")
@_SETTINGS
@JSON_OPTION
def train_toxicity(
    data: Sequence[str],
    lang: str,
    out: Path,
    text_field: str,
    label_field: str,
    neutral: Sequence[str],
    innocent: Sequence[str],
    settings: Sequence[str],
    as_json: bool,
) -> None:
    """Trains the classifier of one language of the operator toxicity_model, with a probability for each category of the labels."""
    from dataplane.corpus.labelled import NEUTRAL, labelled, with_innocent

    def read() -> Labelled:
        posts = labelled(data, text_field, label_field, (*NEUTRAL, *(name.lower() for name in neutral)))
        return with_innocent(posts, innocent, text_field) if innocent else posts

    _trained(read, out, settings, {"lang": lang}, as_json)


@click.command("compile-blocklist")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the compiled list.")
def compile_blocklist(folder: Path, out: Path) -> None:
    """Compiles FOLDER (CATEGORY/domains, CATEGORY/urls) into hashes that the operator url_blocklist maps into memory."""
    from dataplane.kernels.url_blocklist import compile_list

    made = compile_list(folder)
    made.save(out)
    click.echo(f"{len(made.keys):,} entries of {len(made.categories)} categories in {out}")


@click.command("fit-site-lines")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File of the lines, for `path` of the operator site_lines.")
@_SETTINGS
@JSON_OPTION
def fit_site_lines(out: Path, settings: Sequence[str], as_json: bool) -> None:
    """Finds the lines that stand on many pages of one site, in `raw` after the operators above site_lines in clean.pipeline."""
    from dataplane.corpus.site_lines import SiteLinesParams, fit, pages_of
    from dataplane.lineage.record import PARAMS_FILE
    from dataplane.params import load_params
    from dataplane.pipeline import CleanParams
    from dataplane.snapshot import Snapshot

    params = SiteLinesParams.parse(parsed(settings), where="--set")
    clean = CleanParams.parse(load_params(Path(PARAMS_FILE)).get("clean"), where="clean")
    fitted = fit(pages_of(Snapshot.load("raw"), clean.pipeline), params)
    fitted.lines.save(out)
    found = {"pages": fitted.pages, "lines": fitted.different, "repeated": len(fitted.lines.keys), "out": str(out)}
    print_rows([found], as_json)


@click.command("fit-instruction-pool")
@click.option("--out", default="models/instruction_pool.npz", show_default=True, type=click.Path(path_type=Path), help="File of the pool.")
@click.option("--source", "sources", multiple=True, help="Source that is taken; all where none is named.")
@JSON_OPTION
def fit_instruction_pool(out: Path, sources: Sequence[str], as_json: bool) -> None:
    """Collects the instructions of `raw`, which the operator instruction_novelty holds each one against."""
    from dataplane.corpus.instruction_pool import fit
    from dataplane.snapshot import Snapshot

    pool = fit(Snapshot.load("raw"), sources)
    pool.save(out)
    print_rows([{"instructions": len(pool.doc_ids), "out": str(out)}], as_json)


def _trained(read: Callable[[], Labelled], out: Path, settings: Sequence[str], about: dict[str, Any], as_json: bool) -> None:
    """Trains on what `read` gives, writes the model and its report, and prints the report."""
    from dataplane.corpus.linear_model import TrainParams, train

    params = TrainParams.parse(parsed(settings), where="--set")
    model, report = train(read(), params)
    model.save(out)
    _reported({**about, **report}, out, as_json)


def _trained_fasttext(read: Callable[[], Labelled], out: Path, settings: Sequence[str], as_json: bool) -> None:
    from dataplane.corpus.fasttext_model import FastTextParams, train

    params = FastTextParams.parse(parsed(settings), where="--set")
    _reported(train(read(), params, out), out, as_json)


def _reported(report: dict[str, Any], out: Path, as_json: bool) -> None:
    """Writes the report beside the model, and prints it."""
    out.with_name(out.name + ".json").write_text(json_text(report) + "\n", encoding="utf-8")
    if as_json:
        click.echo(json_text(report))
        return
    screen = console()
    rows = [{"label": label, "documents": row["documents"], **row["cross_validated"]} for label, row in report["labels"].items()]
    rows_as_table(list(rows[0]), rows)
    for label, row in report["labels"].items():
        for side in ("for", "against"):
            words = ", ".join(f"{cell(found['feature']).plain!r} {found['weight']}" for found in row[side])
            screen.print(f"{side} {label}: {words}", markup=False)


def parsed(settings: Sequence[str]) -> dict[str, Any]:
    """Params out of PARAM=VALUE, the values read as YAML."""
    import yaml

    return {name: yaml.safe_load(value) for name, _, value in (setting.partition("=") for setting in settings)}
