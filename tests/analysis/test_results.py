import itertools

import numpy as np
import pytest

from solar_tf.analysis.results import (
    all_results,
    best_shortlist,
    predictions,
    solar_results,
)
from solar_tf.retrieval.metrics import true_labels
from solar_tf.run.files import read_json, write_json


def test_rows_are_those_of_the_metrics_file(evaluated):
    rows = solar_results(evaluated)
    content = read_json(evaluated.paths.metrics())
    assert [row.metrics for row in rows] == content["rows"]
    assert [row.name for row in rows][:3] == ["SOLAR (full)", "SOLAR (m=20)", "SOLAR (m=5)"]
    row = content["rows"][1]
    expected = row["ms_forward"] + (row["ms_top_m"] + row["ms_rank"]) / content["cores"]
    assert rows[1].ms_query == pytest.approx(expected)


def test_subsets_and_baselines_are_found(evaluated):
    rows = all_results(evaluated)
    assert [(row.num_chunks, row.subset) for row in rows] == [(3, None)] * 6 + [(2, 2)] * 6 + [
        (None, None)
    ]
    assert rows[6].name == "SOLAR (full), 2 chunks"
    assert (rows[-1].name, rows[-1].is_solar) == ("Parabel", False)


def test_predictions_of_every_row_give_its_precision(evaluated):
    splits, labels = true_labels(evaluated)
    truth = [set(labels[a:b]) for a, b in itertools.pairwise(splits)]
    for row in all_results(evaluated):
        first = predictions(evaluated, row)[0][:, 0]
        hits = [label in true for label, true in zip(first, truth, strict=True)]
        assert 100 * np.mean(hits) == pytest.approx(row.metrics["P@1"])


def test_the_largest_m_is_the_best_shortlist(evaluated):
    rows = solar_results(evaluated)
    assert best_shortlist(rows).setting == "m=20"
    assert best_shortlist(rows, "evidence").score == "evidence"
    assert best_shortlist([]) is None


def test_training_goes_by_the_clock_where_there_is_one(evaluated):
    path = evaluated.paths.provenance
    try:
        write_json(path, {"training_clock": 12.5})
        assert {row.training_seconds for row in solar_results(evaluated)} == {12.5}
    finally:
        path.unlink()
    summed = read_json(evaluated.paths.metrics())["training_seconds"]
    assert solar_results(evaluated)[0].training_seconds == summed
