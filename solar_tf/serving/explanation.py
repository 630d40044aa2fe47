"""How one query was answered, in numbers: its words, its buckets, and each label's part (§3.3)."""

import numpy as np

from solar_tf.datasets.vocabulary import tokenize
from solar_tf.retrieval import ranking

SHOWN_BUCKETS = 8  # of each chunk


def explain(searcher, text, hits, m, score, filters=None):
    """`(explanation, candidates, chunks)`: of the query, and one list of chunks for each hit.

    `filters` are the arguments of `Labels.mask`.
    """
    explanation = {"words": _words(searcher, text), "chunks": []}
    probabilities = searcher.encode(text)  # [K, B]
    if probabilities is None:
        return explanation, 0, []
    num_buckets = probabilities.shape[1]
    kept = num_buckets if m is None else min(m, num_buckets)
    buckets, values = ranking.top_buckets(probabilities, max(kept, min(SHOWN_BUCKETS, num_buckets)))
    labels = searcher.labels
    sizes = np.diff(labels.offsets.astype(np.int64))  # [K, B]
    top = buckets[:, :SHOWN_BUCKETS]
    explanation["chunks"] = [
        {
            "chunk": chunk,
            "buckets": top[row].tolist(),
            "probabilities": values[row, :SHOWN_BUCKETS].tolist(),
            "labels": sizes[row, top[row]].tolist(),
        }
        for row, chunk in enumerate(searcher.chunks)
    ]
    ranks = np.zeros(probabilities.shape, np.int32)  # 0 for a bucket that was not kept
    np.put_along_axis(ranks, buckets[:, :kept], np.arange(1, kept + 1, dtype=np.int32)[None], 1)
    weights = ranking.score_weights(values[:, :kept], score)
    limits = ranking.Limits(labels.mask(*filters)) if filters else None
    candidates = ranking.rank(
        buckets[None, :, :kept], weights[None], labels.offsets, labels.labels, 1,
        labels.limits(limits),
    )[2]  # fmt: skip
    return (
        explanation,
        int(candidates[0]),
        [
            _chunks(hit, labels.label_buckets[:, hit.label].astype(np.int64), probabilities, ranks)
            for hit in hits
        ],
    )


def _words(searcher, text):
    """Every word once, with its value in the query's vector, or None where it is unknown."""
    words = list(dict.fromkeys(tokenize(text)))
    splits, ids, _ = searcher.vocabulary.encode(words)
    inputs = searcher.inputs([text])
    values = dict(zip(inputs.ids.tolist(), inputs.values.tolist(), strict=True))
    known = np.diff(splits) > 0
    return [
        {"word": word, "weight": values[int(ids[splits[i]])] if known[i] else None}
        for i, word in enumerate(words)
    ]


def _chunks(hit, buckets, probabilities, ranks):
    rows = np.arange(len(buckets))
    return [
        {"bucket": bucket, "probability": probability, "rank": rank or None, "weight": weight}
        for bucket, probability, rank, weight in zip(
            buckets.tolist(),
            probabilities[rows, buckets].tolist(),
            ranks[rows, buckets].tolist(),
            hit.evidence,
            strict=True,
        )
    ]
