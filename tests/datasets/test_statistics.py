"""Statistics of a source, against the rows themselves; blocks and processes do not matter."""

import numpy as np
import pytest

from solar_tf.datasets import open_source, source
from solar_tf.datasets.statistics import Frequencies, collect, mean, percentile

from .files import assert_refused, write


@pytest.mark.parametrize(("rows_per_block", "workers"), [(1, 1), (1, 2), (3, 1), (100, 1)])
def test_titles(tmp_path, monkeypatch, rows_per_block, workers):
    monkeypatch.setattr(source, "ROWS_PER_BLOCK", rows_per_block)
    titles = "0,4\ttwo words\n\tthree more words\n4,4,2\t\n4\tWords words\n"
    found = collect(open_source(write(tmp_path, titles)), workers)
    assert (found.num_rows, found.num_unlabelled, found.num_featureless) == (4, 1, 1)
    assert found.num_duplicate_labels == 1
    assert found.labels_per_row.tolist() == [1, 1, 2]
    assert found.features_per_row.tolist() == [1, 0, 2, 1]
    assert found.label_counts.tolist() == [1, 0, 1, 0, 3]
    assert found.words == {"two", "words", "three", "more"}
    assert (found.num_labels_used, found.num_features_used) == (3, 4)


def test_sparse_and_dense_rows(tmp_path):
    found = collect(open_source(write(tmp_path, "3 9 5\n1,2 3:0.5 8:1\n 3:2\n4\n")))
    assert found.features_per_row.tolist() == [1, 1, 1]
    assert (found.num_features_used, found.num_featureless) == (2, 1)
    found = collect(open_source(write(tmp_path, "2 3 5\n1,2 0.5 1 0\n4 1 2 3\n")))
    assert found.features_per_row.tolist() == [0, 0, 0, 2]
    assert found.label_counts.tolist() == [0, 1, 1, 0, 1]


def test_an_id_that_would_take_all_memory_is_an_error(tmp_path):
    for row in ("2147483000\ta\n", "1 2147483000:1\n"):
        message = "(label|feature) 2147483000 is too large: number the"
        assert_refused(message, collect, open_source(write(tmp_path, row)))


def test_histograms_know_their_mean_and_percentiles():
    numbers = np.random.default_rng(0).poisson(4, size=1000)
    histogram = np.bincount(numbers)
    assert mean(histogram) == pytest.approx(numbers.mean())
    for percent in (1, 50, 99, 100):
        expected = np.percentile(numbers, percent, method="inverted_cdf")
        assert percentile(histogram, percent) == expected
    assert mean(np.zeros(0, np.int64)) == 0


def test_frequencies_of_labels():
    found = Frequencies.of(np.array([0, 90, 1, 6, 3]), num_labels=10)
    assert found.counts.tolist() == [90, 6, 3, 1, 0, 0, 0, 0, 0, 0]
    assert found.unseen == pytest.approx(0.6)
    assert found.head(0.1) == pytest.approx(0.9)
    assert found.tail(5) == pytest.approx(0.2)
    assert found.covering(0.8) == pytest.approx(0.1)
    assert found.covering(0.95) == pytest.approx(0.2)
    assert Frequencies.of(np.zeros(0, np.int64)).unseen == 1
