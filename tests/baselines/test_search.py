"""Dense and sparse search beside a full sort of all products."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.baselines import dense_search
from solar_tf.baselines.dense_search import (
    best_by_product,
    best_of_near,
    choose_method,
    load_index,
    make_index,
)
from solar_tf.baselines.sparse_search import (
    largest_entries,
    make_postings,
    posting_balance,
    rank_by_votes,
    search_postings,
)
from solar_tf.errors import UserError


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
    assert np.all(ids[:, width:] == -1) and not scores[:, width:].any()


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


@pytest.fixture(scope="module")
def vectors():
    """Unit vectors about 30 centres, of which label 5 has none."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(30, 16))
    vectors = centres[generator.integers(30, size=900)] + 0.3 * generator.normal(size=(900, 16))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    vectors[5] = 0
    return vectors


@pytest.mark.parametrize("method", ["exact", "clusters", "hnsw"])
def test_shortlists_hold_the_nearest_labels(vectors, method):
    if method == "hnsw":
        pytest.importorskip("faiss")
    index = load_index(make_index(vectors, method, 0))
    queries = vectors[100:200]
    found = index.search(queries, 20)
    assert found.shape == (100, 20) and found.dtype == np.int32
    wanted = np.argsort(-(queries @ vectors.T), axis=1)[:, :20]
    shares = [len(np.intersect1d(a, b)) / 20 for a, b in zip(found, wanted, strict=True)]
    assert np.mean(shares) > (0.999 if method == "exact" else 0.9)
    assert not np.any(found == 5)  # nothing is known of it
    assert all(100 + i in row for i, row in enumerate(found))


@pytest.mark.parametrize("method", ["exact", "clusters"])
def test_more_than_there_are_is_padding(vectors, method):
    found = load_index(make_index(vectors[:10], method, 0)).search(vectors[:3], 30)
    assert np.all(np.sort(found, axis=1)[:, -9:] == [0, 1, 2, 3, 4, 6, 7, 8, 9])
    assert np.sum(found == -1) == 3 * 21


def test_auto_is_exact_for_few_labels_and_needs_no_faiss_for_many(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert choose_method("auto", 100) == "exact"
    assert choose_method("auto", 10**6) == "clusters"
    assert choose_method("hnsw", 100) == "hnsw"
    with pytest.raises(UserError, match=r"solar-tf\[baselines\]"):
        make_index(np.eye(3, dtype=np.float32), "hnsw", 0)


def sparse(rows, columns, seed, density=0.2):
    generator = np.random.default_rng(seed)
    dense = generator.uniform(0.1, 1, (rows, columns))
    return (dense * (generator.uniform(size=(rows, columns)) < density)).astype(np.float32)


def test_sparse_search_is_the_product_with_all_labels():
    labels, queries = sparse(60, 25, 0), sparse(9, 25, 1)
    queries[3] = 0
    index = make_postings(sp.csr_matrix(labels))
    ids, scores, candidates = search_postings(sp.csr_matrix(queries), index, 100)
    products = queries.astype(np.float64) @ labels.T
    assert candidates == pytest.approx(np.count_nonzero(products, axis=1).mean())
    for row, product in enumerate(products):
        found = ids[row][ids[row] >= 0]
        assert sorted(found) == np.flatnonzero(product).tolist()  # these and no others
        np.testing.assert_allclose(scores[row, : len(found)], product[found], rtol=1e-5)
        assert np.all(np.diff(scores[row, : len(found)]) <= 0)
    first, _, _ = search_postings(sp.csr_matrix(queries), index, 4)
    np.testing.assert_array_equal(first, ids[:, :4])


def test_a_product_that_underflows_counts_its_label_once():
    tiny = sp.csr_matrix(np.full((3, 4), 1e-30, np.float32))
    ids, _, candidates = search_postings(tiny, make_postings(tiny), 5)
    assert candidates == 3 and np.all(ids == [0, 1, 2, -1, -1])


def test_votes_are_sums_over_the_rows_labels():
    splits, labels = np.array([0, 2, 3, 3]), np.array([0, 4, 4], np.int32)  # rows 0 to 2
    members = np.array([[0, 1, -1, 0], [2, -1, -1, 1]])
    weights = np.array([[0.5, 0.25, 9, -1], [1, 1, 1, 0]], np.float32)
    ids, scores = rank_by_votes(members, weights, splits, labels, np.int64(5), 3)
    assert ids.tolist() == [[4, 0, -1], [-1, -1, -1]]
    assert scores.tolist() == [[0.75, 0.5, 0], [0, 0, 0]]


def test_the_largest_entries_are_kept():
    dense = np.array([[1, 0, 3, 2], [0, 0, 0, 0], [5, 4, 0, 0]], np.float32)
    assert largest_entries(dense, 2).toarray().tolist() == [[0, 0, 3, 2], [0] * 4, [5, 4, 0, 0]]
    assert largest_entries(dense, 9).nnz == 5


def test_balance_of_an_even_an_uneven_and_an_empty_index():
    even = make_postings(sp.csr_matrix(np.eye(4, dtype=np.float32)))
    assert posting_balance(even) == {"imbalance": 1.0, "unused": 0.0, "visited": 1.0}
    uneven = np.zeros((3, 4), np.float32)
    uneven[:, 0] = uneven[0, 1] = 1  # lists of 3, 1, 0 and 0 labels
    found = posting_balance(make_postings(sp.csr_matrix(uneven)))
    assert found == {"imbalance": 1.5, "unused": 50.0, "visited": pytest.approx(10 / 4 / 2)}
    empty = make_postings(sp.csr_matrix((3, 4), dtype=np.float32))
    assert posting_balance(empty)["unused"] == 100.0
