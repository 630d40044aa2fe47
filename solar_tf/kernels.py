"""The compiled inner loops of retrieval (§3.3): top-m buckets, shortlist ranking, full ranking.

Every ranking works on 64-bit keys: the bits of a non-negative float32 score above
the complement of an int32 id. Such keys order as integers exactly as the project
ranks, higher score first and then the lower id, and the key 0 is worse than any
label: it decodes to the padding, id -1 and score 0.

Nothing here imports TensorFlow: spawned workers load this module and must start fast.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LANES = 4  # queries that full ranking scores together, one SSE register
TILE_BITS = 13
TILE = 1 << TILE_BITS  # labels whose float32 sums fit the L1 cache
AHEAD = 8  # buckets that shortlist ranking prefetches
EMPTY = np.int32(-(2**31))  # the bits of -0.0

compiled = njit(nogil=True, cache=True)


@intrinsic
def _prefetch(context, array, index):
    """Ask for the cache line of array[index] without waiting for it."""

    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(view.data, [arguments[1]])
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(prefetch, [builder.bitcast(pointer, byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


@compiled
def _key(bits, number):
    return (np.uint64(bits) << np.uint64(32)) | np.uint64(np.uint32(~np.uint32(number)))


@compiled
def _bits(score):
    return np.float32(score).view(np.uint32)


@compiled
def _score(key):
    return np.uint32(key >> np.uint64(32)).view(np.float32)


@compiled
def _offer(heap, key):
    """Put `key` into the min-heap of the best keys so far, in place of the worst."""
    if key <= heap[0]:
        return
    hole, child = 0, 1
    while child < len(heap):
        if child + 1 < len(heap) and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[hole] = heap[child]
        hole, child = child, 2 * child + 1
    heap[hole] = key


@compiled
def top_keys(bits, keys):
    """The m largest values of each row, best first: bits uint32 [Q, B] -> keys uint64 [Q, m].

    The m-th largest of the maxima of small groups is a floor under the m-th largest
    value, since m groups hold a value at or over it. Few values pass it; those are sorted.
    """
    num_buckets, m = bits.shape[1], keys.shape[1]
    # With three groups or more for each survivor, few others pass the floor.
    size = num_buckets // (3 * m)
    size = max(size - size % 32, 1)  # whole vector registers
    maxima = np.empty((num_buckets + size - 1) // size, np.uint32)
    passed = np.empty(num_buckets, np.uint64)
    for q in range(bits.shape[0]):
        for g in range(len(maxima)):
            group = bits[q, g * size : (g + 1) * size]
            largest = np.uint32(0)
            for i in range(len(group)):
                largest = max(largest, group[i])
            maxima[g] = largest
        floor = np.partition(maxima, len(maxima) - m)[len(maxima) - m]
        count = 0
        for g in range(len(maxima)):
            if maxima[g] >= floor:
                group = bits[q, g * size : (g + 1) * size]
                for i in range(len(group)):
                    if group[i] >= floor:
                        passed[count] = _key(group[i], g * size + i)
                        count += 1
        keys[q] = np.sort(passed[:count])[::-1][:m]


@compiled
def _certain_score(weights, starts, ends, k):
    """A score that k labels reach for certain: the buckets of one chunk share no label."""
    certain = np.float32(0)
    for chunk in range(weights.shape[0]):
        covered, least = 0, np.float32(np.inf)
        for j in range(weights.shape[1]):
            covered += ends[chunk, j] - starts[chunk, j]
            least = min(least, weights[chunk, j])
            if covered >= k:
                certain = max(certain, least)
                break
    return certain


@compiled
def _count_hits(labels, starts, ends, stops, low, high, counts):
    """Count the hits in [low, high) by tile; `stops` [K, m] is where each bucket leaves it."""
    counts[:] = 0
    num_chunks, m = starts.shape
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            if j + AHEAD < m:
                start = starts[chunk, j + AHEAD]
                for i in range(start, min(ends[chunk, j + AHEAD], start + 128), 16):
                    _prefetch(row, i)
            at, end = np.uint64(starts[chunk, j]), np.uint64(ends[chunk, j])
            while at < end and row[at] < high:
                counts[np.uint32(row[at] - low) >> TILE_BITS] += 1
                at += np.uint64(1)
            stops[chunk, j] = at


@compiled
def _scatter_hits(labels, weights, starts, stops, low, cursors, hits):
    """Write every hit, label above weight, to the next place of its label's tile."""
    num_chunks, m = starts.shape
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            weight = np.uint64(_bits(weights[chunk, j]))
            for i in range(np.uint64(starts[chunk, j]), np.uint64(stops[chunk, j])):
                label = np.uint64(row[i] - low)
                tile = label >> np.uint64(TILE_BITS)
                cursor = cursors[tile]
                hits[cursor] = (label << np.uint64(32)) | weight
                cursors[tile] = cursor + np.uint64(1)


