"""The compiled ranking of the labels in the top buckets (§3.3), by exact float32 sums.

A sum in an array of all N labels would miss the cache at every hit. Buckets hold their labels in
ascending order, so the hits are gone through a part of the labels at a time, whose sums fit a
large L2 cache, and added up in the order of the chunks. Weights are not negative, so that a sum
only rises: labels are noted when theirs passes a bound that k others reach, and no other is looked
at again. Limits are another matter: who is within them shows when all is added up.
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
def _add_hits(
    labels, weights, starts, ends, stops, low, limits, bound, lines, scores, chunks, risen
):
    """Add up the weights of the hits among the labels from `low` on, as many as `scores` has.

    `stops` [K, m] becomes where the buckets leave them. Without limits, returns how many labels
    were hit, and how many places it left in `risen`: those whose sum has bits from `bound` on,
    each once. With limits that ask for it, `chunks` counts the weights over 0 of each label.
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
                if limits is None:
                    found += before < 0
                    if bits_of(score) >= bound and before < bound:
                        risen[count] = place
                        count += 1
                elif limits[1] > 0:
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
def _take_limited(labels, starts, stops, low, limits, lines, scores, chunks, best, count, bound, k):
    """Go through the same hits again and keep the labels within the limits and the bound.

    Leaves `scores` and `chunks` empty. Returns the number of labels within the limits, and
    count and bound as they are now.
    """
    allowed, min_chunks, least = limits
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
                # Without branches, which could not be foretold.
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
def rank_keys(buckets, weights, offsets, labels, limits, part, sparse, keys, candidates):
    """The k best labels in the hit buckets (§3.3), by exact float32 sums in chunk order.

    buckets, weights [Q, K, m], offsets [K, B+1], labels [K, N] -> keys uint64 [Q, k], zeros
    before, and candidates int64 [Q], the labels found within the limits. Sums are made of `part`
    labels at a time, and cleared by the hits where there are `sparse` labels or more for each.
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
    risen = np.empty(part if limits is None else 0, np.int32)
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
            more, num_risen = _add_hits(
                labels,
                weights[q],
                starts,
                ends,
                stops,
                low,
                limits,
                bound,
                lines,
                here,
                chunks,
                risen,
            )
            if limits is not None:
                more, count, bound = _take_limited(
                    labels, starts, stops, low, limits, lines, here, chunks, best, count, bound, k
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
