"""Line and bar charts as SVG text. Colours come from the page's style sheet, so a chart follows light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dataplane.report.writing import number, plain

WIDTH_PX, HEIGHT_PX = 720, 260
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 64, 28, 28, 40
BAR_PX, BAR_GAP_PX, BAR_LABEL_PX, BAR_VALUE_PX = 14, 10, 150, 60
LEGEND_STEP_PX = 150
MAX_POINTS = 600
MAX_LABEL_CHARS = 22
TICKS = 5
# Beyond these, differences overflow or vanish.
LARGEST, SMALLEST_EXTENT = 1e100, 1e-100
COLOURS = 4


@dataclass(frozen=True)
class Series:
    """Points of one line, by rising x.

    Attributes:
        name: As the legend says.
        points: (x, y); a point that is not finite is left out.
        dots: Whether the points are marked, for few of them.
        line: Whether a line joins them.
    """

    name: str
    points: Sequence[tuple[float, float]]
    dots: bool = False
    line: bool = True


def line_chart(series: Sequence[Series], *, x_label: str, y_label: str) -> Markup:
    """Lines over common axes.

    Args:
        series: At most as many as there are colours are told apart.
        x_label: What x counts.
        y_label: What y measures, with its unit.
    """
    lines = [Series(s.name, thinned(finite(s.points)), s.dots, s.line) for s in series]
    lines = [s for s in lines if s.points]
    if not lines:
        return Markup("")
    x_ticks = ticks(*_extent([x for s in lines for x, _ in s.points]), whole=True)
    y_ticks = ticks(*_extent([y for s in lines for _, y in s.points]))
    frame = _Frame(x_ticks[0], x_ticks[-1], y_ticks[0], y_ticks[-1])
    parts = [_legend([s.name for s in lines], LEFT_PX), _grid(frame, x_ticks, y_ticks, x_label, y_label)]
    parts += [_line(s, frame, i) for i, s in enumerate(lines)]
    return _svg(HEIGHT_PX, f"{y_label} over {x_label}", parts)


def bar_chart(labels: Sequence[str], series: Sequence[tuple[str, Sequence[float | None]]], *, what: str, digits: int = 2) -> Markup:
    """Horizontal bars: one group for each label, in it one bar for each series, all from zero.

    Args:
        labels: Names of the groups.
        series: (name, a value for each label, None where there is none).
        what: What the bars measure, for those who hear the page.
        digits: Digits after the point of the values.
    """
    values = [v for _, column in series for v in column if v is not None and abs(v) <= LARGEST]
    if not values:
        return Markup("")
    scale = (WIDTH_PX - BAR_LABEL_PX - BAR_VALUE_PX) / (max(*values, 0.0) or 1.0)
    group_px = len(series) * BAR_PX + BAR_GAP_PX
    first_px = TOP_PX if len(series) > 1 else 0
    parts = [_legend([name for name, _ in series], BAR_LABEL_PX)]
    for i, label in enumerate(labels):
        top = first_px + i * group_px
        parts.append(_text(BAR_LABEL_PX - 8, top + len(series) * BAR_PX / 2 + 4, plain(label, MAX_LABEL_CHARS), "end"))
        parts += [_bar(column[i], top + j * BAR_PX, scale, j, digits) for j, (_, column) in enumerate(series)]
    return _svg(first_px + len(labels) * group_px, what, parts)


def finite(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that can be drawn."""
    return [(x, y) for x, y in points if abs(x) <= LARGEST and abs(y) <= LARGEST]


