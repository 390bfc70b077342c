"""Commands on what is installed: plugins and models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from dataplane.commands.printing import JSON_OPTION, print_rows


@click.group()
def plugins() -> None:
    """Operators, sources and rule sets that are installed."""


@plugins.command("list")
@JSON_OPTION
def plugins_list(as_json: bool) -> None:
    """Lists every entry point with its distribution."""
    from dataplane.registry import GROUPS, entries, owner

    rows = [
        {"group": group, "name": name, "object": point.value, "distribution": owner(point)}
        for group in GROUPS
        for name, point in entries(group).items()
    ]
    print_rows(rows, as_json)


@plugins.command("check")
@click.argument("names", nargs=-1)
@JSON_OPTION
def plugins_check(names: Sequence[str], as_json: bool) -> None:
    """Holds the operators' classes (all, or those named) and the project's params against the contract."""
    from dataplane.checks import check_plugins

    rows = check_plugins(names)
    print_rows(rows, as_json)
    if any(row["fault"] for row in rows):
        raise SystemExit(1)


@plugins.command("lock")
def plugins_lock() -> None:
    """Writes plugins.lock.json: the code that the stages stand on, where DVC can see it."""
    from dataplane import lockfile
    from dataplane.params import load_params

    extra = {}
    if "sample" in load_params(Path("params.yaml")):  # this project's raw files come out of installed packages
        from dataplane.sample.packages import lock_entry

        extra["sample"] = lock_entry()
    click.echo(f"wrote {lockfile.write(extra=extra)}")


@click.group()
def models() -> None:
    """Model files that operators need."""


@models.command("list")
@JSON_OPTION
def models_list(as_json: bool) -> None:
    """Lists the known models and whether they are on this machine."""
    from dataplane.models import list_models
    from dataplane.settings import load_settings

    print_rows(list_models(load_settings()), as_json)


@models.command("fetch")
@click.argument("names", nargs=-1)
def models_fetch(names: Sequence[str]) -> None:
    """Fetches models (those named, or all that the project's pipeline needs) and checks their sha256."""
    from dataplane.models import fetch, needed
    from dataplane.settings import load_settings

    settings = load_settings()
    for name in names or needed():
        click.echo(f"{name}: {fetch(name, settings)}")
