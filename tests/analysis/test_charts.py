import itertools
import xml.etree.ElementTree as ET

import pytest

from solar_tf.analysis import charts
from solar_tf.analysis.charts import Chart, number


def draw(chart):
    return ET.fromstring(chart.svg())


def tips(root):
    return [title.text for title in root.iter("title")]


def heights(root):
    """How far down its points are."""
    return [float(point.get("y")) for point in root.iter("use") if point.find("title") is not None]


def test_every_mark_has_its_numbers_and_an_axis_ends_at_a_tick():
    chart = Chart("x", "y")
    chart.line("line", [0, 5, 10], [0, 50, 100], 0)
    chart.bars("bars", [2, 4], [10, 20], 1)
    chart.area("area", [0, 10], [30, 30], 2)
    root = draw(chart)
    assert tips(root) == [
        "bars x: 2, y: 10", "bars x: 4, y: 20",
        "line x: 0, y: 0", "line x: 5, y: 50", "line x: 10, y: 100",
    ]  # fmt: skip
    assert heights(root) == [232, 121, 10]  # the bottom of the axes, their middle, their top


def test_colours_are_variables_of_the_page_and_nothing_else_is_styled():
    chart = Chart("x", "y", y_log=True)
    for colour in range(charts.COLOURS):
        chart.line(f"{colour}", [1, 2], [1, 2 + colour], colour, dashed=colour > 5)
    text = chart.svg()
    names = [*(f"c{i}" for i in range(charts.COLOURS)), "card", "ink", "line", "soft"]
    assert all(f"var(--{name})" in text for name in names)
    assert "#00" not in text and "font" not in text and "http" not in text
    assert chart.figure().count(' dashed"></i>') == 4


def test_charts_of_a_page_share_no_id_and_the_same_chart_is_drawn_the_same():
    def make(y):
        chart = Chart("x", "y")
        chart.line("one", [1, 2], [1, y], 0)
        return chart

    first, second = (draw(make(y)) for y in (2, 3))
    ids = [e.get("id") for root in (first, second) for e in root.iter() if e.get("id")]
    assert ids and len(ids) == len({*ids})
    assert make(2).svg() == make(2).svg()


def test_names_of_points_do_not_meet():
    chart = Chart("x", "y")
    chart.points(
        "", [1, 1.01, 1.02, 1.03, 5], [1, 1, 1.01, 1, 9], 0, [f"name {i}" for i in range(5)]
    )
    names = [e for e in draw(chart).iter("text") if "name" in e.text]
    assert len(names) == 5
    boxes = [text.get_window_extent() for text in chart.axes.texts]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_texts_are_escaped_in_drawing_tip_and_legend():
    chart = Chart("a<b", "c&d")
    chart.points("x<y", [1, 2], [1, 2], 0, ["<1>", "<2>"])
    chart.line("z", [1, 2], [2, 1], 1)
    root = draw(chart)
    assert "a<b" in {e.text for e in root.iter()}
    assert any("<1>" in tip for tip in tips(root))
    assert "x&lt;y" in chart.figure()


def test_missing_values_are_left_out_and_an_empty_chart_says_so():
    chart = Chart("x", "y")
    chart.points("some", [1, 2, 3], [1, None, 3], 0)
    chart.line("none", [1, 2, 3], [None] * 3, 1)
    assert len(tips(draw(chart))) == 2
    chart.line("more", [0, 1], [5, 0.126], 1)
    assert chart.numbers().header == ["x", "some", "more"]
    assert chart.numbers("{:.1f}".format).rows == [
        ["0", "-", "5.0"], ["1", "1.0", "0.1"], ["3", "3.0", "-"],
    ]  # fmt: skip
    assert "nothing to draw" in Chart("x", "y").figure()


@pytest.mark.parametrize("values", [[5], [0], [3, 3, 3], [1.2, 1.9], [1e-9, 1e9], [-4, 4]])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.filterwarnings("error")
def test_any_range_can_be_drawn(values, log):
    if log and min(values) <= 0:
        pytest.skip("no logarithm of it")
    chart = Chart("x", "y", x_log=log, y_log=log)
    chart.line("some", values, values, 0)
    root = draw(chart)
    assert len(heights(root)) == len(values) and all(0 <= y <= charts.HEIGHT for y in heights(root))
    assert len(list(root.iter("text"))) >= 4  # both names, and ticks


def test_an_axis_spans_at_least_what_it_is_told():
    wide, narrow = Chart("x", "y", y_least=10), Chart("x", "y")
    for chart in (wide, narrow):
        chart.points("", [0, 1], [50, 50.1], 0)
    (a, b), (c, d) = (heights(draw(chart)) for chart in (wide, narrow))
    assert abs(a - b) < 5 < abs(c - d)


def test_ticks_without_room_have_no_text():
    chart = Chart("x", "y", x_ticks=[(i, "a long name") for i in range(20)])
    chart.bars("", range(20), range(20), 0)
    assert 2 < len([e for e in draw(chart).iter("text") if e.text == "a long name"]) < 10


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