def thinned(points: Sequence[tuple[float, float]], most: int = MAX_POINTS) -> list[tuple[float, float]]:
    """At most `most` points: of each stretch the lowest and the highest stay, so no spike is lost."""
    if len(points) <= most:
        return list(points)
    kept: list[tuple[float, float]] = []
    stretches = most // 2
    for i in range(stretches):
        part = points[i * len(points) // stretches : (i + 1) * len(points) // stretches]
        kept += sorted({min(part, key=_height), max(part, key=_height)})
    return kept


def _height(point: tuple[float, float]) -> float:
    return point[1]


def ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) that span low to high.

    Args:
        low: Smallest value.
        high: Largest value, above `low`.
        whole: Whether they are at least 1 apart.
    """
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    step = max(step, 1.0) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def _extent(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if high - low <= max(1e-12 * max(abs(low), abs(high)), SMALLEST_EXTENT):
        pad = abs(low) * 0.1 or 1.0
        return low - pad, high + pad
    return low, high


@dataclass(frozen=True)
class _Frame:
    """The plotted region, in data and in pixels."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return LEFT_PX + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH_PX - LEFT_PX - RIGHT_PX)

    def y(self, value: float) -> float:
        return HEIGHT_PX - BOTTOM_PX - (value - self.y_low) / (self.y_high - self.y_low) * (HEIGHT_PX - BOTTOM_PX - TOP_PX)


def _grid(frame: _Frame, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str) -> Markup:
    parts = []
    for value in y_ticks:
        y = frame.y(value)
        parts.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(LEFT_PX, WIDTH_PX - RIGHT_PX, y, y))
        parts.append(_text(LEFT_PX - 8, y + 4, _tick_text(value, y_ticks), "end"))
    parts += [_text(frame.x(value), HEIGHT_PX - BOTTOM_PX + 18, _tick_text(value, x_ticks), "middle") for value in x_ticks]
    parts.append(_text(WIDTH_PX - RIGHT_PX, HEIGHT_PX - 6, plain(x_label), "end"))
    parts.append(_text(WIDTH_PX - RIGHT_PX, 14, plain(y_label), "end"))
    return Markup("").join(parts)


def _tick_text(value: float, all_ticks: Sequence[float]) -> str:
    step = all_ticks[1] - all_ticks[0]
    largest = max(abs(all_ticks[0]), abs(all_ticks[-1]))
    if largest < 1e-2 or largest >= 1e7:
        return f"{value:.1e}" if value else "0"
    return number(value, max(0, -math.floor(math.log10(step) + 1e-9)))


def _line(series: Series, frame: _Frame, i: int) -> Markup:
    places = [(frame.x(x), frame.y(y)) for x, y in series.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    drawn = Markup("") if not series.line else Markup('<polyline class="line s{}" points="{}"/>').format(i % COLOURS, path)
    if not series.dots:
        return drawn
    dots = [Markup('<circle class="dot s{}" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(i % COLOURS, x, y) for x, y in places]
    return drawn + Markup("").join(dots)


def _bar(value: float | None, y: float, scale: float, i: int, digits: int) -> Markup:
    if value is None or not abs(value) <= LARGEST:
        return Markup("")
    width = max(value * scale, 0.0)
    bar = Markup('<rect class="bar s{}" x="{}" y="{}" width="{:.1f}" height="{}"/>').format(i % COLOURS, BAR_LABEL_PX, y, width, BAR_PX - 2)
    return bar + _text(BAR_LABEL_PX + width + 6, y + BAR_PX - 3, number(value, digits), "start")


def _legend(names: Sequence[str], left: int) -> Markup:
    if len(names) < 2:
        return Markup("")
    parts = []
    for i, name in enumerate(names):
        x = left + i * LEGEND_STEP_PX
        parts.append(Markup('<rect class="bar s{}" x="{}" y="5" width="10" height="10"/>').format(i % COLOURS, x))
        parts.append(_text(x + 16, 14, plain(name, MAX_LABEL_CHARS), "start"))
    return Markup("").join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _svg(height: float, label: str, parts: Sequence[Markup]) -> Markup:
    head = Markup('<svg class="chart" viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">').format(WIDTH_PX, height, plain(label))
    return head + Markup("").join(parts) + Markup("</svg>")
