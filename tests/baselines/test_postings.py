import numpy as np
import pytest
import scipy.sparse as sp

from solar_tf.baselines.postings import largest_entries, load, make_postings, search_postings


def sparse(rows, columns, seed, density=0.2):
    generator = np.random.default_rng(seed)
    dense = generator.uniform(0.1, 1, (rows, columns)) * (
        generator.uniform(size=(rows, columns)) < density
    )
    return dense.astype(np.float32)


def test_search_is_the_product_with_all_labels():
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


def test_the_largest_entries_are_kept():
    dense = np.array([[1, 0, 3, 2], [0, 0, 0, 0], [5, 4, 0, 0]], np.float32)
    assert largest_entries(dense, 2).toarray().tolist() == [[0, 0, 3, 2], [0] * 4, [5, 4, 0, 0]]
    assert largest_entries(dense, 9).nnz == 5


def test_load_of_an_even_an_uneven_and_an_empty_index():
    even = make_postings(sp.csr_matrix(np.eye(4, dtype=np.float32)))
    assert load(even) == {"imbalance": 1.0, "unused": 0.0, "visited": 1.0}
    uneven = np.zeros((3, 4), np.float32)
    uneven[:, 0] = uneven[0, 1] = 1  # lists of 3, 1, 0 and 0 labels
    found = load(make_postings(sp.csr_matrix(uneven)))
    assert found == {"imbalance": 1.5, "unused": 50.0, "visited": pytest.approx(10 / 4 / 2)}
    assert load(make_postings(sp.csr_matrix((3, 4), dtype=np.float32)))["unused"] == 100.0