@compiled
def _rank_tile(hits, low, bound, scores, heap):
    """Sum the hits of a tile in their order, offer its labels; returns how many it has."""
    mask = np.uint64(TILE - 1)
    bits = scores.view(np.int32)
    for hit in hits:
        weight = np.uint32(hit & np.uint64(0xFFFFFFFF)).view(np.float32)
        scores[(hit >> np.uint64(32)) & mask] += weight
    found = 0
    for hit in hits:
        label = hit >> np.uint64(32)
        score = bits[label & mask]
        bits[label & mask] = EMPTY
        found += score >= 0
        if score >= bound:
            _offer(heap, _key(score, low + label))
            bound = max(bound, np.int32(heap[0] >> np.uint64(32)))
    return found, bound


@compiled
def rank_keys(buckets, weights, offsets, labels, span, keys, candidates):
    num_queries, num_chunks, m = buckets.shape
    num_labels, k = labels.shape[1], keys.shape[1]
    starts = np.empty((num_chunks, m), np.int64)
    stops = np.empty((num_chunks, m), np.int64)
    ends = np.empty((num_chunks, m), np.int64)
    span = min(span, (num_labels + TILE - 1) >> TILE_BITS)
    counts = np.empty(span, np.int64)
    cursors = np.empty(span, np.uint64)
    hits = np.empty(0, np.uint64)
    scores = np.full(TILE, -0.0, np.float32)
    for q in range(num_queries):
        heap = keys[q]
        heap[:] = 0
        for chunk in range(num_chunks):
            for j in range(m):
                bucket = buckets[q, chunk, j]
                starts[chunk, j] = offsets[chunk, bucket]
                ends[chunk, j] = offsets[chunk, bucket + 1]
        bound = np.int32(_bits(_certain_score(weights[q], starts, ends, k)))
        found = 0
        for low in range(0, num_labels, span << TILE_BITS):
            _count_hits(labels, starts, ends, stops, low, low + (span << TILE_BITS), counts)
            total = 0
            for tile in range(span):
                cursors[tile] = total
                total += counts[tile]
            if total > len(hits):
                hits = np.empty(2*total, np.uint64)
            _scatter_hits(labels, weights[q], starts, stops, low, cursors, hits)
            starts, stops = stops, starts
            for tile in range(span):
                end = cursors[tile]
                tile_found, bound = _rank_tile(hits[end - np.uint64(counts[tile]) : end], low, bound, scores, heap)
                found += tile_found
        keys[q] = np.sort(heap)[::-1]
        candidates[q] = found


@compiled
def full_keys(weights, label_buckets, block, keys):
    """SOLAR-full (§3.3): weights [Q, K, B], label_buckets [K, N] -> keys uint64 [Q, k].

    Four queries go together, so that one load fetches the weights of a bucket for all
    of them; the sums of a block of labels and one chunk's weights stay in cache.
    """
    num_queries, num_chunks, num_buckets = weights.shape
    num_labels = label_buckets.shape[1]
    block = min(block, num_labels)
    table = np.zeros((num_chunks, num_buckets, LANES), np.float32)
    scores = np.empty((block, LANES), np.float32)
    for first in range(0, num_queries, LANES):
        lanes = min(LANES, num_queries - first)
        for lane in range(lanes):
            table[:, :, lane] = weights[first + lane]
            keys[first + lane] = 0
        for low in range(0, num_labels, block):
            count = min(block, num_labels - low)
            scores[:count] = 0
            for chunk in range(num_chunks):
                row = label_buckets[chunk]
                weight = table[chunk]
                for i in range(count):
                    bucket = np.uint32(row[low + i])
                    w0, w1, w2, w3 = (
                        weight[bucket, 0],
                        weight[bucket, 1],
                        weight[bucket, 2],
                        weight[bucket, 3],
                    )
                    s0, s1, s2, s3 = scores[i, 0], scores[i, 1], scores[i, 2], scores[i, 3]
                    scores[i, 0] = s0 + w0
                    scores[i, 1] = s1 + w1
                    scores[i, 2] = s2 + w2
                    scores[i, 3] = s3 + w3
            for lane in range(lanes):
                heap = keys[first + lane]
                for i in range(count):
                    _offer(heap, _key(_bits(scores[i, lane]), low + i))
        for lane in range(lanes):
            keys[first + lane] = np.sort(keys[first + lane])[::-1]
