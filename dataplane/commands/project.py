"""Commands that make a project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--source", "sources", multiple=True, required=True, metavar="NAME[:KIND]=GLOB", help="Raw files; may be given several times."
)
@click.option(
    "--benchmark", "benchmarks", multiple=True, metavar="NAME=GLOB", help="JSONL files of benchmark items to keep out of training."
)
@click.option("--instructions", multiple=True, metavar="GLOB", help="JSONL files of chat examples; adds the sft stage.")
@click.option("--preferences", multiple=True, metavar="GLOB", help="JSONL files of preference pairs; adds the dpo stage.")
@click.option("--in-place", is_flag=True, help="Read the raw files where they are instead of copying them under DVC.")
@click.option("--data-only", is_flag=True, help="Leave the training stages out.")
def init(
    directory: Path,
    sources: Sequence[str],
    benchmarks: Sequence[str],
    instructions: Sequence[str],
    preferences: Sequence[str],
    in_place: bool,
    data_only: bool,
) -> None:
    """Makes a project in DIRECTORY for your own files; `cd DIRECTORY && dvc repro` runs it."""
    from dataplane.project import Wanted, create

    wanted = Wanted(sources, benchmarks, instructions, preferences, in_place, training=not data_only)
    for line in create(directory, wanted):
        click.echo(line)
