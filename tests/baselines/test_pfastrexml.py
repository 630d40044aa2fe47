import numpy as np
import pytest

from baselines.conftest import plant, with_labels
from solar_tf.baselines.pfastrexml import PfastreXML

FEW = {"num_trees": 6}


def test_scores_are_the_trees_and_the_distance_to_the_label(planted, tmp_path):
    """s^alpha t^(1 - alpha), computed apart."""
    both = PfastreXML(PfastreXML.Settings(**FEW))
    both.fit(planted, tmp_path)
    trees = PfastreXML(PfastreXML.Settings(**FEW, alpha=1.0))
    trees.arrays = both.arrays
    inputs = planted.test.inputs[:10]
    means = (planted.train.labels.T @ planted.train.inputs).toarray()
    means /= np.maximum(planted.label_counts, 1)[:, None]
    ids, scores = both.predict(inputs, 40)
    tree_ids, tree_scores = trees.predict(inputs, 40)
    for row in range(10):
        known = dict(zip(tree_ids[row], tree_scores[row], strict=True))
        x = inputs[[row]].toarray()[0]
        for label, score in zip(ids[row], scores[row], strict=True):
            if label >= 0:
                distance = np.square(x - means[label]).sum()
                tail = 1 / (1 + np.exp(30 * distance))
                assert score == pytest.approx(known[label] ** 0.8 * tail**0.2, rel=1e-3)


def test_rare_labels_weigh_more_in_a_leaf(tmp_path):
    """Of two labels with the same rows in a leaf, the rarer one elsewhere comes first."""
    data = plant(400, 10)
    labels = data.train.labels.toarray()
    labels[:200, 0] = 1  # label 0 is frequent now, its twin 1 is not
    data = with_labels(data, labels)
    assert data.inverse_propensity[0] < data.inverse_propensity[1]
    baseline = PfastreXML(PfastreXML.Settings(num_trees=4, alpha=1.0))
    baseline.fit(data, tmp_path)
    query = data.train.inputs[np.flatnonzero(labels[:, 1])[:1]]
    assert baseline.predict(query, 1)[0][0, 0] == 1
