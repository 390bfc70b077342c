"""The command line of the training plane. Heavy imports live inside the commands that need them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from dataplane.errors import TerraplaneError

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


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
    """Trained models from packed sequences, and where each step came from. Training is started by `dvc repro`."""


@main.command()
@click.option("--run", default="latest", show_default=True, help="Run, by the start of its id; for --step.")
@click.option("--step", type=click.IntRange(min=1), help="Optimizer step to explain.")
@click.option("--losses", is_flag=True, help="Show the loss of each document too.")
@click.option("--model", type=click.Path(path_type=Path), help="Folder of a fine-tuned model (models/sft, ...), for --step.")
@click.option("--doc", "doc_id", help="Document whose steps are wanted.")
@click.option("--before", type=click.IntRange(min=1), help="With --doc: only steps up to this one, such as a checkpoint's.")
@JSON_OPTION
def trace(
    run: str, step: int | None, losses: bool, model: Path | None, doc_id: str | None, before: int | None, as_json: bool
) -> None:  # fmt: skip
    """From a step to raw records (--step), or from a document to steps, or to the certificate that none saw it (--doc)."""
    from trainplane.lineage.trace import trace_document, trace_step

    if (step is None) == (doc_id is None) or (model is not None and step is None):
        raise click.UsageError("give --step N, of pretraining or of a --model, or --doc DOC_ID")
    if step is not None and model is not None:
        from trainplane.lineage.trace_examples import trace_examples

        _show(trace_examples(model, step), as_json, _print_examples)
    elif step is not None:
        _show(trace_step(step, run), as_json, lambda found: _print_step(found, losses))
    else:
        _show(trace_document(str(doc_id), before=before), as_json, _print_document)


@main.command()
@click.argument("run", default="models/pretrain", type=click.Path(path_type=Path))
@JSON_OPTION
def verify(run: Path, as_json: bool) -> None:
    """Proves the ledger of the model in folder RUN against the packed snapshot: chain, order, skips, tokens, random keys."""
    from trainplane.lineage.verify import verify_run

    told = "{steps} steps hold, {skipped} sequences were skipped; chain ends in {chain_hash}, data is packed {packed}"
    _show(verify_run(model=run), as_json, lambda proof: click.echo(told.format(**proof)))


@main.command()
@click.argument("first")
@click.argument("second")
@JSON_OPTION
def compare(first: str, second: str, as_json: bool) -> None:
    """Is model SECOND better than FIRST? A paired bootstrap over the items that both answered, for each task and metric."""
    from trainplane.evaluate.compare import compare_models

    _show(compare_models(first, second), as_json, _print_differences)


def _print_differences(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        told = f"{row['task']} {row['metric']}: {row['first_mean']:.4f} -> {row['second_mean']:.4f} on {row['items']} items, "
        interval = f"difference {row['value']:+.4f} (95 %: {row['low']:+.4f} to {row['high']:+.4f}), p {row['p_value']:.4f}"
        click.echo(told + interval + ("" if row["same_template"] else "; asked in different words"))


@main.command()
@click.option("--ranks", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that the run would have.")
@JSON_OPTION
def config(ranks: int, as_json: bool) -> None:
    """What a run would be: the size of the model, the params with every `auto` as a number, and the DeepSpeed config."""
    from trainplane.pretrain.plan import describe

    _show(describe(ranks), as_json, _print_plan)


def _print_plan(plan: dict[str, Any]) -> None:
    import yaml

    click.echo(yaml.safe_dump(plan, sort_keys=False, allow_unicode=True).rstrip())


def _show(value: Any, as_json: bool, printer: Any) -> None:
    if as_json:
        click.echo(json.dumps(value, indent=1, ensure_ascii=False, default=str))
    else:
        printer(value)


def _print_step(found: dict[str, Any], losses: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console() if sys.stdout.isatty() else Console(width=200)
    head = f"step {found['step']} of run {found['run_id']}: loss {found['loss']:.4f}, learning rate {found['learning_rate']:.2e}"
    console.print(Text(head, style="bold"))
    console.print(Text(f"chain {found['chain_hash']}  tokens {found['token_hash']}"))
    table = Table(show_edge=False, header_style="bold")
    for name in ("sequence", "loss", "document", "tokens", *(["its loss"] if losses else []), "source", "where"):
        table.add_column(name, overflow="fold", justify="left" if name in ("document", "source", "where") else "right")
    for sequence in found["sequences"]:
        for i, span in enumerate(sequence["spans"]):
            first = (str(sequence["seq_id"]), f"{sequence['loss']:.3f}") if i == 0 else ("", "")
            own = [f"{span['loss']:.3f}"] if losses else []
            table.add_row(*first, span["doc_id"], str(span["length"]), *own, *_origin(span["origin"]))
    console.print(table)


def _print_examples(found: dict[str, Any]) -> None:
    click.echo(f"step {found['step']} of {found['model']}: loss {found['loss']:.4f}, learning rate {found['learning_rate']:.2e}")
    click.echo(f"chain {found['chain_hash']}  tokens {found['token_hash']}")
    for example in found["examples"]:
        origin = example["origin"]
        place = "(no longer in raw)" if origin is None else origin.get("line") or f"{origin['source']}  {_where(origin)}"
        click.echo(f"  {example['id']}  {place}")


def _origin(origin: dict[str, Any] | None) -> tuple[str, Any]:
    """Source and locator of a document; one that was forgotten since has none."""
    from rich.text import Text

    return ("", Text("(no longer in raw)")) if origin is None else (origin["source"], Text(_where(origin)))


def _where(origin: dict[str, Any]) -> str:
    """A locator for people: file, member, and bytes or row."""
    place = f"row {origin['row']}" if origin["row"] is not None else f"bytes {origin['offset']}+{origin['length']}"
    member = f" › {origin['member']}" if origin["member"] else ""
    return f"{origin['uri']}{member} @ {place}"


def _print_document(found: dict[str, Any]) -> None:
    certificate = found["certificate"]
    click.echo(f"{found['doc_id']}: in sequences {', '.join(map(str, found['seq_ids'])) or 'none'}")
    for seen in found["steps"]:
        own = ", ".join(f"{loss:.3f}" for loss in seen["document_losses"])
        click.echo(
            f"  step {seen['step']}, epoch {seen['epoch']}, sequence {seen['seq_id']}: loss {seen['loss']:.3f}, of the document {own}"
        )
    if not found["steps"]:
        click.echo(
            f"  no step up to {certificate['up_to_step']} saw it: so say seed {certificate['seed']} and packed {certificate['packed']},"
        )
        click.echo(f"  and `trainplane verify` proves them for the chain that ends in {certificate['chain_hash']}")
