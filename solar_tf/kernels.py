"""The compiled inner loops of retrieval (§3.3): top-m buckets, shortlist ranking, full ranking.

Every ranking works on 64-bit keys: the bits of a non-negative float32 score above
the complement of an int32 id. Such keys order as integers exactly as the project
ranks, higher score first and then the lower id, and the key 0 is worse than any
label: it decodes to the padding, id -1 and score 0.

Both rankings take `limits`: None, or what a label must satisfy to be ranked, a tuple of
    allowed    bool [N]   whether it may be found at all
    min_chunks int        in how many chunks a bucket of positive weight must hold it
    least      float32    its score, at the least
None is a type of its own, for which numba compiles the loops without the tests.

Nothing here imports TensorFlow: spawned workers load this module and must start fast.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

TILE_BITS = 13  # 8192 labels, whose float32 sums fit the L1 cache
SPAN = 256  # tiles that shortlist ranking fills at a time: one cache line each fits as well
MOST_HITS = 1 << 20  # about as many are held at a time, 8 bytes each
FULL_BLOCK = 1 << 16  # labels; their sums and one chunk's weights fit a large L2 cache
LANES = 4  # queries that full ranking scores together, in one vector register
AHEAD = 8  # buckets between the one in work and the one on its way from memory

EMPTY = np.int32(-(2**31))  # the bits of -0.0, which no sum of weights has
LOW_HALF = np.uint64(2**32 - 1)
HALF = np.uint64(32)
ONE = np.uint64(1)

compiled = njit(nogil=True, cache=True)


def _pointer(context, builder, signature, arguments, position, kind):
    """LLVM's pointer to array[index], where the array is the argument at `position`."""
    array = context.make_array(signature.args[position])(context, builder, arguments[position])
    return builder.bitcast(builder.gep(array.data, [arguments[position + 1]]), kind.as_pointer())


@intrinsic
def _prefetch(typing_context, array, index):
    """Ask for the cache line of array[index] without waiting for it."""

    def generate(context, builder, signature, arguments):
        byte, number = ir.IntType(8), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte.as_pointer()], kind)
        pointer = _pointer(context, builder, signature, arguments, 0, byte)
        builder.call(prefetch, [pointer, number(0), number(3), number(1)])  # read, keep, data
        return context.get_dummy_value()

    return types.void(array, index), generate


@intrinsic
def _add_lanes(typing_context, sums, i, terms, j):
    """sums[i : i + LANES] += terms[j : j + LANES], both float32, which numba does one by one."""

    def generate(context, builder, signature, arguments):
        lanes = ir.VectorType(ir.FloatType(), LANES)
        target = _pointer(context, builder, signature, arguments, 0, lanes)
        source = _pointer(context, builder, signature, arguments, 2, lanes)
        total = builder.fadd(builder.load(target, align=4), builder.load(source, align=4))
        builder.store(total, target, align=4)
        return context.get_dummy_value()

    return types.void(sums, i, terms, j), generate


@compiled
def _bits(score):
    return np.float32(score).view(np.int32)


@compiled
def _key(bits, number):
    return (np.uint64(bits) << HALF) | np.uint64(~np.uint32(number))


@compiled
def _key_bits(key):
    return np.int32(key >> HALF)


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
def _floor_of(values, m):
    """A number that m of the values reach, and few others: bisection, whose counts are vectors."""
    low, high = np.uint32(0), values.max()
    while low < high:
        middle = high - (high - low) // np.uint32(2)
        reach = 0
        for i in range(len(values)):
            reach += values[i] >= middle
        if reach < m:
            high = middle - np.uint32(1)
        else:
            low = middle
            if reach <= m + m // 8:
                break
    return low


