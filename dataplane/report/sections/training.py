"""The section on training: curves of pretraining, fine-tuning and preference training."""

from __future__ import annotations

from typing import Any

from dataplane.report.blocks import Block, Column, Heading, Note, Sample, Samples, Section, Table
from dataplane.report.charts import COLOURS, Series
from dataplane.report.project import Project
from dataplane.report.sections.alignment import alignment
from dataplane.report.sections.curves import charts, points
from dataplane.report.writing import number

LOSS = "loss, nats a token"
EVIDENCE = "models/pretrain/evidence"
SAMPLES = "models/pretrain/samples.jsonl"
SHOWN_SAMPLES = 6  # times
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
    series = [
        Series("training", points(rows, "loss")), Series("held out", held_out, dots=True),
        Series("spikes", _spikes(project, metrics), dots=True, line=False),
    ]  # fmt: skip
    drawn = charts(
        [
            (series, LOSS, "Pretraining loss"),
            (_by_language(rows), LOSS, "Held-out loss by language"),
            ([Series("", points(rows, "learning_rate"))], "learning rate", "Learning rate"),
            ([Series("", points(rows, "grad_norm"))], "gradient norm", "Norm of the gradient before clipping"),
        ]
    )
    more = [*_groups(rows), *_rollbacks(project, metrics), *_samples(project)]
    return [*_pretraining_text(metrics), *drawn, *more] if drawn else []


def _by_language(rows: list[dict[str, float]]) -> list[Series]:
    """A line for each language that was held out, as many as the chart tells apart."""
    names = _names(rows, "held_out/lang/")[:COLOURS]
    return [Series(name, points(rows, f"held_out/lang/{name}"), dots=True) for name in names]


def _names(rows: list[dict[str, float]], prefix: str) -> list[str]:
    return sorted({column.removeprefix(prefix) for row in rows for column in row if column.startswith(prefix)})


def _groups(rows: list[dict[str, float]]) -> list[Block]:
    """Where each source and language began and ended, in what was trained on and in what was held out."""
    groups = sorted({*_names(rows, "train/"), *_names(rows, "held_out/")})
    cells = []
    for group in groups:
        by, _, name = group.partition("/")
        ends = [_ends(points(rows, f"{of}/{group}")) for of in ("train", "held_out")]
        cells.append([by, name, *ends[0], *ends[1]])
    columns = [
        Column("By"),
        Column("Group"),
        *(Column(f"{of}, {when}", "decimal") for of in ("Training", "Held out") for when in ("first", "last")),
    ]
    return (
        [Heading("Loss by source and language"), Table(columns, cells, "Nats a token, of the steps since the measurement before.")]
        if cells
        else []
    )


def _ends(curve: list[tuple[float, float]]) -> tuple[float | None, float | None]:
    return (curve[0][1], curve[-1][1]) if curve else (None, None)


def _samples(project: Project) -> list[Block]:
    """What the model wrote while it learned: the prompts side by side, a row for each time."""
    by_step: dict[int, list[Sample]] = {}
    for line in project.lines(SAMPLES):
        text = f"{line.get('prompt', '')}{line.get('text', '')}"
        by_step.setdefault(int(line.get("step", 0)), []).append(Sample(f"step {line.get('step')}", text, ""))
    rows = [by_step[step] for step in sorted(by_step)]
    if len(rows) > SHOWN_SAMPLES:
        rows = [rows[round(i * (len(rows) - 1) / (SHOWN_SAMPLES - 1))] for i in range(SHOWN_SAMPLES)]
    return [Samples("What the model wrote while it learned", rows)] if rows else []


def _spikes(project: Project, metrics: dict[str, Any]) -> list[tuple[float, float]]:
    """The losses of the steps that the run went back from, as far as they were numbers."""
    found = [(made["spike"], _evidence(project, made).get("loss")) for made in metrics.get("rollbacks") or []]
    return [(float(step), float(loss)) for step, loss in found if isinstance(loss, int | float)]


def _evidence(project: Project, made: dict[str, Any]) -> dict[str, Any]:
    return project.json(f"{EVIDENCE}/step_{made['spike']:08d}.json") or {}


def _rollbacks(project: Project, metrics: dict[str, Any]) -> list[Block]:
    """Each spike that the run went back from, with the documents that added most to it."""
    rows = []
    for made in metrics.get("rollbacks") or []:
        documents = _evidence(project, made).get("documents") or [{}]
        for document in documents[:SHOWN_DOCUMENTS]:
            # What was not finite stands there as text.
            measured = [value if isinstance(value, int | float) else None for value in map(document.get, ("tokens", "loss", "share"))]
            rows.append([made["spike"], made["reason"], made["sequences"], document.get("doc_id"), *measured])
    texts = project.texts([row[3] for row in rows if row[3]])
    columns = [
        Column("Step", "int"), Column("What was wrong"), Column("Sequences skipped", "int"), Column("Document", "code"),
        Column("Tokens", "int"), Column("Loss", "decimal"), Column("Share of the loss", "decimal"),
    ]  # fmt: skip
    shown = [[Sample(doc_id, text, f"dataplane why {doc_id}")] for doc_id, text in texts.items()]
    found: list[Block] = [Heading("Spikes that the run went back from"), Table(columns, rows)] if rows else []
    return [*found, *([Samples("Documents of the spikes", shown)] if shown else [])]


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
