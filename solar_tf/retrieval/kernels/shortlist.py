"""The compiled ranking of the labels in the top buckets (§3.3), by exact float32 sums.

Sums in an array of all N labels would miss the cache at every hit. Buckets hold their labels in
ascending order, so the kernel takes a part of the labels at a time, whose sums fit a large L2
cache, and adds up its hits in the order of the chunks. Weights are not negative, so a sum only
rises: a label is noted when its sum passes a bound that k others reach, and no other is looked at
again. With a filter, a label's eligibility is known only after all hits are summed: the hits are
gone through a second time.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from solar_tf.retrieval.kernels.keys import (
    bits_of,
    key_of,
    new_best,
    pointer_to,
    shrink,
    sort_best,
)
from solar_tf.runtime.compiled import compiled

PART = 1 << 18  # labels, whose float32 sums fit a large L2 cache
SPARSE = 32  # labels for each hit, beyond which only the sums of hits are cleared
MOST_SEEN = 2000  # labels of a chunk that are looked at for a first bound
AHEAD = 8  # buckets between the one in work and the one on its way from memory
LABELS_PER_LINE = 16  # of the cache
MOST_LINES = 8  # of a bucket that are asked for ahead
EMPTY = np.int32(-(2**31))  # the bits of -0.0, which no sum of weights has
ONE = np.uint64(1)


@intrinsic
def _prefetch(typing_context, array, index):
    """Ask for the cache line of array[index] without waiting for it."""

    def generate(context, builder, signature, arguments):
        byte, number = ir.IntType(8), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte.as_pointer()], kind)
        pointer = pointer_to(context, builder, signature, arguments, 0, byte)
        builder.call(prefetch, [pointer, number(0), number(3), number(1)])  # read, keep, data
        return context.get_dummy_value()

    return types.void(array, index), generate


@compiled
def _certain_score(weights, starts, ends, labels, label_filter, k):
    """A score that k labels reach for certain: the buckets of one chunk share no label."""
    certain = np.float32(0)
    if label_filter is not None and label_filter[1] > 1:
        return certain  # which labels a second chunk holds is not known yet
    for chunk in range(weights.shape[0]):
        covered, seen, least = 0, 0, np.float32(np.inf)
        for j in range(weights.shape[1]):
            if label_filter is None:
                covered += ends[chunk, j] - starts[chunk, j]
            else:
                for i in range(starts[chunk, j], ends[chunk, j]):
                    covered += label_filter[0][labels[chunk, i]]
                seen += ends[chunk, j] - starts[chunk, j]
            least = min(least, weights[chunk, j])
            if covered >= k:
                certain = max(certain, least)
                break
            if seen > MOST_SEEN:
                break
    return certain


@compiled
def _fetch_bucket(row, starts, j, lines):
    """Prefetch a bucket: they lie far apart, and waiting for each would take most of the time.

    The same number of cache lines of each: a constant trip count keeps branch prediction accurate.
    """
    if j < len(starts):
        for line in range(lines):
            _prefetch(row, starts[j] + line * LABELS_PER_LINE)


@compiled
def _add_hits(
    labels, weights, starts, ends, stops, low, label_filter, bound, lines, scores, chunks, risen
):
    """Add up the weights of the hits among the labels from `low` on, as many as `scores` has.

    `stops` [K, m] becomes the end of these labels in each bucket. Without a filter, returns how
    many labels were hit, and how many places it left in `risen`: those whose sum has bits from
    `bound` on, each once. If the filter has a `min_chunks`, `chunks` counts each label's weights
    over 0.
    """
    bits = scores.view(np.int32)
    num_chunks, m = starts.shape
    high = low + len(scores)
    found = count = 0
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            _fetch_bucket(row, starts[chunk], j + AHEAD, lines)
            weight = weights[chunk, j]
            at, end = np.uint64(starts[chunk, j]), np.uint64(ends[chunk, j])
            while at < end and row[at] < high:
                place = np.uint64(row[at] - low)
                before = bits[place]
                score = scores[place] + weight
                scores[place] = score
                if label_filter is None:
                    found += before < 0
                    if bits_of(score) >= bound and before < bound:
                        risen[count] = place
                        count += 1
                elif label_filter[1] > 0:
                    chunks[place] += weight > 0
                at += ONE
            stops[chunk, j] = at
    return found, count


@compiled
def _take_risen(risen, low, scores, best, count, bound, k):
    """Keep the labels at the places `risen` whose score has bits from `bound` on.

    Returns count and bound as they are now.
    """
    bits = scores.view(np.int32)
    for place in risen:
        if bits[place] >= bound:
            best[count] = key_of(bits[place], low + place)
            count += 1
            if count == len(best):
                count, bound = shrink(best, k, bound)
    return count, bound


@compiled
def _clear_hits(labels, starts, stops, low, lines, scores):
    """Leave `scores` empty by going through the same hits again."""
    bits = scores.view(np.int32)
    num_chunks, m = starts.shape
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            _fetch_bucket(row, starts[chunk], j + AHEAD, lines)
            for at in range(np.uint64(starts[chunk, j]), np.uint64(stops[chunk, j])):
                bits[np.uint64(row[at] - low)] = EMPTY


@compiled
def _take_filtered(
    labels, starts, stops, low, label_filter, lines, scores, chunks, best, count, bound, k
):
    """Go through the same hits again and keep the labels that pass the filter and the bound.

    Leaves `scores` and `chunks` empty. Returns the number of labels that pass the filter, and
    count and bound as they are now.
    """
    allowed, min_chunks, threshold = label_filter
    bits = scores.view(np.int32)
    num_chunks, m = starts.shape
    found = 0
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            _fetch_bucket(row, starts[chunk], j + AHEAD, lines)
            for at in range(np.uint64(starts[chunk, j]), np.uint64(stops[chunk, j])):
                place = np.uint64(row[at] - low)
                score = bits[place]
                bits[place] = EMPTY
                good = score >= 0  # false at the label's second hit
                # No branches: they could not be predicted.
                good &= (score >= bits_of(threshold)) & allowed[row[at]]
                good &= chunks[place] >= min_chunks
                chunks[place] = 0
                found += good
                if score >= bound and good:
                    best[count] = key_of(score, row[at])
                    count += 1
                    if count == len(best):
                        count, bound = shrink(best, k, bound)
    return found, count, bound


@compiled
def rank_keys(buckets, weights, offsets, labels, label_filter, part, sparse, keys, candidates):
    """The k best labels in the hit buckets (§3.3), by exact float32 sums in chunk order.

    buckets, weights [Q, K, m], offsets [K, B+1], labels [K, N] -> keys uint64 [Q, k], zeros
    before, and candidates int64 [Q], the labels found that pass the filter. Sums are made of `part`
    labels at a time, and cleared hit by hit where there are at least `sparse` labels a hit.
    """
    num_queries, num_chunks, m = buckets.shape
    num_labels, k = labels.shape[1], keys.shape[1]
    starts = np.empty((num_chunks, m), np.int64)
    stops = np.empty((num_chunks, m), np.int64)
    ends = np.empty((num_chunks, m), np.int64)
    part = max(1, min(part, num_labels))
    num_parts = (num_labels + part - 1) // part
    scores = np.full(part, -0.0, np.float32)
    chunks = np.zeros(part if label_filter is not None else 0, np.int32)
    risen = np.empty(part if label_filter is None else 0, np.int32)
    best = new_best(k)
    for q in range(num_queries):
        for chunk in range(num_chunks):
            for j in range(m):
                bucket = buckets[q, chunk, j]
                starts[chunk, j] = offsets[chunk, bucket]
                ends[chunk, j] = offsets[chunk, bucket + 1]
        bound = bits_of(_certain_score(weights[q], starts, ends, labels, label_filter, k))
        num_hits = (ends - starts).sum()
        usual = num_hits // max(1, num_chunks * m * num_parts)  # hits of a bucket in a part
        lines = min(MOST_LINES, usual // LABELS_PER_LINE + 2)
        found = count = 0
        for low in range(0, num_labels, part):
            here = scores[: num_labels - low]
            more, num_risen = _add_hits(
                labels,
                weights[q],
                starts,
                ends,
                stops,
                low,
                label_filter,
                bound,
                lines,
                here,
                chunks,
                risen,
            )
            if label_filter is not None:
                more, count, bound = _take_filtered(
                    labels,
                    starts,
                    stops,
                    low,
                    label_filter,
                    lines,
                    here,
                    chunks,
                    best,
                    count,
                    bound,
                    k,
                )
            else:
                count, bound = _take_risen(risen[:num_risen], low, here, best, count, bound, k)
                if num_labels < sparse * num_hits:
                    here.view(np.int32)[:] = EMPTY
                else:
                    _clear_hits(labels, starts, stops, low, lines, here)
            found += more
            starts, stops = stops, starts
        sort_best(best, count, keys[q])
        candidates[q] = found
