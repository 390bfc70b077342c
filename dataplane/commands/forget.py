"""The command that forgets documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from dataplane.commands.printing import JSON_OPTION, console, json_text, section

SHOWN = 20


@click.command()
@click.option("--doc-id", "doc_ids", multiple=True, metavar="ID", help="A document's id or its start; may be given several times.")
@click.option("--url", "urls", multiple=True, help="The address of a record; may be given several times.")
@click.option("--match", default="", metavar="SQL", help="A predicate over the columns of `raw` and `documents`.")
@click.option("--copies", is_flag=True, help="Forget documents of the same text, or in the same cluster of duplicates, too.")
@click.option("--why", default="", metavar="TEXT", help="The reason; it is kept, so name no person in it.")
@click.option("--purge", is_flag=True, help="Remove all forgotten documents from raw files, older versions and DVC's cache as well.")
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten and what descends from it.")
@JSON_OPTION
def forget(
    doc_ids: Sequence[str], urls: Sequence[str], match: str, copies: bool, why: str, purge: bool, dry_run: bool, as_json: bool
) -> None:
    """Keeps documents out of every table from the next `dvc repro` on, and lists what descends from them."""
    from dataplane.errors import UsageError
    from dataplane.lineage.forget import Chosen

    chosen = Chosen(doc_ids, urls, match, copies)
    named = bool(doc_ids or urls or match)
    if not named and not purge:
        raise UsageError("no document is named", where="forget", fix="give --doc-id, --url or --match")
    if named and not why and not dry_run:
        raise UsageError("a reason is needed", where="forget", fix='for example --why "request 2026-17"')
    report = _bury(chosen, why, dry_run) if named else {}
    if purge and not dry_run:
        from dataplane.upkeep.purge import purge as carry_out

        report["purged"] = asdict(carry_out())
    if as_json:
        click.echo(json_text(report))
    else:
        _print(report, dry_run, purge)
    if report.get("purged", {}).get("left"):
        raise SystemExit(1)


def _bury(chosen: Any, why: str, dry_run: bool) -> dict[str, Any]:
    from dataplane.lineage.forget import bury, choose, copies, descendants

    documents = choose(chosen)
    ids = documents.column("doc_id").to_pylist()
    report = {"documents": documents.to_pylist(), "copies": copies(ids), **descendants(ids)}
    if not dry_run:
        bury(documents, why)
    return report


def _print(report: dict[str, Any], dry_run: bool, purge: bool) -> None:
    screen = console()
    for part in ("documents", "copies", "sequences", "steps", "checkpoints", "scores"):
        rows = report.get(part, [])
        more = f", the first {SHOWN}" if len(rows) > SHOWN else ""
        section(screen, f"{part}: {len(rows):,}{more}", rows[:SHOWN])
    if report.get("rows"):
        section(screen, "rows in current tables", [{"table": table, "rows": count} for table, count in report["rows"].items()])
    if report.get("untold"):
        section(screen, "packed versions that are gone, so that their steps cannot be told", [{"digest": d} for d in report["untold"]])
    if purged := report.get("purged"):
        section(screen, "erased from", [{"file": file} for file in purged["erased"]])
        section(screen, "older versions removed", [{"table": table, "versions": len(of)} for table, of in purged["dropped"].items()])
        section(screen, "tags that lost a table", [{"tag": name} for name in purged["untagged"]])
        section(screen, "still there", [{"what": what} for what in purged["left"]])
        screen.print(f"\n{purged['cache_files']} files removed from DVC's cache; {len(purged['left'])} things left to do")
    elif not dry_run and not purge:
        screen.print("\ntombstones are set: commit forgotten.jsonl, and run `dvc repro`; `dataplane forget --purge` removes the past")
