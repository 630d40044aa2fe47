import re
from html.parser import HTMLParser

from solar_tf.analysis.charts import COLOURS, Chart
from solar_tf.analysis.report import page
from solar_tf.analysis.tables import Table

VOID = {"meta", "br", "link"}


class Nesting(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.ids, self.links = [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if "href" in attrs else []
        if tag not in VOID and tag != "p":
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "p" and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)


def test_a_page_is_well_nested_and_its_links_lead_somewhere():
    chart = Chart("x", "y")
    chart.line("one", [1, 2], [1, 2], 0)
    numbers = Table("t", ["a"], [["1"]])
    body = page.grid(page.figure("f", "c", chart, numbers)) + page.cards([("n", 1)])
    text = page.page("A & B", "sub", [("one", "One", body), ("two", "Two", "x")], "foot")
    parser = Nesting()
    parser.feed(text)
    assert not parser.wrong
    assert not parser.open
    assert parser.links[:2] == ["#one", "#two"]
    assert {link[1:] for link in parser.links} <= {*parser.ids}
    assert len(parser.ids) == len({*parser.ids})
    assert "<title>A &amp; B</title>" in text
    assert "<summary>numbers</summary>" in text


def contrast(one, other):
    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_both_palettes_have_colours_that_stand_out_from_their_background():
    palettes = page.STYLE.split("@media(prefers-color-scheme:dark)")[:2]
    for palette, card in zip(palettes, ("#ffffff", "#1b1f25"), strict=True):
        assert f"--card:{card}" in palette.replace("#fff;", "#ffffff;")
        colours = re.findall(r"--c\d:(#\w{6})", palette)
        assert len(colours) == COLOURS and all(contrast(colour, card) > 3 for colour in colours)
