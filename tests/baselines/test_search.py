import sys

import numpy as np
import pytest

from solar_tf.baselines.search import choose_method, load_index, make_index
from solar_tf.errors import UserError


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
