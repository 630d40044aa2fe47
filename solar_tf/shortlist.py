"""The compiled ranking of the labels in the top buckets (§3.3), by exact float32 sums.

A sum in an array of all N labels would miss the cache at every hit. There are two ways around
that. Where hits are few among the labels, they are first sorted by tile, a range of labels
whose sums fit the L1 cache. Where they are many, they are summed as they come, a part of the
labels whose sums fit the L2 cache at a time, and then every label is looked at. Both add up
the hits of a label in the order of the chunks.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from solar_tf.kernels import HALF, bits_of, compiled, key_bits, key_of, offer, pointer_to

TILE_BITS = 13  # 8192 labels, whose float32 sums fit the L1 cache
SPAN = 256  # tiles that shortlist ranking fills at a time: one cache line each fits as well
MOST_SEEN = 2000  # labels of a chunk that are looked at for a first bound
MOST_HITS = 1 << 20  # about as many are held at a time, 8 bytes each
DENSE_TILES = 32  # whose sums fit the L2 cache
SPARSE = 8  # labels for each hit, beyond which hits are sorted by tile
GROUP = 256  # labels that are looked over at a time
AHEAD = 8  # buckets between the one in work and the one on its way from memory
EMPTY = np.int32(-(2**31))  # the bits of -0.0, which no sum of weights has
LOW_HALF = np.uint64(2**32 - 1)
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
def _fetch_bucket(row, starts, ends, j):
    """Buckets lie far apart, and waiting for each would take most of the time."""
    if j < len(starts):
        for i in range(starts[j], min(ends[j], starts[j] + 128), 16):
            _prefetch(row, i)


@compiled
def _count_hits(labels, starts, ends, stops, low, high, tile_bits, counts):
    """How many hits in [low, high) each tile has; `stops` [K, m] is where the buckets leave it."""
    counts[:] = 0
    num_chunks, m = starts.shape
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            _fetch_bucket(row, starts[chunk], ends[chunk], j + AHEAD)
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
            weight = np.uint64(bits_of(weights[chunk, j]))
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
        good = score >= 0  # not so at the label's second hit
        if limits is not None:  # without branches, which could not be foretold
            allowed, min_chunks, least = limits
            good &= (score >= bits_of(least)) & allowed[label]
            good &= chunks[label & place] >= min_chunks
            chunks[label & place] = 0
        found += good
        if score >= bound and good:
            offer(heap, key_of(score, label))
            bound = max(bound, key_bits(heap[0]))
    return found, bound


@compiled
def _rank_sparse(
    labels, weights, starts, ends, stops, tiling, bound, scores, heap, limits, chunks, hits
):
    """Sort the hits by tile and sum up tile by tile; returns found, and `hits`, a buffer."""
    tile_bits, span, num_hits = tiling
    num_labels, tile_size = labels.shape[1], 1 << tile_bits
    num_tiles = (num_labels + tile_size - 1) // tile_size
    tiles = max(1, min(span, num_tiles, MOST_HITS * num_tiles // (num_hits + 1)))
    counts = np.empty(tiles, np.int64)
    found = 0
    for low in range(0, num_labels, tiles * tile_size):
        high = low + tiles * tile_size
        _count_hits(labels, starts, ends, stops, low, high, tile_bits, counts)
        firsts = np.cumsum(counts) - counts
        if counts.sum() > len(hits):
            hits = np.empty(2 * counts.sum(), np.uint64)
        cursors = firsts.astype(np.uint64)
        _scatter_hits(labels, weights, starts, stops, low, tile_bits, cursors, hits)
        for tile in range(tiles):
            tile_hits = hits[firsts[tile] : firsts[tile] + counts[tile]]
            tile_found, bound = _rank_tile(
                tile_hits, bound, scores[:tile_size], heap, limits, chunks
            )
            found += tile_found
        starts, stops = stops, starts
    return found, hits


@compiled
def _rank_dense(labels, weights, starts, ends, low, bound, scores, heap):
    """Sum up the hits of the labels from `low` on, as many as `scores` has, and offer them.

    For when a good part of the labels is hit: no sorting, and a look at every label instead.
    Moves `starts` to the next label; returns and leaves what `_rank_tile` does.
    """
    bits = scores.view(np.int32)
    num_chunks, m = starts.shape
    high = low + len(scores)
    for chunk in range(num_chunks):
        row = labels[chunk]
        for j in range(m):
            _fetch_bucket(row, starts[chunk], ends[chunk], j + AHEAD)
            weight = weights[chunk, j]
            at, end = np.uint64(starts[chunk, j]), np.uint64(ends[chunk, j])
            while at < end and row[at] < high:
                scores[np.uint64(row[at] - low)] += weight
                at += ONE
            starts[chunk, j] = at
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
                    offer(heap, key_of(group[i], low + first + i))
                    bound = max(bound, key_bits(heap[0]))
        group[:] = EMPTY
    return found, bound


@compiled
def rank_keys(buckets, weights, offsets, labels, limits, tile_bits, span, sparse, keys, candidates):
    """The k best labels in the hit buckets (§3.3), by exact float32 sums in chunk order.

    buckets, weights [Q, K, m], offsets [K, B+1], labels [K, N] -> keys uint64 [Q, k],
    candidates int64 [Q], the labels found within the limits. A tile has 2**tile_bits labels; at
    most `span` tiles, or those of about MOST_HITS hits, are filled at a time. Tiles are used
    where there are `sparse` labels or more for each hit, or limits.
    """
    num_queries, num_chunks, m = buckets.shape
    num_labels = labels.shape[1]
    starts = np.empty((num_chunks, m), np.int64)
    stops = np.empty((num_chunks, m), np.int64)
    ends = np.empty((num_chunks, m), np.int64)
    hits = np.empty(0, np.uint64)
    tile_size = 1 << tile_bits
    part = tile_size * max(1, min(DENSE_TILES, (num_labels + tile_size - 1) // tile_size))
    scores = np.full(part, -0.0, np.float32)
    chunks = np.zeros(tile_size if limits is not None else 0, np.int32)
    for q in range(num_queries):
        for chunk in range(num_chunks):
            for j in range(m):
                bucket = buckets[q, chunk, j]
                starts[chunk, j] = offsets[chunk, bucket]
                ends[chunk, j] = offsets[chunk, bucket + 1]
        k = keys.shape[1]
        bound = bits_of(_certain_score(weights[q], starts, ends, labels, limits, k))
        num_hits = (ends - starts).sum()
        heap = np.zeros(k, np.uint64)
        found = 0
        if limits is None and num_labels < sparse * num_hits:
            for low in range(0, num_labels, part):
                here = scores[: num_labels - low]
                part_found, bound = _rank_dense(
                    labels, weights[q], starts, ends, low, bound, here, heap
                )
                found += part_found
        else:
            tiling = tile_bits, span, num_hits
            found, hits = _rank_sparse(
                labels,
                weights[q],
                starts,
                ends,
                stops,
                tiling,
                bound,
                scores,
                heap,
                limits,
                chunks,
                hits,
            )
        keys[q] = np.sort(heap)[::-1]
        candidates[q] = found
