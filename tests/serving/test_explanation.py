"""Explanations, against the search's own numbers."""

import numpy as np
import pytest

from solar_tf.retrieval import ranking
from solar_tf.retrieval.searcher import open_searcher
from solar_tf.serving.explanation import SHOWN_BUCKETS, explain


@pytest.fixture(scope="module")
def searcher(trained):
    return open_searcher(trained.paths.root)


@pytest.mark.parametrize("m", [1, 7, None])
@pytest.mark.parametrize("score", ranking.SCORES)
def test_every_number_of_a_label_fits_the_others(searcher, m, score):
    text = "topic3 topic4 xyzzy"
    hits = searcher.search(text, k=5, m=m, score=score)
    explanation, candidates, chunks = explain(searcher, text, hits, m, score)
    probabilities = searcher.encode(text)
    for hit, parts in zip(hits, chunks, strict=True):
        assert sum(part["weight"] for part in parts) == pytest.approx(hit.score, rel=1e-5)
        for chunk, part in enumerate(parts):
            row = probabilities[chunk]
            assert part["probability"] == row[part["bucket"]]
            assert hit.label in bucket_of(searcher, chunk, part["bucket"])
            better = np.count_nonzero(row > row[part["bucket"]])
            if part["rank"] is None:
                assert part["weight"] == 0 and better + 1 > m
            else:
                assert part["rank"] == better + 1 and part["rank"] <= (m or len(row))
                expected = ranking.score_weights(row[part["bucket"]], score)
                assert part["weight"] == pytest.approx(expected, rel=1e-5)
    kept = {
        label
        for chunk, row in enumerate(probabilities)
        for bucket in np.argsort(-row, kind="stable")[:m]
        for label in bucket_of(searcher, chunk, bucket).tolist()
    }
    assert candidates == len(kept)
    assert [part["chunk"] for part in explanation["chunks"]] == list(searcher.chunks)


def bucket_of(searcher, chunk, bucket):
    labels = searcher.labels
    return labels.labels[chunk, labels.offsets[chunk, bucket] : labels.offsets[chunk, bucket + 1]]


def test_the_likeliest_buckets_are_shown_with_their_labels(searcher):
    explanation, _, _ = explain(searcher, "topic3", [], 2, "evidence")
    for chunk, part in enumerate(explanation["chunks"]):
        row = searcher.encode("topic3")[chunk]
        best = np.argsort(-row, kind="stable")[:SHOWN_BUCKETS]
        assert part["buckets"] == best.tolist()
        assert part["labels"] == [len(bucket_of(searcher, chunk, bucket)) for bucket in best]


def test_words_are_known_or_not_and_repeated_ones_count_once(searcher):
    explanation, _, _ = explain(searcher, "Topic3 xyzzy topic3", [], 7, "evidence")
    (known, weight), (unknown, nothing) = (word.values() for word in explanation["words"])
    assert (known, unknown, nothing) == ("topic3", "xyzzy", None)
    assert weight == 2  # counts, in this run


def test_a_query_of_unknown_words_has_no_buckets(searcher):
    explanation, candidates, chunks = explain(searcher, "xyzzy", [], 7, "evidence")
    assert (explanation["chunks"], candidates, chunks) == ([], 0, [])
