"""Commands that take data out of the lake: export, and publish for what is said of it."""

from __future__ import annotations

from pathlib import Path

import click

from dataplane.commands.printing import JSON_OPTION, json_text

MIB = 1 << 20
FOLDER = click.argument("folder", type=click.Path(path_type=Path))


@click.command()
@click.argument("table")
@click.option("--to", type=click.Choice(["parquet", "jsonl", "megatron", "mds", "flat"]), required=True, help="Format of the files.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to make.")
@click.option("--at", default="current", show_default=True, metavar="NAME", help="Version: a tag, or a digest or its start.")
@click.option(
    "--select",
    type=click.Choice(["all", "selected", "deduplicated", "decontaminated", "mixture", "held_out"]),
    help="Which documents; mixture is in training order, repetitions included. "
    "By default decontaminated for documents, mixture for tokens, else all.",
)
@click.option("--columns", default="", metavar="NAME,...", help="What to keep (also operator.signal); by default what the format can hold.")
@click.option("--title", default="", help="Name of the data set on its card.")
@click.option("--shard-mib", type=click.IntRange(min=1), default=256, show_default=True, help="Size at which a shard is full, MiB.")
@click.option("--compress", type=click.Choice(["none", "gz", "zst"]), default="none", show_default=True, help="Compression of jsonl.")
@JSON_OPTION
def export(
    table: str, to: str, out: Path, at: str, select: str | None, columns: str, title: str, shard_mib: int, compress: str, as_json: bool
) -> None:
    """Writes rows of TABLE for other tools.

    parquet and jsonl with a dataset card and Croissant, megatron (.bin, .idx), mds, flat (packed, as arrays to map into memory).
    """
    from dataplane.publish.export import Options
    from dataplane.publish.export import export as write
    from dataplane.publish.rows import Request

    names = tuple(name.strip() for name in columns.split(",") if name.strip())
    options = Options(title or f"Terraplane {table}", shard_mib * MIB, compress)
    record = write(Request(table, select or "", at, names), to, out, options)
    n_bytes = sum(about["bytes"] for about in record["files"].values())
    if as_json:
        click.echo(json_text(record))
    else:
        size = f"{len(record['files'])} files, {n_bytes / MIB:,.1f} MiB"
        click.echo(f"{out}: {record['rows']:,} rows of {table} ({record['select']}), {size}")


@click.group()
def publish() -> None:
    """What is said of an export: its card, its Croissant description, and whether its files are whole."""


@publish.command()
@FOLDER
def card(folder: Path) -> None:
    """Prints the dataset card of the export in FOLDER, made anew from the lake."""
    _print(folder, "README.md")


@publish.command()
@FOLDER
def croissant(folder: Path) -> None:
    """Prints the Croissant description of the export in FOLDER, made anew from the lake."""
    _print(folder, "croissant.json")


@publish.command()
@FOLDER
@JSON_OPTION
def check(folder: Path, as_json: bool) -> None:
    """Holds the files in FOLDER against the sha256 that the export noted, as after a copy."""
    from dataplane.publish.folder import verify

    record = verify(folder)
    click.echo(json_text(record["files"]) if as_json else f"{folder}: {len(record['files'])} files as they were exported")


def _print(folder: Path, name: str) -> None:
    from dataplane.publish.export import descriptions, reopen

    click.echo(descriptions(*reopen(folder))[name], nl=False)
