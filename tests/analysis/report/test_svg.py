import itertools
import xml.etree.ElementTree as ET

import pytest

from solar_tf.analysis.report import svg
from solar_tf.analysis.report.svg import Chart, number


def draw(chart):
    return ET.fromstring(chart.svg())


def elements(root, kind):
    return [e for e in root.iter() if kind in (e.get("class") or "").split()]


def test_points_lie_where_their_values_are():
    chart = Chart("x", "y")
    chart.points("some", [0, 5, 10], [0, 50, 100], 0)
    xs, ys = ([float(e.get(a)) for e in elements(draw(chart), "points")] for a in ("cx", "cy"))
    assert xs == [svg.LEFT, (svg.LEFT + svg.WIDTH - svg.RIGHT) / 2, svg.WIDTH - svg.RIGHT]
    assert ys[0] == svg.HEIGHT - svg.BOTTOM
    assert ys[2] == svg.TOP
    assert ys[1] == pytest.approx((ys[0] + ys[2]) / 2, abs=0.1)


def test_equal_factors_are_equal_ways_on_a_logarithmic_axis():
    chart = Chart("x", "y", x_log=True)
    chart.points("some", [1, 10, 100], [1, 2, 3], 0)
    xs = [float(e.get("cx")) for e in elements(draw(chart), "points")]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_bars_stand_on_the_axis_with_heights_in_proportion():
    chart = Chart("x", "y")
    chart.bars("some", [0, 1, 2], [10, 20, 0], 0)
    bars = elements(draw(chart), "bars")
    heights = [float(bar.get("height")) for bar in bars]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[2] == 0
    assert {float(b.get("y")) + float(b.get("height")) for b in bars} == {
        svg.HEIGHT - svg.BOTTOM
    }  # fmt: skip


def test_names_of_points_do_not_meet():
    chart = Chart("x", "y")
    chart.points(
        "", [1, 1.01, 1.02, 1.03, 5], [1, 1, 1.01, 1, 9], 0, [f"name {i}" for i in range(5)]
    )
    labels = elements(draw(chart), "label")
    boxes = [(float(e.get("x")), float(e.get("y"))) for e in labels]
    assert len(boxes) == 5
    width = svg.LETTER * len("name 0")
    for (a, b), (c, d) in itertools.combinations(boxes, 2):
        assert abs(a - c) >= width - 0.2 or abs(b - d) >= svg.LABEL - 0.2


def test_texts_are_escaped_in_drawing_tip_and_legend():
    chart = Chart("a<b", "c&d")
    chart.points("x<y", [1, 2], [1, 2], 0, ["<1>", "<2>"])
    chart.line("z", [1, 2], [2, 1], 1)
    root = draw(chart)
    assert "a<b" in {e.text for e in root.iter()}
    assert any("<1>" in (e.text or "") for e in root.iter("title"))
    assert "x&lt;y" in chart.figure()


def test_missing_values_are_left_out_and_an_empty_chart_says_so():
    chart = Chart("x", "y")
    chart.points("some", [1, 2, 3], [1, None, 3], 0)
    assert len(elements(draw(chart), "points")) == 2
    assert "nothing to draw" in Chart("x", "y").figure()


@pytest.mark.parametrize("values", [[5], [0], [3, 3, 3], [1e-9, 1e9], [-4, 4]])
@pytest.mark.parametrize("log", [False, True])
def test_any_range_can_be_drawn(values, log):
    if log and min(values) <= 0:
        pytest.skip("no logarithm of it")
    chart = Chart("x", "y", x_log=log, y_log=log)
    chart.line("some", values, values, 0)
    for point in elements(draw(chart), "points"):
        assert svg.LEFT <= float(point.get("cx")) <= svg.WIDTH
        assert 0 <= float(point.get("cy")) <= svg.HEIGHT


def test_an_axis_spans_at_least_what_it_is_told():
    wide, narrow = Chart("x", "y", y_least=10), Chart("x", "y")
    for chart in (wide, narrow):
        chart.points("", [0, 1], [50, 50.1], 0)
    wide_ys, narrow_ys = (
        [float(e.get("cy")) for e in elements(draw(chart), "points")] for chart in (wide, narrow)
    )
    assert abs(wide_ys[0] - wide_ys[1]) < 5 < abs(narrow_ys[0] - narrow_ys[1])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.1234, "0.123"),
        (12345, "12,345"),
        (2.5e6, "2.5M"),
        (1e-7, "1.0e-07"),
        (None, "-"),
    ],
)
def test_numbers_for_people(value, text):
    assert number(value) == text
