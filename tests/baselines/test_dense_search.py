import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.baselines import dense_search
from solar_tf.baselines.dense_search import best_by_product, best_of_near


def oracle(queries, vectors, k):
    products = queries @ vectors.T
    order = np.lexsort((np.broadcast_to(np.arange(len(vectors)), products.shape), -products))
    return order[:, :k], np.take_along_axis(products, order[:, :k], axis=1)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 60), st.integers(1, 12), st.integers(0, 999))
def test_search_is_a_full_sort_whatever_the_blocks(num_queries, num_labels, k, seed):
    """Small whole numbers, so that many products are equal and all are exact."""
    generator = np.random.default_rng(seed)
    queries = generator.integers(-2, 3, (num_queries, 4)).astype(np.float32)
    vectors = generator.integers(-2, 3, (num_labels, 4)).astype(np.float32)
    width = min(k, num_labels)
    wanted = oracle(queries, vectors, width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_search, "LABELS_PER_BLOCK", 7)
        patch.setattr(dense_search, "QUERIES_PER_BLOCK", 4)
        ids, scores = best_by_product(queries, vectors, k)
    assert (ids.shape, ids.dtype, scores.dtype) == ((num_queries, k), np.int32, np.float32)
    np.testing.assert_array_equal(ids[:, :width], wanted[0])
    np.testing.assert_array_equal(scores[:, :width], wanted[1])
    assert np.all(ids[:, width:] == -1)


def test_near_labels_are_ranked_exactly():
    generator = np.random.default_rng(0)
    queries, vectors = generator.normal(size=(5, 8)), generator.normal(size=(30, 8))
    near = np.stack([generator.permutation(30) for _ in range(5)])
    ids, scores = best_of_near(queries, vectors, near, 30)
    wanted = oracle(queries, vectors, 30)
    np.testing.assert_array_equal(ids, wanted[0])
    np.testing.assert_allclose(scores, wanted[1], rtol=1e-5)
    few = np.array([[7, -1, 3]] * 5)
    ids, _ = best_of_near(queries, vectors, few, 4)
    assert np.all(np.sort(ids, axis=1) == [-1, -1, 3, 7])
