"""The m likeliest buckets of each query (§3.3), compiled."""

import numpy as np

from solar_tf.retrieval.kernels.keys import LINE, floor_of, key_of, sort_best
from solar_tf.runtime.compiled import compiled


@compiled
def top_keys(bits, keys):
    """The m largest values of each row, best first: bits uint32 [Q, B] -> keys uint64 [Q, m].

    A floor that m of the maxima of small groups reach is one under the m-th largest value,
    since m groups hold a value at or over it. Few values pass it; those are sorted. Group g
    is every `stride`-th value from g on, so that all maxima are made by whole vectors.
    """
    num_buckets, m = bits.shape[1], keys.shape[1]
    size = 1
    while 2 * m * size * size <= num_buckets:  # few maxima to look at, and few values after them
        size *= 2
    stride = min(num_buckets, (num_buckets // size + 15) // 16 * 16)
    maxima = np.empty(stride, np.uint32)
    chosen = np.empty(stride + 1, np.int64)
    places = np.empty(num_buckets + 1, np.int32)
    passed = np.empty(num_buckets + LINE, np.uint64)
    for q in range(bits.shape[0]):
        row = bits[q]
        maxima[:] = row[:stride]
        for first in range(stride, num_buckets, stride):
            values = row[first : first + stride]
            for i in range(len(values)):
                maxima[i] = max(maxima[i], values[i])
        floor = floor_of(maxima, m, np.uint32(0))
        num_chosen = count = 0
        for g in range(stride):
            chosen[num_chosen] = g
            num_chosen += maxima[g] >= floor  # no branch to mispredict
        for g in chosen[:num_chosen]:
            for i in range(np.uint64(g), np.uint64(num_buckets), np.uint64(stride)):
                places[count] = i
                count += row[i] >= floor
        for j in range(count):
            passed[j] = key_of(row[places[j]], places[j])
        sort_best(passed, count, keys[q])
