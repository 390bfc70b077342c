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
@click.option("--prompts", multiple=True, metavar="GLOB", help="JSONL files of prompts, for ppo and grpo.")
@click.option("--align", multiple=True, type=click.Choice(["reward", "ppo", "grpo"]), help="Stage to add; may be given several times.")
@click.option("--in-place", is_flag=True, help="Read the raw files where they are instead of copying them under DVC.")
@click.option("--data-only", is_flag=True, help="Leave the training stages out.")
@click.option("--lake-format", type=click.Choice(["lance", "parquet"]), default="lance", show_default=True, help="Format of the tables.")
@click.option("--lake-dvc", type=click.Choice(["cached", "referenced"]), help="Whether DVC holds the tables, or their snapshot files only.")
@click.option("--lake-uri", default="", metavar="URI", help="Folder or s3://bucket/prefix for the tables; DVC then holds no rows.")
def init(
    directory: Path,
    sources: Sequence[str],
    benchmarks: Sequence[str],
    instructions: Sequence[str],
    preferences: Sequence[str],
    prompts: Sequence[str],
    align: Sequence[str],
    in_place: bool,
    data_only: bool,
    lake_format: str,
    lake_dvc: str | None,
    lake_uri: str,
) -> None:
    """Makes a project in DIRECTORY for your own files; `cd DIRECTORY && dvc repro` runs it."""
    from dataplane.project import Wanted, create
    from dataplane.settings import LakeSettings

    held = lake_dvc or ("referenced" if lake_uri else "cached")
    lake = LakeSettings.parse({"format": lake_format, "dvc": held, "uri": lake_uri}, where="lake")
    wanted = Wanted(sources, benchmarks, instructions, preferences, prompts, align, in_place, training=not data_only, lake=lake)
    for line in create(directory, wanted):
        click.echo(line)
