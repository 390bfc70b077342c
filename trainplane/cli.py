"""The command line of the training plane. Heavy imports live inside the commands that need them."""

from __future__ import annotations

import json
import sys
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
@click.option("--run", default="latest", show_default=True, help="Run, by the start of its id.")
@click.option("--step", type=click.IntRange(min=1), help="Optimizer step to explain.")
@click.option("--doc", "doc_id", help="Document whose steps are wanted.")
@JSON_OPTION
def trace(run: str, step: int | None, doc_id: str | None, as_json: bool) -> None:
    """From a step to raw records (--step), or from a document to steps (--doc)."""
    from trainplane.lineage.trace import trace_document, trace_step

    if (step is None) == (doc_id is None):
        raise click.UsageError("give --step N or --doc DOC_ID")
    if step is not None:
        found = trace_step(step, run)
        _show(found, as_json, _print_step)
    else:
        found = trace_document(str(doc_id), run)
        _show(found, as_json, _print_document)


@main.command()
@JSON_OPTION
def verify(as_json: bool) -> None:
    """Proves the ledger of pretraining against the packed snapshot: chain, order and tokens."""
    from pathlib import Path

    from dataplane.params import load_params
    from trainplane.lineage.verify import verify_run
    from trainplane.params import PretrainParams

    params = PretrainParams.parse(load_params(Path("params.yaml")).get("pretrain"), where="pretrain")
    proof = verify_run(params.seed, params.global_batch)
    _show(proof, as_json, lambda p: click.echo(f"{p['steps']} steps hold; chain ends in {p['chain_hash']}, data is packed {p['packed']}"))


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


def _print_step(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console() if sys.stdout.isatty() else Console(width=200)
    head = f"step {found['step']} of run {found['run_id']}: loss {found['loss']:.4f}, learning rate {found['learning_rate']:.2e}"
    console.print(Text(head, style="bold"))
    console.print(Text(f"chain {found['chain_hash']}  tokens {found['token_hash']}"))
    table = Table(show_edge=False, header_style="bold")
    for name in ("sequence", "loss", "document", "tokens", "source", "where"):
        table.add_column(name, overflow="fold", justify="right" if name in ("sequence", "loss", "tokens") else "left")
    for sequence in found["sequences"]:
        for i, span in enumerate(sequence["spans"]):
            first = (str(sequence["seq_id"]), f"{sequence['loss']:.3f}") if i == 0 else ("", "")
            origin = span["origin"]
            table.add_row(*first, span["doc_id"], str(span["length"]), origin["source"], Text(_where(origin)))
    console.print(table)


def _where(origin: dict[str, Any]) -> str:
    """A locator for people: file, member, and bytes or row."""
    place = f"row {origin['row']}" if origin["row"] is not None else f"bytes {origin['offset']}+{origin['length']}"
    member = f" › {origin['member']}" if origin["member"] else ""
    return f"{origin['uri']}{member} @ {place}"


def _print_document(found: dict[str, Any]) -> None:
    steps = ", ".join(str(step["step"]) for step in found["steps"]) or "none"
    click.echo(f"{found['doc_id']}: in sequences {', '.join(map(str, found['seq_ids'])) or 'none'}; consumed by steps {steps}")
