"""SOLAR-full (§3.3), compiled: every label is scored, without a shortlist."""

import contextlib

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

FULL_BLOCK = 1 << 16  # labels; their sums and one chunk's weights fit a large L2 cache
LONG_FULL_BLOCK = 1 << 18  # where they do not: sums stream past, and weights are fetched less often
LARGE_CACHE = 3 << 19  # bytes
CACHE_SIZE = "/sys/devices/system/cpu/cpu0/cache/index2/size"
LANES = 4  # queries that full ranking scores together, in one vector register


@intrinsic
def _add_lanes(typing_context, sums, i, terms, j):
    """sums[i : i + LANES] += terms[j : j + LANES], both float32, which numba does one by one."""

    def generate(context, builder, signature, arguments):
        lanes = ir.VectorType(ir.FloatType(), LANES)
        target = pointer_to(context, builder, signature, arguments, 0, lanes)
        source = pointer_to(context, builder, signature, arguments, 2, lanes)
        total = builder.fadd(builder.load(target, align=4), builder.load(source, align=4))
        builder.store(total, target, align=4)
        return context.get_dummy_value()

    return types.void(sums, i, terms, j), generate


@compiled
def _add_up(table, label_buckets, low, sums):
    """The sums of a block of labels, for LANES queries, in chunk order."""
    sums[:] = 0
    high = low + len(sums) // LANES
    for chunk in range(len(table)):
        buckets, terms = label_buckets[chunk, low:high], table[chunk].ravel()
        for i in range(len(buckets)):
            _add_lanes(sums, i * LANES, terms, np.int64(buckets[i]) * LANES)


@compiled
def _filter(label_filter, scores, chunks, low, passed):
    """Which labels of a block pass the filter, and how many; no branches."""
    allowed, min_chunks, threshold = label_filter
    count = 0
    for i in range(min(len(passed), len(allowed) - low)):
        passed[i] = allowed[low + i] & (scores[i] >= threshold) & (chunks[i] >= min_chunks)
        count += passed[i]
    return count


def full_block(cache_size=CACHE_SIZE):
    """The labels of a block of full ranking that are fastest with this machine's L2 cache."""
    with contextlib.suppress(OSError), open(cache_size, encoding="ascii") as file:
        if 1024 * int(file.read().strip().removesuffix("K")) < LARGE_CACHE:
            return LONG_FULL_BLOCK
    return FULL_BLOCK


@compiled
def full_keys(weights, label_buckets, label_filter, block, keys, candidates):
    """SOLAR-full (§3.3): weights [Q, K, B], label_buckets [K, N] -> keys uint64 [Q, k], zeros
    before, and candidates int64 [Q], the labels that pass the filter.

    Loading weights at random takes most of the time, so LANES queries go together and
    share the loads; their sums for a block of labels stay in cache from chunk to chunk.
    """
    num_queries, num_chunks, num_buckets = weights.shape
    num_labels, k = label_buckets.shape[1], keys.shape[1]
    block = max(1, min(block, num_labels))
    best = np.empty((LANES, len(new_best(k))), np.uint64)
    counts, bounds = np.empty(LANES, np.int64), np.empty(LANES, np.int32)
    table = np.zeros((num_chunks, num_buckets, LANES), np.float32)
    scores = np.empty(block * LANES, np.float32)
    candidates[:] = num_labels
    if label_filter is not None:
        # Chunks are counted as scores are summed: 1 for every positive weight.
        ones = np.zeros_like(table) if label_filter[1] > 0 else table
        chunks = np.zeros(block * LANES, np.float32)
        passed = np.empty(block, np.bool_)
    for first in range(0, num_queries, LANES):
        lanes = min(LANES, num_queries - first)
        counts[:], bounds[:] = 0, 0
        for lane in range(lanes):
            table[:, :, lane] = weights[first + lane]
        if label_filter is not None:
            candidates[first : first + lanes] = 0
            if label_filter[1] > 0:
                ones[:] = np.sign(table)
        for low in range(0, num_labels, block):
            _add_up(table, label_buckets, low, scores)
            if label_filter is not None and label_filter[1] > 0:
                _add_up(ones, label_buckets, low, chunks)
            for lane in range(lanes):
                if label_filter is not None:
                    sums, counted = scores[lane::LANES], chunks[lane::LANES]
                    candidates[first + lane] += _filter(label_filter, sums, counted, low, passed)
                count, bound = counts[lane], bounds[lane]
                for i in range(min(block, num_labels - low)):
                    bits = bits_of(scores[i * LANES + lane])
                    if bits >= bound:
                        if label_filter is not None and not passed[i]:
                            continue
                        best[lane, count] = key_of(bits, low + i)
                        count += 1
                        if count == best.shape[1]:
                            count, bound = shrink(best[lane], k, bound)
                counts[lane], bounds[lane] = count, bound
        for lane in range(lanes):
            sort_best(best[lane], counts[lane], keys[first + lane])
