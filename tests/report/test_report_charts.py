"""The report's charts, read back as XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.report.charts import (
    HEIGHT_PX,
    LEFT_PX,
    MAX_POINTS,
    RIGHT_PX,
    WIDTH_PX,
    Series,
    bar_chart,
    finite,
    line_chart,
    thinned,
    ticks,
)

FINITE = st.floats(-1e9, 1e9, allow_nan=False)
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


def _line(svg: str) -> list[tuple[float, float]]:
    points = ET.fromstring(svg).find("polyline").attrib["points"]  # type: ignore[union-attr]
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in points.split())]


def test_a_straight_line_is_drawn_straight_from_edge_to_edge() -> None:
    drawn = _line(line_chart([Series("", [(0, 0), (50, 5), (100, 10)])], x_label="step", y_label="loss"))
    (x0, y0), (x1, y1), (x2, y2) = drawn
    assert (x0, x2) == (LEFT_PX, WIDTH_PX - RIGHT_PX)
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    assert y0 > y2


@given(st.lists(st.tuples(ANY_FLOAT, ANY_FLOAT), max_size=30))
def test_every_set_of_points_gives_well_formed_svg_inside_its_frame(points: list[tuple[float, float]]) -> None:
    svg = line_chart([Series("a", points)], x_label="x", y_label="y")
    if not finite(points):
        assert svg == ""
        return
    drawn = _line(svg)
    assert len(drawn) == len(finite(points))
    for x, y in drawn:
        assert 0 <= x <= WIDTH_PX
        assert 0 <= y <= HEIGHT_PX


@given(FINITE, st.floats(1e-6, 1e9))
def test_ticks_span_the_values_and_are_few(low: float, width: float) -> None:
    found = ticks(low, low + max(width, 1e-6 * abs(low)))
    assert found[0] <= low + 1e-6 * max(1.0, abs(low) + width)  # a millionth of what is drawn cannot be seen
    assert found[-1] >= low + width - 1e-6 * max(1.0, abs(low) + width)
    assert 2 <= len(found) <= 8


def test_thinning_keeps_every_spike() -> None:
    points = [(float(i), 1.0) for i in range(10_000)]
    points[7_777] = (7_777.0, 99.0)
    kept = thinned(points)
    assert len(kept) <= MAX_POINTS
    assert (7_777.0, 99.0) in kept
    assert kept == sorted(kept)


def test_bars_are_as_long_as_their_values_and_absent_values_have_none() -> None:
    root = ET.fromstring(bar_chart(["a", "b"], [("m", [1.0, 2.0]), ("n", [None, 0.5])], what="w"))
    lengths = [float(r.attrib["width"]) for r in root.findall("rect") if float(r.attrib["y"]) >= 20]
    assert [length / lengths[0] for length in lengths] == pytest.approx([1, 2, 0.5], rel=1e-3)


def test_hostile_labels_are_escaped() -> None:
    label = '</text><script>alert("x")</script>\x00'
    svg = bar_chart([label], [(label, [1.0]), (label, [2.0])], what=label)
    assert "<script" not in svg
    assert ET.fromstring(svg).attrib["aria-label"].startswith("</text>")


def test_points_that_cannot_be_drawn_are_left_out() -> None:
    nan, inf = float("nan"), float("inf")
    assert finite([(1, nan), (inf, 1), (1, -inf), (1, 1e308), (1, 2)]) == [(1, 2)]
