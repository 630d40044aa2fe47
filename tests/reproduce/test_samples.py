import dataclasses

from conftest import open_titles

from solar_tf.analysis.results import baseline_results
from solar_tf.reproduce import paper, samples


def test_table_5_has_ten_queries_with_four_predictions_each(reproduced, titles):
    found = samples.make(reproduced.main, open_titles(titles).test)
    assert [query.half for query in found.queries] == ["frequent"] * 5 + ["infrequent"] * 5
    assert set(found.halves) == {"SOLAR (m=30)", "SOLAR (m=30), evidence", "Parabel"}
    by_half, table, quoted = samples.render(found, "toy")
    assert (len(table.rows), len(by_half.rows), len(quoted.rows)) == (40, 3, 15)
    assert "Parabel stands in for it" in by_half.notes[1]
    halves = found.halves | {"DSSM+GLaS": found.halves["Parabel"]}
    with_glas = dataclasses.replace(found, halves=halves, queries=[])
    assert len(samples.render(with_glas, "toy")[0].notes) == 1
    for row in table.rows:
        for cell in row[3:]:
            title = cell.removeprefix("✓ ")
            if row[1]:
                query = row[1]
            assert cell.startswith("✓") == (title.removeprefix("about ") in query.split())


def test_the_rival_is_glas_where_there_is_one(reproduced):
    (parabel,) = baseline_results(reproduced.main)
    worse = dataclasses.replace(parabel, method="slice", metrics={"P@1": 1.0})
    glas = dataclasses.replace(worse, method="glas", name="GLaS")
    assert samples.choose_rival([parabel, worse]) is parabel
    assert samples.choose_rival([parabel, worse, glas]) is glas
    assert samples.choose_rival([]) is None


def test_the_papers_table_is_quoted_word_for_word():
    rows = samples.quoted().rows
    first = next(paper.samples())
    assert rows[0][1:] == [first.query, "1", first.solar[0], first.glas[0]]
    assert rows[9][3:] == ["4 of 4 correct", "0 of 4 correct"]


def test_without_titles_there_is_a_reason():
    tables = samples.render(None, "numbers", "the queries have no words")
    assert tables[0].notes == ["the queries have no words"]
