"""The appendix: commands that ask the project itself, with ids that occur in it."""

from __future__ import annotations

from dataplane.report.blocks import Command, Section
from dataplane.report.project import Project

QUESTION = "SELECT reason, count(*) FROM decisions GROUP BY 1 ORDER BY 2 DESC"


def appendix(project: Project) -> Section:
    """Three questions, as far as the stages that answer them have run."""
    section = Section("ask", "Ask it yourself", "Run in the project's folder.")
    if project.has("select_decisions") or project.has("clean_decisions"):
        section.blocks.append(Command(f'dataplane sql "{QUESTION}"', "Why documents were dropped, most frequent reason first."))
    step = _last_step(project)
    doc_id = _trained_document(project, step)
    if doc_id:
        section.blocks.append(Command(f"dataplane why {doc_id}", "The whole life of one document that was trained on."))
    if step:
        section.blocks.append(Command(f"trainplane trace --run latest --step {step}", "From one optimizer step back to raw records."))
    return section


def _last_step(project: Project) -> int | None:
    if not project.has("consumed"):
        return None
    step: int | None = project.ask("SELECT max(step) AS step FROM consumed WHERE stage = 'pretrain'")[0]["step"]
    return step


def _trained_document(project: Project, step: int | None) -> str | None:
    """The first document of the first sequence of a step; before training, the first of the training order."""
    if step and project.has("packed"):
        query = """SELECT spans[1].doc_id AS doc_id FROM packed WHERE seq_id =
                   (SELECT min(seq_ids[1]) FROM consumed WHERE stage = 'pretrain' AND step = ?)"""
        rows = project.ask(query, [step])
    elif project.has("mixture"):
        rows = project.ask("SELECT doc_id FROM mixture ORDER BY position LIMIT 1")
    else:
        rows = []
    return rows[0]["doc_id"] if rows else None
