"""Sections on what was dropped or changed and why: selection, cleaning and quarantine."""

from __future__ import annotations

import json
from typing import Any

from dataplane.report.blocks import Column, Heading, Note, Sample, Samples, Section, Table
from dataplane.report.project import Project
from dataplane.report.writing import number

SAMPLES = 2
OPEN_GROUPS = 2
MAX_REASONS = 40
MAX_EDIT_KINDS = 40
MAX_QUARANTINE_ROWS = 20
MAX_SIGNALS = 4

_REASONS = """
    SELECT stage, operator, reason, count(DISTINCT doc_id) AS documents, min(doc_id, ?) AS samples
    FROM decisions GROUP BY ALL ORDER BY documents DESC, stage, operator, reason
"""
_SIGNALS = "SELECT stage, operator, reason, doc_id, min(signals) AS signals FROM decisions WHERE list_contains(?, doc_id) GROUP BY ALL"
_EDITS = """
    SELECT operator, kind, sum(count)::BIGINT AS edits, count(DISTINCT doc_id) AS documents, min(doc_id, ?) AS samples
    FROM edits GROUP BY ALL ORDER BY edits DESC, operator, kind
"""
_QUARANTINE = """
    SELECT stage, source, uri, member, "offset", operator, error, message
    FROM quarantine ORDER BY ALL LIMIT ?
"""


def selection(project: Project) -> Section:
    """Documents dropped by a rule or filter, by reason, with samples."""
    lead = "Each reason for which documents were dropped. One document can have several reasons, so their counts overlap."
    section = Section("dropped", "Dropped documents", lead)
    if not project.has("select_decisions") and not project.has("clean_decisions"):
        return section
    reasons = project.ask(_REASONS, [SAMPLES])
    if not reasons:
        section.blocks.append(Note("No document was dropped."))
        return section
    columns = [
        Column("Stage"), Column("Operator", "code"), Column("Reason", "code"), Column("Documents", "int"),
    ]  # fmt: skip
    shown = reasons[:MAX_REASONS]
    rows = [[r["stage"], r["operator"], r["reason"], r["documents"]] for r in shown]
    section.blocks += [Table(columns, rows, _rest(len(reasons), MAX_REASONS)), Heading("Samples by reason")]
    section.blocks += _reason_samples(project, shown)
    return section


def _reason_samples(project: Project, reasons: list[dict[str, Any]]) -> list[Samples]:
    ids = sorted({doc_id for r in reasons for doc_id in r["samples"]})
    texts = project.texts(ids)
    signals = {(s["stage"], s["operator"], s["reason"], s["doc_id"]): s["signals"] for s in project.ask(_SIGNALS, [ids])}
    groups = []
    for i, r in enumerate(reasons):
        key = (r["stage"], r["operator"], r["reason"])
        row = [Sample(doc_id, texts.get(doc_id, ""), _signal_text(signals.get((*key, doc_id)))) for doc_id in r["samples"]]
        groups.append(Samples(f"{r['operator']}.{r['reason']} ({number(r['documents'])})", [row], open=i < OPEN_GROUPS))
    return groups


def _signal_text(signals: str | None) -> str:
    """The signal values that decided, as `name = value`; what is not a JSON object is shown as it is."""
    try:
        values = json.loads(signals or "{}")
    except ValueError:
        return str(signals)
    if not isinstance(values, dict):
        return str(signals)
    written = [f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}" for name, value in sorted(values.items())]
    return ", ".join(written[:MAX_SIGNALS])


def edits(project: Project) -> Section:
    """Changes to the text, by operator and kind, with samples of what came out."""
    section = Section("edits", "Edits", "What cleaning changed in the texts. Samples show the text after the edit.")
    if not project.has("edits"):
        return section
    found = project.ask(_EDITS, [SAMPLES])
    if not found:
        section.blocks.append(Note("No text was changed."))
        return section
    columns = [Column("Operator", "code"), Column("Kind", "code"), Column("Edits", "int"), Column("Documents", "int")]
    shown = found[:MAX_EDIT_KINDS]
    rows = [[r["operator"], r["kind"], r["edits"], r["documents"]] for r in shown]
    section.blocks.append(Table(columns, rows, _rest(len(found), MAX_EDIT_KINDS)))
    texts = project.texts({doc_id for r in shown for doc_id in r["samples"]})
    for r in shown:
        items = [Sample(doc_id, texts.get(doc_id, "")) for doc_id in r["samples"]]
        section.blocks.append(Samples(f"{r['operator']}: {r['kind']} ({number(r['edits'])})", [items]))
    return section


def quarantine(project: Project) -> Section:
    """Records that could not be processed."""
    section = Section("quarantine", "Quarantine", "Records that failed: where they lie, and the error. They are kept aside, not lost.")
    tables = [table for table in ("ingest_quarantine", "clean_quarantine") if project.has(table)]
    if not tables:
        return section
    total = project.ask("SELECT count(*) AS n FROM quarantine")[0]["n"]
    if not total:
        section.blocks.append(Note("No record failed."))
        return section
    columns = [
        Column("Stage"), Column("Source", "code"), Column("File", "code"), Column("Member", "code"), Column("Offset", "int"),
        Column("Operator", "code"), Column("Error"), Column("Message"),
    ]  # fmt: skip
    rows = [list(row.values()) for row in project.ask(_QUARANTINE, [MAX_QUARANTINE_ROWS])]
    section.blocks.append(Table(columns, rows, _rest(total, MAX_QUARANTINE_ROWS)))
    return section


def _rest(total: int, shown: int) -> str:
    return f"The first {number(shown)} of {number(total)}." if total > shown else ""
