"""Curves over steps, as the stages that train leave them in plots/."""

from __future__ import annotations

from dataplane.report.blocks import Block, Figure
from dataplane.report.charts import Series, line_chart


def points(rows: list[dict[str, float]], column: str) -> list[tuple[float, float]]:
    """(step, value) of the rows that have both."""
    return [(row["step"], row[column]) for row in rows if "step" in row and column in row]


def charts(wanted: list[tuple[list[Series], str, str]]) -> list[Block]:
    """A figure for each (lines, what they measure, caption) that has a point."""
    drawn = [(line_chart(series, x_label="step", y_label=y_label), caption) for series, y_label, caption in wanted]
    return [Figure(svg, caption) for svg, caption in drawn if svg]
