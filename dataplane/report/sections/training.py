"""The section on training: curves of pretraining, fine-tuning and preference training."""

from __future__ import annotations

from typing import Any

from dataplane.report.blocks import Block, Column, Heading, Note, Section, Table
from dataplane.report.charts import Series
from dataplane.report.project import Project
from dataplane.report.sections.alignment import alignment
from dataplane.report.sections.curves import charts, points
from dataplane.report.writing import number

LOSS = "loss, nats a token"
EVIDENCE = "models/pretrain/evidence"
SHOWN_DOCUMENTS = 3  # of a spike; the file has more


def training(project: Project) -> Section:
    """Loss and learning rate of each training stage over its steps."""
    section = Section("training", "Training", "Loss by optimizer step.")
    for title, blocks in (
        ("Pretraining", _pretraining(project)),
        ("Supervised fine-tuning", _tuning(project)),
        ("Preference training (DPO)", _preference(project)),
    ):
        section.blocks += [Heading(title), *(blocks or [Note("Not run yet.")])]
    section.blocks += alignment(project)
    return section


def _pretraining(project: Project) -> list[Block]:
    rows, metrics = project.plot("pretrain"), project.metrics("pretrain")
    held_out = _held_out(metrics) or points(rows, "held_out_loss")
    series = [Series("training", points(rows, "loss")), Series("held out", held_out, dots=True)]
    drawn = charts(
        [
            (series, LOSS, "Pretraining loss"),
            ([Series("", points(rows, "learning_rate"))], "learning rate", "Learning rate"),
            ([Series("", points(rows, "grad_norm"))], "gradient norm", "Norm of the gradient before clipping"),
        ]
    )
    return [*_pretraining_text(metrics), *drawn, *_rollbacks(project, metrics)] if drawn else []


def _rollbacks(project: Project, metrics: dict[str, Any]) -> list[Block]:
    """Each spike that the run went back from, with the documents that added most to it."""
    rows = []
    for made in metrics.get("rollbacks") or []:
        found = project.json(f"{EVIDENCE}/step_{made['spike']:08d}.json") or {}
        documents = found.get("documents") or [{}]
        for document in documents[:SHOWN_DOCUMENTS]:
            # What was not finite stands there as text.
            measured = [value if isinstance(value, int | float) else None for value in map(document.get, ("tokens", "loss", "share"))]
            rows.append([made["spike"], made["reason"], made["sequences"], document.get("doc_id"), *measured])
    columns = [
        Column("Step", "int"), Column("What was wrong"), Column("Sequences skipped", "int"), Column("Document", "code"),
        Column("Tokens", "int"), Column("Loss", "decimal"), Column("Share of the loss", "decimal"),
    ]  # fmt: skip
    return [Heading("Spikes that the run went back from"), Table(columns, rows)] if rows else []


def _held_out(metrics: dict[str, Any]) -> list[tuple[float, float]]:
    return sorted((float(step), float(loss)) for step, loss in (metrics.get("held_out_loss") or {}).items())


def _pretraining_text(metrics: dict[str, Any]) -> list[Block]:
    if not metrics:
        return []
    size = ", ".join(f"{number(metrics.get(name, 0))} {name}" for name in ("parameters", "steps", "tokens"))
    first, last, guess = (number(metrics.get(name, 0), 2) for name in ("first_loss", "last_loss", "ln_vocabulary"))
    text = f"{size} ({number(metrics.get('epochs', 0), 2)} epochs); the loss went from {first} to {last}."
    return [Note(f"{text} A guess without knowledge costs ln(vocabulary) = {guess}.")]


def _tuning(project: Project) -> list[Block]:
    rows = project.plot("sft")
    return charts([([Series("", points(rows, "loss"))], LOSS, "Fine-tuning loss")])


def _preference(project: Project) -> list[Block]:
    rows = project.plot("dpo")
    return charts(
        [
            ([Series("", points(rows, "loss"))], "loss", "DPO loss"),
            ([Series("", points(rows, "margin"))], "reward margin", "Margin between the preferred and the other answer"),
            ([Series("", points(rows, "accuracy"))], "accuracy", "Share of pairs in which the preferred answer is ranked first"),
        ]
    )
