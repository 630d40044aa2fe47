"""Labels with the very words of the query, which a model of two like towers puts first.

Where products are both queries and labels, and no product is its own label, every such answer is
wrong, and a siamese network cannot learn so: it gives equal titles a cosine of 1.
"""

from functools import partial

import numpy as np

from solar_tf.baselines.interface import Baseline
from solar_tf.retrieval.metrics import filter_pairs
from solar_tf.runtime.ragged import row_splits

_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64


class TitleBaseline(Baseline):
    """Has `rank(inputs, k)`, the `label_keys` among its arrays, and a setting `same_title`."""

    def predict(self, inputs, k):
        if self.settings.same_title == "keep":
            return self.rank(inputs, k)
        keys, label_keys = title_keys(inputs), self.arrays["label_keys"]
        return without_same_titles(partial(self.rank, inputs), keys, label_keys, k)


def title_keys(inputs):
    """A number for each CSR row that rows of the same words share: uint64 [n]."""
    x = (inputs.indices.astype(np.uint64) + np.uint64(1)) * np.uint64(_ODD[0])
    for shift, factor in ((30, _ODD[1]), (27, _ODD[2])):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(x ^ (x >> np.uint64(31)))])
    return sums[inputs.indptr[1:]] - sums[inputs.indptr[:-1]]


def without_same_titles(search, keys, label_keys, k):
    """Rankings `search(k)` of queries with these keys [n], less the labels that share a key.

    Returns ids and scores, both [n, k], padded with -1 and 0.
    """
    order = np.argsort(label_keys, kind="stable")
    first, last = (np.searchsorted(label_keys, keys, side, order) for side in ("left", "right"))
    counts = last - first
    splits = row_splits(counts)
    places = np.arange(splits[-1]) + np.repeat(first - splits[:-1], counts)
    wanted = min(k + int(counts.max(initial=0)), len(label_keys))
    ids, scores = filter_pairs(*search(wanted), splits, order[places])
    missing = max(0, k - wanted)
    ids = np.pad(ids[:, :k], ((0, 0), (0, missing)), constant_values=-1)
    scores = np.pad(scores[:, :k], ((0, 0), (0, missing)))
    return ids, np.where(ids < 0, 0, scores).astype(np.float32)
