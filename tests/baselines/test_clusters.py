import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.baselines.clusters import balanced_clusters


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 80), count=st.integers(1, 20), seed=st.integers(0, 99))
def test_clusters_partition_the_rows_evenly(rows, count, seed):
    generator = np.random.default_rng(seed)
    splits, order = balanced_clusters(generator.normal(size=(rows, 4)), count, generator)
    assert sorted(order) == list(range(rows))
    sizes = np.diff(splits)
    assert len(sizes) == count and splits[0] == 0 and splits[-1] == rows
    assert sizes.max() - sizes.min() <= np.ceil(np.log2(count)) + 1


@pytest.mark.parametrize("sparse", [False, True])
def test_like_rows_share_a_cluster(planted, sparse):
    inputs = planted.train.inputs if sparse else planted.train.inputs.toarray()
    splits, order = balanced_clusters(inputs, 4, np.random.default_rng(0))
    clusters = np.empty(600, int)
    for cluster in range(4):
        clusters[order[splits[cluster] : splits[cluster + 1]]] = cluster
    pairs = planted.train.labels.indices[::2] // 2
    same = np.mean(
        [np.bincount(clusters[pairs == p]).max() / np.sum(pairs == p) for p in range(20)]
    )
    assert same > 0.8  # at random it would be a quarter and a little
