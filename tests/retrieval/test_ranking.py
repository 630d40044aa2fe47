"""The public functions of ranking: by thought, against the reference, and what they refuse."""

import numpy as np
import pytest

from solar_tf.retrieval.label_table import LabelTable, label_ranges, shard_index
from solar_tf.retrieval.ranking import (
    contributions,
    decode_keys,
    encode_keys,
    merge_shards,
    rank,
    rank_full,
    score_weights,
    top_buckets,
)
from solar_tf.run.index import build_index

# Two chunks of three buckets, five labels: small enough to check by thought.
LABEL_BUCKETS = np.array([[0, 1, 1, 2, 0], [1, 1, 0, 0, 1]], np.uint16)
OFFSETS = np.array([[0, 2, 4, 5], [0, 2, 5, 5]], np.uint32)
LABELS = np.array([[0, 4, 1, 2, 3], [2, 3, 0, 1, 4]], np.int32)
PROBABILITIES = np.array([[[0.5, 0.25, 0], [0.25, 0.5, 0.125]]], np.float32)


def test_sums_the_hits_of_a_label_over_the_chunks():
    ids, scores, candidates = rank([[[0], [1]]], [[[0.5], [0.5]]], OFFSETS, LABELS, k=4)
    assert ids.tolist() == [[0, 4, 1, -1]]
    assert scores.tolist() == [[1.0, 1.0, 0.5, 0.0]]
    assert candidates.tolist() == [3]


def test_full_ranking_scores_every_label():
    ids, scores, candidates = rank_full(PROBABILITIES, LABEL_BUCKETS, k=7)
    assert (candidates == 5).all()
    assert ids.tolist() == [[0, 4, 1, 2, 3, -1, -1]]
    assert scores.tolist() == [[1.0, 1.0, 0.75, 0.5, 0.25, 0, 0]]


def test_zero_weights_still_make_candidates():
    ids, scores, candidates = rank([[[1], [2]]], [[[0.0], [0.0]]], OFFSETS, LABELS, k=3)
    assert ids.tolist() == [[1, 2, -1]]
    assert scores.tolist() == [[0, 0, 0]]
    assert candidates.tolist() == [2]


def test_top_buckets_break_ties_towards_the_lower_bucket():
    buckets, values = top_buckets(np.array([[0, 0.5, 1, 0.5, 0]], np.float32), 4)
    assert buckets.tolist() == [[2, 1, 3, 0]]
    assert values.tolist() == [[1, 0.5, 0.5, 0]]


@pytest.mark.parametrize("bad", [np.nan, -1.0, -0.0])
def test_top_buckets_refuse_what_is_no_probability(bad):
    with pytest.raises(ValueError, match="neither negative nor NaN"):
        top_buckets(np.array([[0.5, 0.5], [0.5, bad]], np.float32), 1)


@pytest.mark.parametrize("m", [0, 6])
def test_top_buckets_refuse_an_impossible_m(m):
    with pytest.raises(ValueError, match=f"m={m} "):
        top_buckets(np.zeros((1, 5), np.float32), m)


@pytest.mark.parametrize("bad", [np.nan, -1.0, -0.0, np.inf, 3e38])
def test_rankings_refuse_weights_that_cannot_be_summed(bad):
    with pytest.raises(ValueError, match="weights must be"):
        rank([[[0], [1]]], [[[0.5], [bad]]], OFFSETS, LABELS, k=1)
    with pytest.raises(ValueError, match="weights must be"):
        rank_full(np.full((1, 2, 3), bad), LABEL_BUCKETS, k=1)


def test_rank_refuses_another_number_of_chunks():
    with pytest.raises(ValueError, match="shapes do not fit"):
        rank([[[0]]], [[[0.5]]], OFFSETS, LABELS, k=1)
    with pytest.raises(ValueError, match="shapes do not fit"):
        rank_full(PROBABILITIES[:, :1], LABEL_BUCKETS, k=1)


@pytest.mark.parametrize("bucket", [-1, 3])
def test_rankings_refuse_buckets_out_of_range(bucket):
    with pytest.raises(ValueError, match="not all within 0 and 2"):
        rank([[[0], [bucket]]], np.ones((1, 2, 1)), OFFSETS, LABELS, k=1)
    with pytest.raises(ValueError, match="not all within 0 and 2"):
        rank_full(PROBABILITIES, np.full((2, 5), bucket), k=1)


