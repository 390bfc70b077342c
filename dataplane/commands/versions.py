"""Commands on the versions of the tables: snapshot and lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from dataplane.commands.printing import JSON_OPTION, console, json_text, print_rows, section


@click.group()
def snapshot() -> None:
    """Versions of the tables: list, show, tag, compare."""


@snapshot.command("list")
@click.argument("tables", nargs=-1)
@JSON_OPTION
def snapshot_list(tables: Sequence[str], as_json: bool) -> None:
    """Lists the versions of TABLES (all by default), newest first, with what refers to each."""
    from dataplane.upkeep.versions import list_versions

    print_rows(list_versions(tables), as_json)


@snapshot.command("show")
@click.argument("table")
@click.argument("version", default="current")
@JSON_OPTION
def snapshot_show(table: str, version: str, as_json: bool) -> None:
    """Shows a VERSION of a TABLE: a tag, a digest or its start, or `current`."""
    from dataplane.upkeep.versions import show

    found = show(table, version)
    if as_json:
        click.echo(json_text(found))
        return
    screen = console()
    section(screen, f"{table} at {version}", [{k: v for k, v in found.items() if k not in ("columns", "made_by")}])
    section(screen, "columns", [{"column": name, "type": kind} for name, kind in found["columns"].items()])
    section(screen, "made by", found["made_by"])


@snapshot.command("tag")
@click.argument("name")
@click.argument("tables", nargs=-1)
@click.option("--at", default="current", show_default=True, metavar="VERSION", help="Which version of each table.")
@click.option("--delete", is_flag=True, help="Take the tag away instead.")
def snapshot_tag(name: str, tables: Sequence[str], at: str, delete: bool) -> None:
    """Gives the current versions of TABLES (all by default) a NAME, in snapshots.yaml, which Git keeps."""
    from dataplane.upkeep.versions import tag, untag

    if delete:
        untag(name)
        click.echo(f"{name}: taken away")
    else:
        click.echo(f"{name}: {len(tag(name, tables, at))} tables; commit snapshots.yaml to keep it")


@snapshot.command("compare")
@click.argument("before")
@click.argument("after")
@click.argument("tables", nargs=-1)
@JSON_OPTION
def snapshot_compare(before: str, after: str, tables: Sequence[str], as_json: bool) -> None:
    """Says for each of TABLES (all by default) whether two versions are equal; `dataplane diff` names the documents."""
    from dataplane.upkeep.versions import compare

    print_rows(compare(before, after, tables), as_json)


@click.group()
def lake() -> None:
    """The place of the tables: what it costs, whether it is whole, and where it is."""


@lake.command()
@JSON_OPTION
def du(as_json: bool) -> None:
    """Says what each table takes: its current version, its history, and files that nothing needs."""
    from dataplane.upkeep.space import dvc_cache_bytes, measure

    spaces = [asdict(space) for space in measure()]
    if as_json:
        click.echo(json_text({"tables": spaces, "dvc_cache_bytes": dvc_cache_bytes()}))
        return
    total = {"table": "total"} | {key: sum(space[key] for space in spaces) for key in spaces[0] if key != "table"} if spaces else {}
    print_rows([*spaces, *([total] if total else [])], as_json)
    click.echo(f"DVC's cache: {dvc_cache_bytes():,} bytes")


@lake.command()
@click.option("--dry-run", is_flag=True, help="Only say which versions would go.")
@click.option("--sole-owner", is_flag=True, help="Say that no other project uses this lake (needed where lake.uri is set).")
@JSON_OPTION
def compact(dry_run: bool, sole_owner: bool, as_json: bool) -> None:
    """Removes the versions that are not current, have no tag and are named by no Git commit."""
    from dataplane.upkeep.space import drop, unreferenced

    stale = unreferenced(sole_owner=sole_owner)
    if dry_run:
        rows = [{"table": table, "digest": version.digest, "rows": version.rows} for table, of in stale.items() for version in of]
    else:
        rows = [asdict(dropped) for dropped in drop(stale)]
    print_rows(rows, as_json)
    if not rows and not as_json:
        click.echo("nothing to remove")


@lake.command()
@click.argument("tables", nargs=-1)
@click.option("--history", is_flag=True, help="Read the earlier versions as well.")
@JSON_OPTION
def verify(tables: Sequence[str], history: bool, as_json: bool) -> None:
    """Reads TABLES (all by default) whole, holds every fragment against its digest, and names what is damaged."""
    from dataplane.upkeep.verify import verify as check

    faults = check(names=tables, history=history)
    if faults or as_json:
        print_rows([asdict(fault) for fault in faults], as_json)
    else:
        click.echo("every fragment holds what was written")
    if faults:
        raise SystemExit(1)


@lake.command()
@click.option("--format", "form", type=click.Choice(["lance", "parquet"]), help="Format of the tables.")
@click.option("--dvc", "keeper", type=click.Choice(["cached", "referenced"]), help="Whether DVC holds the tables, or snapshot files only.")
@click.option("--uri", metavar="URI", help="Folder or s3://bucket/prefix; 'lake' is the project's own.")
def move(form: str | None, keeper: str | None, uri: str | None) -> None:
    """Copies the current and tagged versions to another format or place, and changes settings.yaml and dvc.yaml."""
    from dataplane.settings import LakeSettings, load_settings
    from dataplane.upkeep.move import move as carry_out

    asked = {"format": form, "dvc": keeper, "uri": "" if uri == "lake" else uri}
    now = load_settings().lake.model_dump(mode="json")
    wanted = LakeSettings.parse(now | {key: value for key, value in asked.items() if value is not None}, where="lake")
    for line in carry_out(wanted):
        click.echo(line)
