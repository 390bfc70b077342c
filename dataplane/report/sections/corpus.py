"""Sections on what is trained on: the mixture, its tokens, its sequences."""

from __future__ import annotations

from typing import Any

from dataplane.report.blocks import Column, Figure, Note, Section, Table
from dataplane.report.charts import bar_chart
from dataplane.report.project import Project
from dataplane.report.writing import number

MAX_LANGUAGES = 20


def mixture(project: Project) -> Section:
    """What was asked of each group and what the corpus gave."""
    section = Section("mixture", "Mixture", "The share asked of each group of the training text, and the share it got.")
    metrics = project.metrics("mix")
    plan: dict[str, Any] = metrics.get("plan") or {}
    groups: dict[str, dict[str, Any]] = plan.get("groups") or {}
    if not groups:
        return section
    columns = [
        Column(str(plan.get("by", "group")).capitalize(), "code"), Column("Documents", "int"),
        Column(f"Available {plan.get('unit', '')}", "int"),
        Column("Asked", "share"), Column("Achieved", "share"), Column("Epochs", "decimal", 2), Column("Short of text"),
    ]  # fmt: skip
    section.blocks.append(Table(columns, [_group_row(name, values) for name, values in sorted(groups.items())]))
    if phases := plan.get("phases"):
        heads = [Column("Phase", "code"), Column("Group", "code"), Column("Asked", "share"), Column("Achieved", "share")]
        rows = [[phase["name"], name, of["asked"], of["achieved"]] for phase in phases for name, of in phase["groups"].items()]
        section.blocks.append(Table(heads, rows, "Phases in the order of training."))
    if "held_out" in metrics:
        section.blocks.append(Note(_mixture_text(metrics)))
    return section


def _group_row(name: str, values: dict[str, Any]) -> list[Any]:
    numbers = [values.get(key) for key in ("documents", "available", "asked", "achieved", "epochs")]
    return [name, *numbers, "yes" if values.get("short") else "no"]


def _mixture_text(metrics: dict[str, Any]) -> str:
    counts = [number(metrics.get(key, 0)) for key in ("in_mixture", "occurrences", "held_out")]
    gap = (metrics.get("plan") or {}).get("largest_gap", 0.0)
    return (
        f"{counts[0]} documents occur {counts[1]} times in the training order; {counts[2]} documents are held out to measure on. "
        f"The largest difference between a share asked and achieved is {100 * gap:.2f}%."
    )


def tokens(project: Project) -> Section:
    """How well the tokenizer compresses each kind and language."""
    section = Section("tokens", "Tokens", "Bytes of text that one token stands for: the more, the better the tokenizer fits.")
    metrics = project.metrics("tokenize")
    vocabulary = project.metrics("tokenizer").get("vocab_size")
    for name in ("kind", "language"):
        groups: dict[str, dict[str, Any]] = metrics.get(f"by_{name}") or {}
        if groups:
            section.blocks += _token_blocks(name, groups)
    if section.blocks and vocabulary is not None:
        section.blocks.insert(0, Note(f"The vocabulary has {number(vocabulary)} tokens."))
    return section


def _token_blocks(name: str, groups: dict[str, dict[str, Any]]) -> list[Table | Figure]:
    ranked = sorted(groups.items(), key=lambda item: (-item[1].get("tokens", 0), item[0]))
    shown = ranked[:MAX_LANGUAGES]
    columns = [
        Column(name.capitalize(), "code"), Column("Documents", "int"), Column("Tokens", "int"), Column("Bytes per token", "decimal", 2),
        Column("Tokens per word", "decimal", 2),
    ]  # fmt: skip
    keys = ("documents", "tokens", "bytes_per_token", "tokens_per_word")
    caption = f"The {len(shown)} with the most tokens, of {len(ranked)}." if len(ranked) > len(shown) else ""
    table = Table(columns, [[group, *(values.get(key) for key in keys)] for group, values in shown], caption)
    chart = bar_chart([group for group, _ in shown], [("", [values.get("bytes_per_token") for _, values in shown])], what="Bytes per token")
    return [table, Figure(chart, f"Bytes per token by {name}")]


def packing(project: Project) -> Section:
    """How documents were laid into sequences."""
    section = Section(
        "packing", "Packing", "Documents laid end to end into sequences of one length; attention does not cross between documents."
    )
    metrics = project.metrics("pack")
    if not metrics:
        return section
    rows = [
        ("Sequences", number(metrics.get("sequences", 0))),
        ("Tokens", number(metrics.get("tokens", 0))),
        ("Documents", number(metrics.get("documents", 0))),
        ("Documents in a sequence, mean", number(metrics.get("documents_per_sequence", 0), 2)),
        ("Documents cut", f"{number(metrics.get('cut_documents', 0))} ({100 * metrics.get('cut_share', 0):.1f}%)"),
        ("Padding, tokens", f"{number(metrics.get('padding', 0))} ({100 * metrics.get('padding_share', 0):.3f}%)"),
    ]
    section.blocks.append(Table([Column("Number"), Column("Value", "figure")], rows))
    return section
