"""Sections on what came in and how much of it each stage kept."""

from __future__ import annotations

from typing import Any

from dataplane.report.blocks import NOT_RUN, Column, Note, Section, Table
from dataplane.report.project import Project

# Stages that account for rows, in the order in which they run.
FUNNEL = ("ingest", "clean", "select", "dedup", "decontaminate", "mix", "tokenize", "pack")
# Stage -> the table that says which documents are left after it.
LEFT = (("clean", "documents"), ("select", "selected"), ("dedup", "deduplicated"), ("decontaminate", "decontaminated"), ("mix", "mixture"))


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
    """What was ingested, and how many of its documents were left after each stage, by source."""
    section = Section(
        "sources", "Sources", "What was read, in which formats, and how many documents of each source were left after each stage."
    )
    found: dict[str, dict[str, Any]] = project.metrics("ingest").get("sources") or {}
    if not found:
        return section
    left = {stage: _by_source(project, table) for stage, table in LEFT if project.has("documents", table)}
    columns = [
        Column("Source", "code"), Column("Kind"), Column("Formats"), Column("Size", "bytes"), Column("Records", "int"),
        *(Column(f"After {stage}", "int") for stage in left), *([Column("Left", "share")] if left else []),
    ]  # fmt: skip
    rows = [_source_row(name, values, [counts.get(name, 0) for counts in left.values()]) for name, values in sorted(found.items())]
    section.blocks.append(Table(columns, rows))
    absent = [stage for stage, _ in LEFT if stage not in left]
    if absent:
        section.blocks.append(Note(f"{NOT_RUN.removesuffix('.')}: {', '.join(absent)}."))
    return section


def _by_source(project: Project, table: str) -> dict[str, int]:
    """Distinct documents of a table of ids, by source."""
    query = f'SELECT source, count(*) AS n FROM documents WHERE doc_id IN (SELECT doc_id FROM "{table}") GROUP BY source'
    return {row["source"]: row["n"] for row in project.ask(query)}


def _source_row(name: str, values: dict[str, Any], left: list[int]) -> list[Any]:
    records = values.get("records", 0)
    share = [left[-1] / records if records else None] if left else []
    return [name, values.get("kind"), ", ".join(values.get("formats") or []), values.get("bytes"), records, *left, *share]
