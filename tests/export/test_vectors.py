import numpy as np
import pytest

from solar_tf.errors import UserError
from solar_tf.export.vectors import LabelVectors, QueryVectors, best_first
from solar_tf.preprocessing import hashing
from solar_tf.retrieval import ranking
from solar_tf.retrieval.searcher import Searcher


def test_a_label_vector_has_the_labels_bucket_in_every_chunk(preprocessed):
    vectors = LabelVectors(preprocessed.paths.root)
    assert vectors.indices.shape == (40, 3)
    assert vectors.dim == 72
    for chunk in range(3):
        buckets = hashing.label_buckets(40, preprocessed.seeds[chunk], 24)
        np.testing.assert_array_equal(vectors.indices[:, chunk], buckets + 24 * chunk)


def test_batches_hold_every_label_once_with_its_title(preprocessed):
    batches = list(LabelVectors(preprocessed.paths.root).batches(size=16))
    assert [len(labels) for labels, _, _ in batches] == [16, 16, 8]
    assert [label for labels, _, _ in batches for label in labels] == list(range(40))
    assert batches[1][2][0] == "about topic16"


def test_fewer_chunks_are_a_shorter_vector(preprocessed):
    assert LabelVectors(preprocessed.paths.root, 2).indices.shape == (40, 2)
    with pytest.raises(UserError, match="this run has 3 chunks"):
        LabelVectors(preprocessed.paths.root, 4)


@pytest.mark.parametrize("score", ranking.SCORES)
@pytest.mark.parametrize("m", [1, 7, 24])
def test_the_dot_product_is_our_score(trained, score, m):
    root, text = trained.paths.root, "topic3 topic30"
    indices, weights = QueryVectors(root, m=m, score=score).encode(text)
    assert (np.diff(indices.astype(int)) > 0).all()
    assert (weights > 0).all()
    assert len(indices) <= 3 * m
    query = np.zeros(72, np.float32)
    query[indices] = weights
    scores = query[LabelVectors(root).indices].sum(axis=1)
    hits = Searcher(trained, (0, 1, 2)).search(text, k=40, m=m, score=score)
    np.testing.assert_allclose(scores[[hit.label for hit in hits]], [hit.score for hit in hits])
    assert np.count_nonzero(scores) == sum(hit.score > 0 for hit in hits)


def test_equal_scores_go_by_the_label():
    assert best_first([(7, 1.0), (3, 1.0), (9, 2.0)]) == [(9, 2.0), (3, 1.0), (7, 1.0)]
