import numpy as np
import pytest

from solar_tf.analysis.report import curves
from solar_tf.analysis.results import solar_results


def test_ranking_anew_gives_what_infer_gave(evaluated):
    """The same m and K, all queries: metrics must agree to the last digit."""
    top = curves.load_top_buckets(evaluated)
    assert len(top.queries) == evaluated.summary["test"]["rows"]
    for num_chunks in (None, 2):
        for row in solar_results(evaluated, num_chunks):
            if row.setting == "full":
                continue
            found, counts = curves.rank(top, int(row.setting[2:]), row.num_chunks, row.score)
            assert found["P@5"] == pytest.approx(row.metrics["P@5"])
            assert found["R@100"] == pytest.approx(row.metrics["R@100"])
            assert counts.mean() == pytest.approx(row.metrics["candidates"])


def test_a_sample_is_a_part_of_the_queries(evaluated):
    part, whole = curves.load_top_buckets(evaluated, 10), curves.load_top_buckets(evaluated)
    assert len(part.queries) == 10
    assert np.array_equal(part.buckets, whole.buckets[part.queries])
    assert len(part.truth[0]) == 11


def test_rows_cover_m_and_k_for_both_scores(evaluated):
    rows, candidates = curves.measure(curves.load_top_buckets(evaluated))
    assert [r["m"] for r in rows if r["axis"] == "m"][::2] == [1, 2, 5, 10, 20]
    assert [r["num_chunks"] for r in rows if r["axis"] == "K"][::2] == [1, 2, 3]
    assert sorted(candidates) == [1, 2, 5, 10, 20]


def test_nothing_is_there_before_infer(preprocessed):
    assert curves.load_top_buckets(preprocessed) is None


def test_steps_hold_the_papers_m():
    assert curves.steps(100) == [1, 2, 5, 10, 25, 50, 100]
    assert curves.steps(1) == [1]
