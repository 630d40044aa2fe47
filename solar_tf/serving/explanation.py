"""How one query was answered, in numbers: its words, its buckets, and each label's part (§3.3)."""

import numpy as np

from solar_tf.datasets.vocabulary import tokenize
from solar_tf.retrieval.pipeline import SHOWN_BUCKETS


def explain(searcher, text, found, m):
    """The explanation of a query, and a list of chunks for each hit, from what `find` has found."""
    trace = found.trace
    if trace is None:  # no word is known
        return {"words": _words(searcher.vocabulary, text, {}), "chunks": []}, []
    top = trace.buckets[:, :SHOWN_BUCKETS]
    shown = {
        "chunk": searcher.chunks,
        "buckets": top.tolist(),
        "probabilities": np.take_along_axis(trace.probabilities, top, 1).tolist(),
        "labels": np.take_along_axis(trace.labels.bucket_sizes, top, 1).tolist(),
    }
    chunks = [dict(zip(shown, values, strict=True)) for values in zip(*shown.values(), strict=True)]
    kept = trace.buckets[:, :m]
    ranks = np.zeros(trace.probabilities.shape, np.int32)  # 0 for a bucket that was not kept
    np.put_along_axis(ranks, kept, np.arange(1, kept.shape[1] + 1, dtype=np.int32)[None], 1)
    explanation = {"words": _words(searcher.vocabulary, text, trace.features), "chunks": chunks}
    return explanation, [_chunks(hit, trace, ranks) for hit in found.hits]


def _words(vocabulary, text, values):
    """Every word once, with its value in the query's vector, or None where it is unknown."""
    words = list(dict.fromkeys(tokenize(text)))
    splits, ids, _ = vocabulary.encode(words)
    known = np.diff(splits) > 0
    return [
        {"word": word, "weight": values[int(ids[splits[i]])] if known[i] else None}
        for i, word in enumerate(words)
    ]


def _chunks(hit, trace, ranks):
    buckets = trace.labels.label_buckets[:, hit.label].astype(np.int64)
    rows = np.arange(len(buckets))
    return [
        {"bucket": bucket, "probability": probability, "rank": rank or None, "weight": weight}
        for bucket, probability, rank, weight in zip(
            buckets.tolist(),
            trace.probabilities[rows, buckets].tolist(),
            ranks[rows, buckets].tolist(),
            hit.evidence,
            strict=True,
        )
    ]
