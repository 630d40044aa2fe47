import numpy as np
import pytest
from conftest import open_titles, small_config

from solar_tf.datasets.dataset import open_files
from solar_tf.preprocessing.scan import scan


def test_titles_give_their_words_whatever_the_number_of_workers(titles):
    dataset = open_titles(titles)
    found = [scan(dataset, small_config(), workers) for workers in (1, 2)]
    rows = dataset.train.read()
    assert found[0].num_rows == found[1].num_rows == len(rows)
    assert found[0].words == found[1].words
    assert sum(found[0].words.values()) > len(rows)


@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
def test_features_are_counted_by_row_where_they_are_needed(tmp_path, weighting):
    train, test = tmp_path / "train.svm", tmp_path / "test.svm"
    train.write_text("0 1:2.5 4:1\n1 4:1\n")
    test.write_text("7 9:1\n")  # a label and a feature that training does not have
    found = scan(open_files(train, test), small_config(weighting=weighting), 1)
    assert found.num_labels == 8
    assert found.num_features == 10
    np.testing.assert_array_equal(found.feature_rows[:5], [0, 1, 0, 0, 2])
    assert found.feature_rows[9] == 0  # of training rows only