@compiled
def top_keys(bits, keys):
    """The m largest values of each row, best first: bits uint32 [Q, B] -> keys uint64 [Q, m].

    A floor that m of the maxima of small groups reach is one under the m-th largest value,
    since m groups hold a value at or over it. Few values pass it; those are sorted.
    """
    num_buckets, m = bits.shape[1], keys.shape[1]
    size = 1
    while 4 * m * size <= num_buckets:  # two groups or more for each survivor
        size *= 2  # whole vector registers
    maxima = np.empty((num_buckets + size - 1) // size, np.uint32)
    passed = np.empty(num_buckets + 1, np.uint64)
    for q in range(bits.shape[0]):
        for g in range(len(maxima)):
            group = bits[q, g * size : (g + 1) * size]
            largest = np.uint32(0)
            for i in range(len(group)):
                largest = max(largest, group[i])
            maxima[g] = largest
        floor = _floor_of(maxima, m)
        count = 0
        for g in range(len(maxima)):
            if maxima[g] >= floor:
                group = bits[q, g * size : (g + 1) * size]
                for i in range(len(group)):
                    passed[count] = _key(group[i], g * size + i)
                    count += group[i] >= floor  # no branch to mispredict
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
def _count_hits(labels, starts, ends, stops, low, high, tile_bits, counts):
    """How many hits in [low, high) each tile has; `stops` [K, m] is where the buckets leave it."""
    counts[:] = 0
    num_chunks, m = starts.shape
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            # Buckets lie far apart, and waiting for each would take most of the time.
            if j + AHEAD < m:
                start = starts[chunk, j + AHEAD]
                for i in range(start, min(ends[chunk, j + AHEAD], start + 128), 16):
                    _prefetch(row, i)
            at, end = np.uint64(starts[chunk, j]), np.uint64(ends[chunk, j])
            while at < end and row[at] < high:
                counts[np.uint64(row[at] - low) >> np.uint64(tile_bits)] += 1
                at += ONE
            stops[chunk, j] = at


@compiled
def _scatter_hits(labels, weights, starts, stops, low, tile_bits, cursors, hits):
    """Write each hit, the label above the bits of the weight, to the next place in its tile."""
    num_chunks, m = starts.shape
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            weight = np.uint64(_bits(weights[chunk, j]))
            for i in range(np.uint64(starts[chunk, j]), np.uint64(stops[chunk, j])):
                label = np.uint64(row[i])
                tile = (label - np.uint64(low)) >> np.uint64(tile_bits)
                cursor = cursors[tile]
                hits[cursor] = (label << HALF) | weight
                cursors[tile] = cursor + ONE


@compiled
def _rank_tile(hits, bound, scores, heap, limits, chunks):
    """Sum up a tile's hits in their order and offer its labels to the heap.

    Labels whose score has bits under `bound` are out. Returns the tile's number of
    labels and the risen bound; leaves `scores`, of a power of two, and `chunks`, the
    number of hits of each label where it matters, empty again.
    """
    place = np.uint64(len(scores) - 1)
    bits = scores.view(np.int32)
    for hit in hits:
        scores[(hit >> HALF) & place] += np.uint32(hit & LOW_HALF).view(np.float32)
    if limits is not None and limits[1] > 0:
        for hit in hits:
            chunks[(hit >> HALF) & place] += (hit & LOW_HALF) != 0
    found = 0
    for hit in hits:
        label = hit >> HALF
        score = bits[label & place]
        bits[label & place] = EMPTY
        if limits is not None:
            allowed, min_chunks, least = limits
            in_chunks = chunks[label & place]
            chunks[label & place] = 0
            if in_chunks < min_chunks or score < _bits(least) or not allowed[label]:
                continue
        found += score >= 0  # not so at the label's second hit
        if score >= bound:
            _offer(heap, _key(score, label))
            bound = max(bound, _key_bits(heap[0]))
    return found, bound


@compiled
def rank_keys(buckets, weights, offsets, labels, limits, tile_bits, span, keys, candidates):
    """The k best labels in the hit buckets (§3.3), by exact float32 sums in chunk order.

    buckets, weights [Q, K, m], offsets [K, B+1], labels [K, N] -> keys uint64 [Q, k],
    candidates int64 [Q], the labels found within the limits. A sum in an array of all N
    labels would miss the cache at every hit. So the hits are first sorted by tile, a range of
    2**tile_bits labels, which keeps the chunks' order within a tile; each tile is then summed
    in the L1 cache. At most `span` tiles, or those of about MOST_HITS hits, are filled at a
    time.
    """
    num_queries, num_chunks, m = buckets.shape
    num_labels, k = labels.shape[1], keys.shape[1]
    tile_size = 1 << tile_bits
    num_tiles = (num_labels + tile_size - 1) // tile_size
    starts = np.empty((num_chunks, m), np.int64)
    stops = np.empty((num_chunks, m), np.int64)
    ends = np.empty((num_chunks, m), np.int64)
    hits = np.empty(0, np.uint64)
    scores = np.full(tile_size, -0.0, np.float32)
    chunks = np.zeros(tile_size if limits is not None else 0, np.int32)
    for q in range(num_queries):
        for chunk in range(num_chunks):
            for j in range(m):
                bucket = buckets[q, chunk, j]
                starts[chunk, j] = offsets[chunk, bucket]
                ends[chunk, j] = offsets[chunk, bucket + 1]
        bound = np.int32(0)
        if limits is None:
            bound = _bits(_certain_score(weights[q], starts, ends, k))
        num_hits = (ends - starts).sum()
        tiles = max(1, min(span, num_tiles, MOST_HITS * num_tiles // (num_hits + 1)))
        counts = np.empty(tiles, np.int64)
        heap = np.zeros(k, np.uint64)
        found = 0
        for low in range(0, num_labels, tiles * tile_size):
            high = low + tiles * tile_size
            _count_hits(labels, starts, ends, stops, low, high, tile_bits, counts)
            firsts = np.cumsum(counts) - counts
            if counts.sum() > len(hits):
                hits = np.empty(2 * counts.sum(), np.uint64)
            cursors = firsts.astype(np.uint64)
            _scatter_hits(labels, weights[q], starts, stops, low, tile_bits, cursors, hits)
            for tile in range(tiles):
                tile_hits = hits[firsts[tile] : firsts[tile] + counts[tile]]
                tile_found, bound = _rank_tile(tile_hits, bound, scores, heap, limits, chunks)
                found += tile_found
            starts, stops = stops, starts
        keys[q] = np.sort(heap)[::-1]
        candidates[q] = found


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
def full_keys(weights, label_buckets, limits, block, keys, candidates):
    """SOLAR-full (§3.3): weights [Q, K, B], label_buckets [K, N] -> keys uint64 [Q, k],
    candidates int64 [Q], the labels within the limits.

    Loading weights at random takes most of the time, so LANES queries go together and
    share the loads; their sums for a block of labels stay in cache from chunk to chunk.
    """
    num_queries, num_chunks, num_buckets = weights.shape
    num_labels = label_buckets.shape[1]
    block = max(1, min(block, num_labels))
    table = np.zeros((num_chunks, num_buckets, LANES), np.float32)
    scores = np.empty(block * LANES, np.float32)
    candidates[:] = num_labels
    if limits is not None:
        # Chunks are counted as scores are summed: 1 for every positive weight.
        ones = np.zeros_like(table) if limits[1] > 0 else table
        chunks = np.zeros(block * LANES, np.float32)
    for first in range(0, num_queries, LANES):
        lanes = min(LANES, num_queries - first)
        for lane in range(lanes):
            table[:, :, lane] = weights[first + lane]
            keys[first + lane] = 0
        if limits is not None:
            candidates[first : first + lanes] = 0
            if limits[1] > 0:
                ones[:] = np.sign(table)
        for low in range(0, num_labels, block):
            _add_up(table, label_buckets, low, scores)
            if limits is not None and limits[1] > 0:
                _add_up(ones, label_buckets, low, chunks)
            for lane in range(lanes):
                heap = keys[first + lane]
                bound = _key_bits(heap[0])
                for i in range(min(block, num_labels - low)):
                    bits = _bits(scores[i * LANES + lane])
                    if limits is not None:
                        allowed, min_chunks, least = limits
                        in_chunks = chunks[i * LANES + lane]
                        if in_chunks < min_chunks or bits < _bits(least) or not allowed[low + i]:
                            continue
                        candidates[first + lane] += 1
                    if bits >= bound:
                        _offer(heap, _key(bits, low + i))
                        bound = _key_bits(heap[0])
        for lane in range(lanes):
            keys[first + lane] = np.sort(keys[first + lane])[::-1]
