"""The section on evaluation: bits per byte against gzip, tasks, and what the models write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataplane.report.blocks import Block, Column, Figure, Heading, Note, Sample, Samples, Section, Table
from dataplane.report.charts import bar_chart
from dataplane.report.project import Project

METRIC = "bits_per_byte"
# Order of the compared models; others follow by name.
MODELS = ("gzip", "pretrain", "sft", "dpo", "ppo", "grpo")
MODEL_NAMES = {"gzip": "gzip -9"}
GROUPINGS = (("source=", "source"), ("lang=", "language"), ("kind=", "kind"))
MAX_GROUPS = 20
MAX_GENERATIONS = 12

_EVALS = """
    SELECT coalesce(stage, '') AS stage, coalesce(task, '') AS task, task_version, coalesce("group", 'all') AS "group",
           coalesce(metric, '') AS metric, value, standard_error, n, contamination
    FROM evals ORDER BY ALL
"""


def evaluation(project: Project) -> Section:
    """Every measurement of every model."""
    lead = "Bits a model needs for one byte of held-out text, next to gzip -9 on the same text; tasks; and texts that the models wrote."
    section = Section("evaluation", "Evaluation", lead)
    rows = project.ask(_EVALS) if project.has("evals") else []
    compression = [row for row in rows if row["metric"] == METRIC]
    section.blocks += _overall(compression)
    for prefix, name in GROUPINGS:
        section.blocks += _grouped(compression, prefix, name)
    section.blocks += _tasks([row for row in rows if row["metric"] != METRIC])
    section.blocks += _generations(project)
    return section


def _models(rows: Sequence[dict[str, Any]]) -> list[str]:
    found = {row["stage"] for row in rows}
    return [*(m for m in MODELS if m in found), *sorted(found.difference(MODELS))]


def _overall(rows: list[dict[str, Any]]) -> list[Block]:
    rows = [row for row in rows if row["group"] == "all"]
    if not rows:
        return []
    columns = [
        Column("Model", "code"),
        Column("Bits per byte", "decimal"),
        Column("Standard error", "decimal", 4),
        Column("Documents", "int"),
    ]
    by_model = [[MODEL_NAMES.get(m, m), r["value"], r["standard_error"], r["n"]] for m in _models(rows) for r in rows if r["stage"] == m]
    return [Heading("Bits per byte"), Table(columns, by_model)]


def _grouped(rows: list[dict[str, Any]], prefix: str, name: str) -> list[Block]:
    rows = [row for row in rows if row["group"].startswith(prefix)]
    if not rows:
        return []
    models = _models(rows)
    values = {(row["group"], row["stage"]): row["value"] for row in rows}
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row["group"]] = max(sizes.get(row["group"], 0), row["n"] or 0)
    groups = sorted(sizes, key=lambda group: (-sizes[group], group))[:MAX_GROUPS]
    labels = [group.removeprefix(prefix) for group in groups]
    columns = [Column(name.capitalize(), "code"), Column("Documents", "int"), *(Column(MODEL_NAMES.get(m, m), "decimal") for m in models)]
    body = [[label, sizes[group], *(values.get((group, m)) for m in models)] for label, group in zip(labels, groups, strict=True)]
    caption = f"The {len(groups)} with the most documents, of {len(sizes)}." if len(sizes) > len(groups) else ""
    chart = bar_chart(
        labels, [(MODEL_NAMES.get(m, m), [values.get((g, m)) for g in groups]) for m in models], what=f"Bits per byte by {name}"
    )
    return [Heading(f"Bits per byte by {name}"), Table(columns, body, caption), Figure(chart, f"Bits per byte by {name}; less is better")]


def _tasks(rows: list[dict[str, Any]]) -> list[Block]:
    if not rows:
        return []
    columns = [
        Column("Task", "code"), Column("Version"), Column("Model", "code"), Column("Group", "code"), Column("Metric", "code"),
        Column("Value", "decimal"), Column("Standard error", "decimal"), Column("Items", "int"), Column("Contamination"),
    ]  # fmt: skip
    keys = ("task", "task_version", "stage", "group", "metric", "value", "standard_error", "n", "contamination")
    ordered = sorted(rows, key=lambda row: (row["task"], row["metric"], row["group"], _rank(row["stage"])))
    return [Heading("Tasks"), Table(columns, [[row[key] for key in keys] for row in ordered])]


def _rank(model: str) -> tuple[int, str]:
    return (MODELS.index(model) if model in MODELS else len(MODELS), model)


def _generations(project: Project) -> list[Block]:
    found = project.json("metrics/generations.json")
    written = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    if not written:
        return []
    by_prompt: dict[str, list[Sample]] = {}
    for item in written:
        label = f"{item.get('model', '')} {item.get('mode', '')}"
        by_prompt.setdefault(str(item.get("prompt", "")), []).append(Sample(label, str(item.get("text", ""))))
    blocks: list[Block] = [Heading("Texts the models wrote")]
    blocks += [Samples(f"Prompt: {prompt}", [items], open=True) for prompt, items in list(by_prompt.items())[:MAX_GENERATIONS]]
    if len(by_prompt) > MAX_GENERATIONS:
        blocks.append(Note(f"The first {MAX_GENERATIONS} of {len(by_prompt)} prompts."))
    return blocks
