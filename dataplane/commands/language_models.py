"""Commands that make n-gram models and their cut points: train-lm, fit-buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataplane.commands.printing import JSON_OPTION, json_text
from dataplane.commands.train import FIELD, parsed

if TYPE_CHECKING:
    import pyarrow as pa


@click.command("train-lm")
@click.option("--data", required=True, multiple=True, metavar="GLOB", help="Files of text (JSONL, Parquet, CSV, text).")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The ARPA file; FILE.json beside it says how it reads text.")
@click.option("--tokens", default="words", show_default=True, help="words, characters, or a tokenizer's file (.model, .json).")
@click.option("--fold", is_flag=True, help="Read text in lower case, without accents, digits as 0, as CCNet does.")
@click.option("--sentences", type=click.Choice(["line", "text"]), default="line", show_default=True, help="What a sentence is.")
@FIELD
@click.option("--set", "settings", multiple=True, metavar="PARAM=VALUE", help="A param: order=4, prune=[0,0,1], memory=4GB.")
@JSON_OPTION
def train_lm(
    data: Sequence[str], out: Path, tokens: str, fold: bool, sentences: str, text_field: str, settings: Sequence[str], as_json: bool
) -> None:
    """Trains an n-gram model with modified Kneser-Ney smoothing, as lmplz does, and writes it as an ARPA file."""
    from dataplane.annotators.lm_tokens import Reading, beside
    from dataplane.corpus.labelled import text_batches
    from dataplane.corpus.token_lm import TokenLmParams, train
    from dataplane.errors import UsageError

    if out.suffix != ".arpa":
        raise UsageError(f"{out} does not end in .arpa", where="--out", fix="name it so: the operators know a model by its name")
    params = TokenLmParams.parse(parsed(settings), where="--set")
    reading = Reading.parse({"tokens": tokens, "fold": fold, "sentences": sentences}, where="options")
    spaced = reading.spaced()
    by_line = reading.sentences == "line"

    def batches() -> Iterator[pa.Array]:
        return (spaced(text) for text in text_batches(data, text_field, by_line))

    told = train(batches, params, out, by_line).report()
    about = {"reading": reading.model_dump(mode="json"), "params": params.model_dump(mode="json"), **told}
    beside(out).write_text(json_text(about) + "\n", encoding="utf-8")
    click.echo(json_text(about) if as_json else f"{told['tokens']:,} tokens in {told['sentences']:,} sentences: {_sizes(told)}")


def _sizes(told: dict[str, Any]) -> str:
    return ", ".join(f"{size:,} {n}-grams" for n, size in enumerate(told["n_grams"], start=1))


@click.command("fit-buckets")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--reference", required=True, multiple=True, metavar="GLOB", help="Files of documents of the language.")
@click.option("--percentiles", type=(float, float), default=None, help="Where to cut: terciles where left out; CCNet's code has 30 60.")
@FIELD
@JSON_OPTION
def fit_buckets(model: Path, reference: Sequence[str], percentiles: tuple[float, float] | None, text_field: str, as_json: bool) -> None:
    """Puts the cut points of the operator perplexity_bucket beside MODEL, out of documents of reference."""
    from dataplane.annotators.causal_lm import CausalParams
    from dataplane.annotators.lm_scorers import model_files, open_scorer
    from dataplane.annotators.perplexity_bucket import cuts_file
    from dataplane.corpus.buckets import TERCILES, fit
    from dataplane.corpus.labelled import text_batches
    from dataplane.errors import UsageError

    chosen = percentiles or TERCILES
    if not 0 <= chosen[0] <= chosen[1] <= 100:
        raise UsageError(f"percentiles {chosen[0]:g} {chosen[1]:g} are not in order", where="--percentiles", fix="for example 30 60")
    model_files(model, {}, "train it with `dataplane train-lm`")
    scorer = open_scorer(model, {}, CausalParams.parse({}, where="fit-buckets"))
    found = fit(scorer, text_batches(reference, text_field, by_line=False), chosen)
    cuts_file(model).write_text(json_text(found) + "\n", encoding="utf-8")
    low, high = found["cuts"]
    click.echo(json_text(found) if as_json else f"{found['documents']:,} documents: head up to {low:g}, tail above {high:g}")
