import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.agreement import same_when_loaded, solves
from solar_tf.baselines.annexml import AnnexML, assign, train_embedding, train_units
from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.neighbours import label_neighbours, unit_rows

SMALL = {"learners": 2, "dim": 16, "neighbours": 5}


@pytest.mark.parametrize("kind", ["planted", "planted_dense"])
def test_planted_labels_are_found(kind, request, tmp_path):
    data = request.getfixturevalue(kind)
    baseline = solves(AnnexML(AnnexML.Settings(**SMALL)), data, tmp_path / "fit")
    same_when_loaded(baseline, data, tmp_path / "model")


def test_several_parts_work_as_well(planted, tmp_path):
    few = AnnexML.Settings(**SMALL, part_rows=200, part_l1=0.1)
    baseline = solves(AnnexML(few), planted, tmp_path, 85.0)
    assert len(baseline.arrays["part_splits_000"]) == 4


def near_labels(data):
    splits, labels, _ = csr_arrays(data.train.labels)
    return label_neighbours(splits, labels, data.num_labels, 200, 10, 0)


def test_units_send_label_neighbours_to_the_same_part(planted):
    near = near_labels(planted)
    units = np.zeros((planted.num_features, 3), np.float32)
    train_units(*csr_arrays(planted.train.inputs), near, 5, 0.1, 0.1, 10, 0, units)
    parts = (planted.train.inputs @ units).argmax(axis=1)
    assert np.mean(parts[near] == parts[:, None]) > 0.8
    assert np.bincount(parts, minlength=3).min() > 30


def test_embeddings_keep_label_neighbours_near(planted):
    near = near_labels(planted)
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(planted.num_features, 16)).astype(np.float32)

    def share():
        embedded = unit_rows(planted.train.inputs @ weights)
        cosines = embedded @ embedded.T
        np.fill_diagonal(cosines, -1)
        nearest = np.argsort(-cosines, axis=1)[:, :5]
        labels = planted.train.labels.indices[::2]
        return np.mean(labels[nearest] == labels[:, None])

    before = share()
    arrays = csr_arrays(planted.train.inputs)
    train_embedding(*arrays, near, 10, 0.1, 10.0, 10, 0, weights)
    assert share() > max(0.95, before)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(1, 6), st.floats(1.0, 3.0), st.integers(0, 99))
def test_no_part_is_crowded(rows, parts, slack, seed):
    scores = np.random.default_rng(seed).normal(size=(rows, parts)) + 3 * np.eye(parts)[0]
    found = assign(scores, slack * rows / parts)
    sizes = np.bincount(found, minlength=parts)
    assert sizes.max() <= np.ceil(slack * rows / parts)
    roomy = assign(scores, rows)
    np.testing.assert_array_equal(roomy, scores.argmax(axis=1))