def test_rankings_refuse_to_find_nothing():
    with pytest.raises(ValueError, match="k=0"):
        rank([[[0], [1]]], np.ones((1, 2, 1)), OFFSETS, LABELS, k=0)
    with pytest.raises(ValueError, match="k=0"):
        rank_full(PROBABILITIES, LABEL_BUCKETS, k=0)


def random_problem(seed, num_labels, num_buckets, num_chunks, num_queries):
    """A LabelTable and probabilities [Q, K, B]."""
    generator = np.random.default_rng(seed)
    label_buckets = generator.integers(0, num_buckets, (num_chunks, num_labels))
    indexes = [build_index(row, num_buckets) for row in label_buckets]
    probabilities = generator.random((num_queries, num_chunks, num_buckets), np.float32) ** 20
    return LabelTable.stack(indexes, num_chunks), probabilities, indexes


def kept(probabilities, m):
    top = top_buckets(probabilities.reshape(-1, probabilities.shape[2]), m)
    return [part.reshape(*probabilities.shape[:2], m) for part in top]


def test_the_order_of_the_buckets_does_not_matter():
    table, probabilities, _ = random_problem(0, 5000, 50, 4, 3)
    buckets, weights = kept(probabilities, 20)
    found = table.rank(buckets[:, :, ::-1], weights[:, :, ::-1], 200)
    for got, expected in zip(found, table.rank(buckets, weights, 200), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("m", [3, None])
def test_contributions_of_the_chunks_add_up_to_the_scores(m):
    table, probabilities, _ = random_problem(1, 40, 9, 4, 5)
    buckets, weights = (None, probabilities) if m is None else kept(probabilities, m)
    ids, scores, _ = table.rank(buckets, weights, 30)
    terms = contributions(buckets, weights, table.label_buckets, ids)
    for q, label, chunk in np.ndindex(terms.shape):
        bucket = table.label_buckets[chunk, ids[q, label]]
        row = probabilities[q, chunk]
        found = ids[q, label] >= 0 and (m is None or bucket in buckets[q, chunk])
        assert terms[q, label, chunk] == (row[bucket] if found else 0)
    np.testing.assert_allclose(terms.sum(axis=2), scores, rtol=1e-6)


@pytest.mark.parametrize("num_shards", [1, 2, 5, 60])
@pytest.mark.parametrize("m", [1, 4, 9, None])
@pytest.mark.parametrize("coarse", [False, True], ids=["scores", "many ties"])
def test_merged_shards_rank_as_the_whole_does_bit_for_bit(num_shards, m, coarse):
    table, weights, indexes = random_problem(m, 60, 9, 4, 11)
    if coarse:
        weights = np.round(weights * 2) / 2  # zeros, too: candidates that score nothing
    buckets, weights = (None, weights) if m is None else kept(weights, m)
    ranges = label_ranges(60, num_shards)
    shards = [LabelTable.stack((shard_index(i, *r) for i in indexes), 4) for r in ranges]
    merged = merge_shards([shard.rank(buckets, weights, 25) for shard in shards], ranges)
    for found, expected in zip(merged, table.rank(buckets, weights, 25), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_without_labels_there_is_only_padding():
    none = np.zeros((2, 0), np.int32)
    ids, _, candidates = rank([[[0], [1]]], [[[1], [1]]], np.zeros_like(OFFSETS), none, k=2)
    assert ids.tolist() == [[-1, -1]] and candidates.tolist() == [0]
    assert rank_full(PROBABILITIES, none, k=2)[0].tolist() == [[-1, -1]]


def test_score_weights():
    probabilities = [0, 1e-5, 1e-4, 1e-3, 1]
    np.testing.assert_array_equal(
        score_weights(probabilities, "probability"), np.float32(probabilities)
    )
    evidence = score_weights(probabilities, "evidence", floor=1e-4)
    np.testing.assert_allclose(evidence, [0, 0, 0, np.log(10), np.log(1e4)], rtol=1e-6)
    assert evidence.dtype == np.float32
    with pytest.raises(ValueError, match="'odds' is not one of probability, evidence"):
        score_weights(probabilities, "odds")


def test_keys_order_as_the_ranking_does_and_back_they_are_what_they_were():
    ids = np.array([[4, 7, 2, 0, -1]], np.int32)
    scores = np.array([[1.5, 1.5, 0.25, 0.0, 0.0]], np.float32)
    keys = encode_keys(ids, scores)
    assert (keys[:, :-1] > keys[:, 1:]).all()
    assert keys[0, -1] == 0
    for found, expected in zip(decode_keys(keys), (ids, scores), strict=True):
        np.testing.assert_array_equal(found, expected)
