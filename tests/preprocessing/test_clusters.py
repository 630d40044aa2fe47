import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from solar_tf.preprocessing.clusters import balanced_clusters


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
def test_like_rows_share_a_cluster(sparse):
    generator = np.random.default_rng(0)
    topics = generator.integers(20, size=600)
    rows = np.zeros((600, 50), np.float32)
    rows[np.arange(600), topics] = 1
    rows[np.arange(600), 20 + generator.integers(30, size=600)] = 0.7  # noise
    inputs = sp.csr_matrix(rows) if sparse else rows
    splits, order = balanced_clusters(inputs, 4, np.random.default_rng(0))
    clusters = np.empty(600, int)
    clusters[order] = np.repeat(np.arange(4), np.diff(splits))
    shares = [np.bincount(clusters[topics == t]).max() / np.sum(topics == t) for t in range(20)]
    assert np.mean(shares) > 0.8  # at random it would be a quarter and a little
