import numpy as np

from baselines.conftest import with_labels
from baselines.test_models import fitted
from solar_tf.baselines.slice import Slice, count_near, gather_near, label_means, labels_of


def test_shortlists_are_turned_round():
    near = np.array([[0, 2], [2, 1], [2, -1]], np.int32)
    counts = count_near(near, 4)
    assert counts.tolist() == [1, 1, 3, 0]
    rows = gather_near(near, 1, 4, np.array([0, 1, 4, 4]))
    assert rows.tolist() == [1, 0, 1, 2]


def test_a_label_without_rows_is_never_predicted(planted_dense, tmp_path):
    labels = planted_dense.train.labels.toarray()
    labels[:, 7] = 0
    data = with_labels(planted_dense, labels)
    baseline = Slice(Slice.Settings(shortlist=40))
    baseline.fit(data, tmp_path)
    assert not np.any(baseline.predict(data.test.inputs, 40)[0] == 7)


def test_blocks_of_labels_give_the_same_classifiers(planted, tmp_path, monkeypatch):
    whole = Slice(Slice.Settings(dim=20, shortlist=5, iterations=200, tolerance=1e-5))
    whole.fit(planted, tmp_path / "whole")
    monkeypatch.setattr("solar_tf.baselines.slice.PAIRS_PER_BLOCK", 900)
    parts = Slice(whole.settings)
    parts.fit(planted, tmp_path / "parts")
    assert len(list((tmp_path / "parts").glob("classifiers_*.npz"))) > 3
    np.testing.assert_allclose(parts.arrays["weights"], whole.arrays["weights"], atol=5e-3)


def test_a_frequent_label_has_centres_of_its_own(planted_dense, tmp_path):
    """Label 0 is on every row: the mean of all is near to none, its centres are."""
    labels = planted_dense.train.labels.toarray()
    labels[:, 0] = 1
    data = with_labels(planted_dense, labels)
    means = label_means(data, data.train.inputs, 100, 0)
    assert np.sum(means["owners"] == 0) == 1 + 6  # 600 rows; the whole label's is zero
    assert not means["means"][0].any()
    np.testing.assert_allclose(np.linalg.norm(means["means"][1:], axis=1), 1, rtol=1e-5)
    found = {}
    for centre_rows in (0, 20):
        settings = {"shortlist": 2, "centre_rows": centre_rows}
        baseline = fitted("slice", settings, data, tmp_path / str(centre_rows))
        ids = baseline.predict(data.test.inputs, 2)[0]
        assert all(len(set(row[row >= 0])) == np.sum(row >= 0) for row in ids)
        found[centre_rows] = np.mean(np.any(ids == 0, axis=1))
    assert found[20] > found[0] + 0.3


def test_a_label_is_near_once_whichever_of_its_means_is_found():
    owners = np.array([0, 1, 2, 1], np.int32)
    found = labels_of(np.array([[3, 1, 0], [-1, 2, 3]]), owners)
    assert found.tolist() == [[0, 1, -1], [-1, 1, 2]]
