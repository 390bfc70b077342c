"""Sections on what came in and how much of it each stage kept."""

from __future__ import annotations

from typing import Any

from dataplane.report.blocks import NOT_RUN, Column, Note, Section, Table
from dataplane.report.project import Project

# Stages that account for rows, in the order in which they run.
FUNNEL = ("ingest", "clean", "select", "dedup", "decontaminate", "mix", "tokenize", "pack")


def funnel(project: Project) -> Section:
    """Rows in, kept, dropped and quarantined of each stage."""
    section = Section("funnel", "Funnel", "How many records each stage took in, kept, dropped and set aside because they failed.")
    rows = {stage: project.metrics(stage).get("rows") or {} for stage in FUNNEL}
    largest = max((counts.get("in", 0) for counts in rows.values()), default=0)
    columns = [Column("Stage", "code"), *(Column(name, "int") for name in ("In", "Kept", "Dropped", "Quarantined")), Column("", "bar")]
    table = Table(columns, [_funnel_row(stage, counts, largest) for stage, counts in rows.items() if counts])
    absent = [stage for stage, counts in rows.items() if not counts]
    if table.rows:
        section.blocks.append(table)
    if absent and table.rows:
        section.blocks.append(Note(f"Not run yet: {', '.join(absent)}."))
    return section


def _funnel_row(stage: str, counts: dict[str, int], largest: int) -> list[Any]:
    numbers = [counts.get(name, 0) for name in ("in", "kept", "dropped", "quarantined")]
    return [stage, *numbers, [100 * n / largest if largest else 0.0 for n in numbers[1:]]]


def sources(project: Project) -> Section:
    """What was ingested, by source."""
    section = Section("sources", "Sources", "What was read, in which formats, and how many of its records the selection dropped.")
    found: dict[str, dict[str, Any]] = project.metrics("ingest").get("sources") or {}
    if not found:
        return section
    dropped = project.metrics("select").get("dropped_by_source")
    columns = [
        Column("Source", "code"), Column("Kind"), Column("Formats"), Column("Records", "int"), Column("Size", "bytes"),
        Column("Dropped by select", "int"), Column("of its records", "share"),
    ]  # fmt: skip
    section.blocks.append(Table(columns, [_source_row(name, values, dropped) for name, values in sorted(found.items())]))
    if dropped is None:
        section.blocks.append(Note(f"Selection: {NOT_RUN.lower()}"))
    return section


def _source_row(name: str, values: dict[str, Any], dropped: dict[str, int] | None) -> list[Any]:
    records = values.get("records", 0)
    lost = None if dropped is None else dropped.get(name, 0)
    part = lost / records if lost is not None and records else None
    return [name, values.get("kind"), ", ".join(values.get("formats") or []), records, values.get("bytes"), lost, part]
