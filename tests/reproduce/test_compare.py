import pytest

from solar_tf.analysis.results import solar_results
from solar_tf.reproduce import compare, paper


def test_rows_have_measured_values_and_quoted_cells(reproduced):
    run = reproduced.main
    rows = {row.model: row for row in compare.main_rows(2, run, {"slice": "no faiss"})}
    solar = rows["SOLAR (m=100)"]  # 30 buckets: all of them are kept
    expected = next(
        r for r in solar_results(run) if (r.setting, r.score) == ("m=30", "probability")
    )
    assert solar.values["P@3"] == expected.metrics["P@3"]
    assert solar.source.startswith("main @ ")
    assert solar.paper["wiki500k"] == {"P@1": 60.92, "P@3": 46.94, "P@5": 45.32}
    assert rows["SOLAR (m=100), evidence"].paper["wiki500k"] == {}
    assert (rows["SLICE"].status, rows["SLICE"].source) == ("not run", "no faiss")
    assert rows["SLICE"].paper["amazon670k"]["P@1"] == 37.77
    assert rows["Parabel"].status == "measured here"


def test_table_1_quotes_models_without_their_dimensions():
    cells = compare.quoted_cells(1, "books", "GLaS")
    assert (cells["P@1"], cells["Rec@100"], cells["epochs"]) == (32.51, 33.17, 5)


def judged(table, model, dataset, values):
    """A row after its judgement, and as the table shows it."""
    cells = {dataset: compare.quoted_cells(table, dataset, model)}
    row = compare.Row(model, "measured here" if values else "not run", "main", values, cells)
    compare.judge(table, [row], dataset)
    return row, compare.render(table, [row], "toy", dataset)


def test_verdicts_are_given_for_p_and_rp_against_the_same_cell():
    values = {"P@1": 34.5, "P@3": 20.0, "RP@3": 32.9, "P@5": 15.0, "RP@5": 40.0}
    row, table = judged(2, "SOLAR (m=100)", "amazon670k", values)
    assert row.verdicts["P@1"] == ("matches", pytest.approx(0.13))
    assert row.verdicts["P@3"][0] == "differs"
    assert row.verdicts["RP@3"] == ("matches", pytest.approx(0.19))
    assert row.verdicts["RP@5"] == ("differs", pytest.approx(7.45))
    assert table.header[-2:] == ["quoted: Amz-670K P@1/3/5", "verdict"]
    assert "P@1 matches +0.13; P@3 differs -12.71; RP@3 matches +0.19" in table.rows[0][-1]


def test_times_are_judged_by_their_ratio():
    values = {paper.TRAIN_HOURS: 2.38, paper.EVAL_MS: 2.6}
    row, table = judged(3, "SOLAR (m=100)", "amazon670k", values)
    assert row.verdicts == {
        paper.TRAIN_HOURS: ("differs", pytest.approx(2.0)),
        paper.EVAL_MS: ("matches", pytest.approx(2.6 / 2.56)),
    }
    assert table.rows[0][-1] == "training differs ×2.00; ms matches ×1.02"


def test_what_was_not_run_says_so_on_the_papers_own_dataset():
    _, table = judged(2, "SLICE", "wiki500k", {})
    assert table.rows[0] == ["SLICE", "-", "-", "-", "-", "-", "not run: main",
                             "59.89/39.89/30.12", "not run"]  # fmt: skip


def test_other_datasets_get_no_verdict(reproduced):
    rows = compare.main_rows(1, reproduced.main, {})
    table = compare.render(1, rows, "toy")
    assert "verdict" not in table.header
    assert any("toy is not a dataset of the paper's" in note for note in table.notes)
    assert any("probably RP@k" in note for note in table.notes)


def test_the_ablation_is_the_grid_of_the_paper(reproduced):
    from solar_tf.run.directory import open_run

    runs = [(b, open_run(reproduced.folder.run(f"ablation_B{b}"))) for b in (45, 30, 15)]
    rows = compare.ablation_rows(runs, [1, 2, 4])
    assert len(rows) == 18
    first, last = rows[0], rows[-2]
    assert (first.model, last.model) == ("B=45, K=1", "B=15, K=4")
    assert first.paper["amazon670k"] == last.paper["amazon670k"] == {}  # no K of the paper's
    assert all(row.status == "measured here" for row in rows)
    missing = compare.ablation_rows([(45, None), *runs[1:]], [1, 2, 4])
    assert [row.status for row in missing].count("not run") == 6


def test_the_ablation_quotes_the_same_k():
    rows = compare.ablation_rows([(45, None), (30, None), (15, None)], [4, 8, 16])
    quoted = {row.model: row.paper["amazon670k"] for row in rows}
    assert quoted["B=45, K=8"]["P@1"] == 31.34
    assert quoted["B=15, K=16"]["P@5"] == 27.04
    assert quoted["B=45, K=4"] == quoted["B=45, K=8, evidence"] == {}
