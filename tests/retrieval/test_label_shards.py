import numpy as np
import pytest

from solar_tf.retrieval.label_shards import label_ranges, merge, shard_index
from solar_tf.retrieval.ranking import rank, rank_full
from solar_tf.run.index import build_index


@pytest.mark.parametrize(("num_labels", "num_shards"), [(10, 3), (1, 1), (3, 8), (1000, 7)])
def test_ranges_cover_all_labels_alike(num_labels, num_shards):
    ranges = label_ranges(num_labels, num_shards)
    assert [label for low, high in ranges for label in range(low, high)] == list(range(num_labels))
    sizes = [high - low for low, high in ranges]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert len(ranges) == min(num_shards, num_labels)


def test_the_index_of_a_shard_is_that_of_its_labels_alone():
    buckets = np.random.default_rng(0).integers(0, 7, 50)
    whole = build_index(buckets, 7)
    for low, high in [(0, 50), (0, 20), (13, 14), (20, 50)]:
        alone = build_index(buckets[low:high], 7)
        shard = shard_index(whole, low, high)
        np.testing.assert_array_equal(shard.offsets, alone.offsets)
        np.testing.assert_array_equal(shard.labels, alone.labels)
        assert (shard.offsets.dtype, shard.labels.dtype) == (np.uint32, np.int32)


@pytest.mark.parametrize("num_shards", [1, 2, 5, 60])
@pytest.mark.parametrize("m", [1, 4, 9])
@pytest.mark.parametrize("coarse", [False, True], ids=["scores", "many ties"])
def test_merged_shards_rank_as_the_whole_does_bit_for_bit(num_shards, m, coarse):
    generator = np.random.default_rng(m)
    num_labels, num_buckets, num_chunks, num_queries, k = 60, 9, 4, 11, 25
    label_buckets = generator.integers(0, num_buckets, (num_chunks, num_labels))
    weights = generator.random((num_queries, num_chunks, num_buckets), np.float32)
    if coarse:
        weights = np.round(weights * 2) / 2  # zeros, too: candidates that score nothing
    order = np.argsort(-weights, axis=2)[:, :, :m].astype(np.int32)
    kept = np.take_along_axis(weights, order, axis=2)
    indexes = [build_index(row, num_buckets) for row in label_buckets]

    def ranked(indexes):
        offsets, labels = map(np.stack, zip(*indexes, strict=True))
        return rank(order, kept, offsets, labels, k)

    ids, scores, candidates = ranked(indexes)
    ranges = label_ranges(num_labels, num_shards)
    parts = [ranked([shard_index(index, *bounds) for index in indexes]) for bounds in ranges]
    lows = [low for low, _ in ranges]
    merged_ids, merged_scores = merge([part[:2] for part in parts], lows)
    np.testing.assert_array_equal(merged_ids, ids)
    np.testing.assert_array_equal(merged_scores, scores)
    np.testing.assert_array_equal(sum(part[2] for part in parts), candidates)
    full = [rank_full(weights, label_buckets[:, low:high].copy(), k)[:2] for low, high in ranges]
    expected = rank_full(weights, label_buckets, k)[:2]
    for found, whole in zip(merge(full, lows), expected[:2], strict=True):
        np.testing.assert_array_equal(found, whole)
