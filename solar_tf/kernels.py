"""The compiled inner loops of retrieval (§3.3): top-m buckets, shortlist ranking, full ranking.

Every ranking works on 64-bit keys: the bits of a non-negative float32 score above
the complement of an int32 id. Such keys order as integers exactly as the project
ranks, higher score first and then the lower id, and the key 0 is worse than any
label: it decodes to the padding, id -1 and score 0.

Nothing here imports TensorFlow: spawned workers load this module and must start fast.
"""

import numpy as np
from numba import njit

LANES = 4  # queries that full ranking scores together, one SSE register
SURE = 64  # counter value of a label that may reach the score floor
MOST = 255  # where the 8-bit counters saturate

compiled = njit(nogil=True, cache=True)


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
    # About four groups for each survivor: fewer would let too many values pass.
    size = max(1, num_buckets // (4 * m))
    num_groups = (num_buckets + size - 1) // size
    maxima = np.empty(num_groups, np.uint32)
    passed = np.empty(num_buckets + 1, np.uint64)
    for q in range(bits.shape[0]):
        row = bits[q]
        for group in range(num_groups):
            largest = np.uint32(0)
            for i in range(group * size, min(num_buckets, (group + 1) * size)):
                largest = max(largest, row[i])
            maxima[group] = largest
        floor = np.partition(maxima, num_groups - m)[num_groups - m]
        count = 0
        for group in range(num_groups):
            if maxima[group] >= floor:
                for i in range(group * size, min(num_buckets, (group + 1) * size)):
                    passed[count] = _key(row[i], i)
                    count += row[i] >= floor
        keys[q] = np.sort(passed[:count])[::-1][:m]


@compiled
def _score_floor(weights, sizes, k):
    """A score that k labels reach for certain: the buckets of one chunk share no label."""
    floor = np.float32(0)
    for chunk in range(weights.shape[0]):
        covered, least = 0, np.float32(np.inf)
        for j in range(weights.shape[1]):
            covered += sizes[chunk, j]
            least = min(least, weights[chunk, j])
            if covered >= k:
                floor = max(floor, least)
                break
    return floor


@compiled
def rank_keys(buckets, weights, offsets, labels, block, keys, candidates):
    """SOLAR's ranking of the labels in the hit buckets (§3.3), without rounding a score away.

    buckets, weights [Q, K, m], offsets [K, B+1], labels [K, N] -> keys uint64 [Q, k],
    candidates int64 [Q]. Labels are visited in blocks whose 8-bit counters stay in cache:

    1. A label's counter is the sum of its weights in units of floor/64, each rounded
       up, so a counter under 64 proves that the label's score is under the floor.
    2. Rounding adds less than one unit a chunk, so labels more than K units under the
       k-th largest counter cannot be among the k best either.
    3. The few labels left get their exact float32 sums in chunk order, and the k-th
       best score so far becomes the next block's floor.
    """
    num_queries, num_chunks, m = buckets.shape
    num_labels, k = labels.shape[1], keys.shape[1]
    # Float32 sums of K terms stray by less than this from the real ones.
    margin = 1.0 - num_chunks * 2.0**-22
    block = min(block, num_labels)
    counters = np.zeros(block, np.uint8)
    scores = np.zeros(block, np.float32)
    shortlist = np.empty(block + 1, np.int64)
    starts = np.empty((num_chunks, m), np.int64)
    stops = np.empty((num_chunks, m), np.int64)
    ends = np.empty((num_chunks, m), np.int64)
    histogram = np.empty(MOST + 1, np.int64)
    for q in range(num_queries):
        heap = np.zeros(k, np.uint64)
        for chunk in range(num_chunks):
            for j in range(m):
                bucket = buckets[q, chunk, j]
                starts[chunk, j] = offsets[chunk, bucket]
                ends[chunk, j] = offsets[chunk, bucket + 1]
        floor = _score_floor(weights[q], ends - starts, k)
        touched = 0
        for low in range(0, num_labels, block):
            high = min(low + block, num_labels)
            floor = max(floor, _score(heap[0]))
            per_weight = SURE / (floor * margin) if floor > 0 else np.inf
            listed = 0
            for chunk in range(num_chunks):
                row = labels[chunk]
                for j in range(m):
                    weight = weights[q, chunk, j]
                    units = MOST
                    if floor > 0:
                        units = int(max(1.0, min(float(MOST), np.ceil(weight * per_weight))))
                    at, end = starts[chunk, j], ends[chunk, j]
                    while at < end and row[at] < high:
                        label = row[at] - low
                        before = np.int64(counters[label])
                        after = min(before + units, MOST)
                        counters[label] = after
                        touched += before == 0
                        shortlist[listed] = label
                        listed += (before < SURE) & (after >= SURE)
                        at += 1
                    stops[chunk, j] = at

            bar = SURE
            if listed > k:
                histogram[:] = 0
                for i in range(listed):
                    histogram[counters[shortlist[i]]] += 1
                above, kth = 0, MOST + 1
                while above < k:
                    kth -= 1
                    above += histogram[kth]
                bar = max(SURE, kth - num_chunks)

            for chunk in range(num_chunks):
                row = labels[chunk]
                for j in range(m):
                    weight = weights[q, chunk, j]
                    for at in range(starts[chunk, j], stops[chunk, j]):
                        label = row[at] - low
                        if counters[label] >= bar:
                            scores[label] += weight
                        else:
                            counters[label] = 0
                    starts[chunk, j] = stops[chunk, j]

            for i in range(listed):
                label = shortlist[i]
                if counters[label] >= bar:
                    _offer(heap, _key(_bits(scores[label]), label + low))
                counters[label] = 0
                scores[label] = 0
        keys[q] = np.sort(heap)[::-1]
        candidates[q] = touched


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
