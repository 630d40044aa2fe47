import xml.etree.ElementTree as ET

from solar_tf.analysis.report import figures, sections
from solar_tf.analysis.report.samples import SampleQuery


def test_every_section_is_there_and_its_drawings_are_well_formed(facts):
    built = {name: text for _, name, text in sections.build(facts)}
    assert list(built) == ["Overview", "Results", "Precision", "Training", "Retrieval", "Labels",
                           "Sample queries", "Geometry", "Set-up"]  # fmt: skip
    drawings = [
        part.split("</svg>")[0] for text in built.values() for part in text.split("<svg")[1:]
    ]
    for drawing in drawings:
        ET.fromstring(f"<svg{drawing}</svg>")
    assert len(drawings) >= 14
    assert "<td>dropout</td>" in built["Set-up"]


def test_the_results_table_has_a_row_for_every_result(facts):
    table = sections.results_table(facts["results"])
    assert [row[0] for row in table.rows] == [result.name for result in facts["results"]]
    solar = facts["results"][0]
    assert table.rows[0][1] == f"{solar.metrics['P@1']:.2f}"


def test_hits_are_marked_by_more_than_colour_and_titles_are_escaped():
    query = SampleQuery(
        0, "frequent", "a <b>", 1, {"SOLAR": [("x & y", True), ("z", False)]}, ["x"]
    )
    text = sections.sample(query)
    assert "<q>a &lt;b&gt;</q>" in text
    assert '<li class="right">x &amp; y ✓</li><li class="wrong">z</li>' in text
    assert "1 true label<" in text


def test_charts_carry_their_numbers(facts):
    table = figures.curve(facts["curves"], "m", "P@1").numbers()
    assert table.header == ["m", "probability", "evidence"]
    rows = [r for r in facts["curves"] if r["axis"] == "m" and r["score"] == "evidence"]
    assert [row[2] for row in table.rows] == [f"{r['P@1']:.2f}" for r in rows]


def test_models_keep_their_colours():
    colours = figures.model_colours(["SOLAR (m=5)", "SOLAR (m=5), evidence", "Parabel", "SLICE"])
    assert list(colours.values()) == [0, 1, 2, 3]
