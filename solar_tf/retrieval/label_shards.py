"""Labels split by range into shards, each ranked by itself, merged exactly (§3.3).

A shard's index is one of fewer labels, so ranking needs no other kernel. Its scores are the same
float32 sums in the same order, and the best k of all labels are among the best k of each shard:
the merged ranking is that of the whole index, bit for bit.
"""

import itertools

import numpy as np

from solar_tf.retrieval.ranking import decode_keys, encode_keys
from solar_tf.run.index import InvertedIndex
from solar_tf.runtime.ragged import row_splits


def label_ranges(num_labels, num_shards):
    """The ranges [(low, high), ...] of labels, alike in size; none is empty."""
    num_shards = max(1, min(num_shards, num_labels))
    bounds = [num_labels * shard // num_shards for shard in range(num_shards + 1)]
    return list(itertools.pairwise(bounds))


def shard_index(index, low, high):
    """The inverted index of the labels low to high - 1, numbered from 0."""
    inside = (index.labels >= low) & (index.labels < high)
    before = row_splits(inside)  # labels inside, before each place
    offsets = before[index.offsets].astype(np.uint32)
    return InvertedIndex(offsets, index.labels[inside] - np.int32(low))


def merge(shards, lows):
    """The best k of each shard -> the best k of all: ids int32 [Q, k], scores float32 [Q, k].

    `shards` are pairs of ids [Q, k], as numbered in their shard and padded with -1, and scores
    [Q, k]; `lows` the first label of each shard.
    """
    keys = np.concatenate(
        [
            encode_keys(np.where(ids < 0, ids, ids + np.int32(low)), scores)
            for (ids, scores), low in zip(shards, lows, strict=True)
        ],
        axis=1,
    )
    k = shards[0][0].shape[1]
    return decode_keys(np.sort(keys, axis=1)[:, ::-1][:, :k])
