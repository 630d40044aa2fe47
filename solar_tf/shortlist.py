"""The compiled ranking of the labels in the top buckets (§3.3), by exact float32 sums.

A sum in an array of all N labels would miss the cache at every hit. Buckets hold their labels in
ascending order, so the hits are gone through a part of the labels at a time, whose sums fit the
L2 cache: once to add them up, in the order of the chunks, and once more to take the sums. Where
a good part of the labels is hit, every label is looked at instead of the hits' second round.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from solar_tf.kernels import (
    bits_of,
    compiled,
    key_of,
    new_best,
    pointer_to,
    shrink,
    sort_best,
)

PART = 1 << 18  # labels, whose float32 sums fit the L2 cache
SPARSE = 3  # labels for each hit, beyond which hits are gone through twice
MOST_SEEN = 2000  # labels of a chunk that are looked at for a first bound
GROUP = 256  # labels that are looked over at a time
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
def _certain_score(weights, starts, ends, labels, limits, k):
    """A score that k labels reach for certain: the buckets of one chunk share no label."""
    certain = np.float32(0)
    if limits is not None and limits[1] > 1:
        return certain  # who is found in a second chunk is not known yet
    for chunk in range(weights.shape[0]):
        covered, seen, least = 0, 0, np.float32(np.inf)
        for j in range(weights.shape[1]):
            if limits is None:
                covered += ends[chunk, j] - starts[chunk, j]
            else:
                for i in range(starts[chunk, j], ends[chunk, j]):
                    covered += limits[0][labels[chunk, i]]
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
    """Buckets lie far apart, and waiting for each would take most of the time.

    The same number of cache lines of each: the end of a loop is foretold only if it is regular.
    """
    if j < len(starts):
        for line in range(lines):
            _prefetch(row, starts[j] + line * LABELS_PER_LINE)


@compiled
def _add_hits(labels, weights, starts, ends, stops, low, limits, lines, scores, chunks):
    """Add up the weights of the hits among the labels from `low` on, as many as `scores` has.

    `stops` [K, m] becomes where the buckets leave them; `chunks` counts the weights over 0 of
    each label, where the limits ask for it.
    """
    num_chunks, m = starts.shape
    high = low + len(scores)
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            _fetch_bucket(row, starts[chunk], j + AHEAD, lines)
            weight = weights[chunk, j]
            at, end = np.uint64(starts[chunk, j]), np.uint64(ends[chunk, j])
            while at < end and row[at] < high:
                scores[np.uint64(row[at] - low)] += weight
                if limits is not None and limits[1] > 0:
                    chunks[np.uint64(row[at] - low)] += weight > 0
                at += ONE
            stops[chunk, j] = at


@compiled
def _take_hits(labels, starts, stops, low, limits, lines, scores, chunks, best, count, bound, k):
    """Go through the same hits again and keep the labels whose score has bits from `bound` on.

    Leaves `scores` and `chunks` empty. Returns the number of labels found within the limits, and
    count and bound as they are now.
    """
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
                good = score >= 0  # not so at the label's second hit
                if limits is not None:  # without branches, which could not be foretold
                    allowed, min_chunks, least = limits
                    good &= (score >= bits_of(least)) & allowed[row[at]]
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
def _take_all(low, scores, best, count, bound, k):
    """As `_take_hits`, by a look at every label: no limits."""
    bits = scores.view(np.int32)
    found = 0
    for first in range(0, len(bits), GROUP):
        group = bits[first : first + GROUP]
        highest = EMPTY
        for i in range(len(group)):
            highest = max(highest, group[i])
            found += group[i] >= 0
        if highest >= bound:
            for i in range(len(group)):
                if group[i] >= bound:
                    best[count] = key_of(group[i], low + first + i)
                    count += 1
                    if count == len(best):
                        count, bound = shrink(best, k, bound)
        group[:] = EMPTY
    return found, count, bound


@compiled
def rank_keys(buckets, weights, offsets, labels, limits, part, sparse, keys, candidates):
    """The k best labels in the hit buckets (§3.3), by exact float32 sums in chunk order.

    buckets, weights [Q, K, m], offsets [K, B+1], labels [K, N] -> keys uint64 [Q, k], zeros
    before, and candidates int64 [Q], the labels found within the limits. Sums are made of `part`
    labels at a time; hits are gone through twice where there are `sparse` labels or more for
    each, or limits.
    """
    num_queries, num_chunks, m = buckets.shape
    num_labels, k = labels.shape[1], keys.shape[1]
    starts = np.empty((num_chunks, m), np.int64)
    stops = np.empty((num_chunks, m), np.int64)
    ends = np.empty((num_chunks, m), np.int64)
    part = max(1, min(part, num_labels))
    num_parts = (num_labels + part - 1) // part
    scores = np.full(part, -0.0, np.float32)
    chunks = np.zeros(part if limits is not None else 0, np.int32)
    best = new_best(k)
    for q in range(num_queries):
        for chunk in range(num_chunks):
            for j in range(m):
                bucket = buckets[q, chunk, j]
                starts[chunk, j] = offsets[chunk, bucket]
                ends[chunk, j] = offsets[chunk, bucket + 1]
        bound = bits_of(_certain_score(weights[q], starts, ends, labels, limits, k))
        num_hits = (ends - starts).sum()
        usual = num_hits // max(1, num_chunks * m * num_parts)  # hits of a bucket in a part
        lines = min(MOST_LINES, usual // LABELS_PER_LINE + 2)
        found = count = 0
        for low in range(0, num_labels, part):
            here = scores[: num_labels - low]
            _add_hits(labels, weights[q], starts, ends, stops, low, limits, lines, here, chunks)
            if limits is None and num_labels < sparse * num_hits:
                more, count, bound = _take_all(low, here, best, count, bound, k)
            else:
                more, count, bound = _take_hits(
                    labels, starts, stops, low, limits, lines, here, chunks, best, count, bound, k
                )
            found += more
            starts, stops = stops, starts
        sort_best(best, count, keys[q])
        candidates[q] = found
