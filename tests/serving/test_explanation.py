"""Explanations, against the search's own numbers."""

import numpy as np
import pytest

from solar_tf.retrieval import pipeline, ranking
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.pipeline import SHOWN_BUCKETS
from solar_tf.retrieval.reference import top_buckets_simple
from solar_tf.retrieval.searcher import open_searcher
from solar_tf.serving.explanation import explain


@pytest.fixture(scope="module")
def searcher(trained):
    return open_searcher(trained.paths.root)


def explained(searcher, text, **options):
    """What was found, its explanation and the chunks of its hits."""
    options = SearchOptions(5, **options)
    (found,) = searcher.find([text], options)
    return found, *explain(searcher, text, found, options.m)


@pytest.mark.parametrize("m", [1, 7, None])
@pytest.mark.parametrize("score", ranking.SCORES)
def test_every_number_of_a_label_fits_the_others(searcher, m, score):
    found, explanation, chunks = explained(searcher, "topic3 topic4 xyzzy", m=m, score=score)
    probabilities = found.trace.probabilities
    for hit, parts in zip(found.hits, chunks, strict=True):
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
    assert [part["chunk"] for part in explanation["chunks"]] == list(searcher.chunks)


def test_a_query_is_encoded_and_ranked_once(searcher, monkeypatch):
    calls = []
    for name in ("encode", "_rank"):
        method = getattr(pipeline.Pipeline, name)

        def counted(*arguments, method=method, name=name):
            calls.append(name)
            return method(*arguments)

        monkeypatch.setattr(pipeline.Pipeline, name, counted)
    explained(searcher, "topic3", m=7)
    assert calls == ["encode", "_rank"]


def bucket_of(searcher, chunk, bucket):
    labels = searcher.labels
    return labels.labels[chunk, labels.offsets[chunk, bucket] : labels.offsets[chunk, bucket + 1]]


@pytest.mark.parametrize("m", [2, 20, None])
def test_the_likeliest_buckets_are_shown_with_their_labels(searcher, m):
    found, explanation, _ = explained(searcher, "topic3", m=m)
    for chunk, part in enumerate(explanation["chunks"]):
        row = found.trace.probabilities[chunk]
        best = top_buckets_simple(row, SHOWN_BUCKETS)
        assert part["buckets"] == best.tolist()
        assert part["probabilities"] == row[best].tolist()
        assert part["labels"] == [len(bucket_of(searcher, chunk, bucket)) for bucket in best]


def test_words_are_known_or_not_and_repeated_ones_count_once(searcher):
    _, explanation, _ = explained(searcher, "Topic3 xyzzy topic3")
    (known, weight), (unknown, nothing) = (word.values() for word in explanation["words"])
    assert (known, unknown, nothing) == ("topic3", "xyzzy", None)
    assert weight == 2  # counts, in this run


def test_a_query_of_unknown_words_has_no_buckets(searcher):
    found, explanation, chunks = explained(searcher, "xyzzy")
    assert (explanation["chunks"], found.candidates, chunks) == ([], 0, [])
    assert explanation["words"] == [{"word": "xyzzy", "weight": None}]
