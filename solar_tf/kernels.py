"""The compiled inner loops of retrieval (§3.3): top-m buckets and full ranking.

Every ranking works on 64-bit keys: the bits of a non-negative float32 score above
the complement of an int32 id. Such keys order as integers exactly as the project
ranks, higher score first and then the lower id, and the key 0 is worse than any
label: it decodes to the padding, id -1 and score 0. Ranking the labels of the top buckets
is in `solar_tf.shortlist`.

Both rankings take `limits`: None, or what a label must satisfy to be ranked, a tuple of
    allowed    bool [N]   whether it may be found at all
    min_chunks int        in how many chunks a bucket of positive weight must hold it
    least      float32    its score, at the least
None is a type of its own, for which numba compiles the loops without the tests.

Nothing here imports TensorFlow: spawned workers load this module and must start fast.
"""

import contextlib

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

FULL_BLOCK = 1 << 16  # labels; their sums and one chunk's weights fit a large L2 cache
LONG_FULL_BLOCK = 1 << 18  # where they do not: sums stream past, and weights are fetched less often
LARGE_CACHE = 3 << 19  # bytes
CACHE_SIZE = "/sys/devices/system/cpu/cpu0/cache/index2/size"
LANES = 4  # queries that full ranking scores together, in one vector register
MOST_COUNTED = 512  # keys that are sorted by counting
LINE = 32  # keys that a loop of vectors takes at a time

HALF = np.uint64(32)

compiled = njit(nogil=True, cache=True)


def pointer_to(context, builder, signature, arguments, position, kind):
    """LLVM's pointer to array[index], where the array is the argument at `position`."""
    array = context.make_array(signature.args[position])(context, builder, arguments[position])
    return builder.bitcast(builder.gep(array.data, [arguments[position + 1]]), kind.as_pointer())


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
def bits_of(score):
    return np.float32(score).view(np.int32)


@compiled
def key_of(bits, number):
    return (np.uint64(bits) << HALF) | np.uint64(~np.uint32(number))


@compiled
def _floor_of(values, m, low):
    """A number that m of the unsigned values reach, and few others; all of them reach `low`.

    Bisection, whose counts are vectors.
    """
    high = values.max()
    while low < high:
        middle = high - (high - low) // values.dtype.type(2)
        reach = 0
        for i in range(len(values)):
            reach += values[i] >= middle
        if reach < m:
            high = middle - values.dtype.type(1)
        else:
            low = middle
            if reach <= m + m // 8:
                break
    return low


@compiled
def new_best(k):
    """Room for the k best keys so far and as many others as make `shrink` worth its while."""
    return np.empty(max(4 * k, 1024), np.uint64)


@compiled
def shrink(best, k, bound):
    """Keep the k best of the keys and few others, first in the array.

    Returns how many those are and the risen bound: labels whose score has bits under it are out.
    """
    floor = _floor_of(best, k, np.uint64(bound) << HALF)
    count = 0
    for key in best:
        best[count] = key
        count += key >= floor  # no branch to mispredict
    return count, max(bound, np.int32(floor >> HALF))


@compiled
def top_keys(bits, keys):
    """The m largest values of each row, best first: bits uint32 [Q, B] -> keys uint64 [Q, m].

    A floor that m of the maxima of small groups reach is one under the m-th largest value,
    since m groups hold a value at or over it. Few values pass it; those are sorted. Group g
    is every `stride`-th value from g on, so that all maxima are made by whole vectors.
    """
    num_buckets, m = bits.shape[1], keys.shape[1]
    size = 1
    while 2 * m * size * size <= num_buckets:  # few maxima to look at, and few values after them
        size *= 2
    stride = min(num_buckets, (num_buckets // size + 15) // 16 * 16)
    maxima = np.empty(stride, np.uint32)
    chosen = np.empty(stride + 1, np.int64)
    places = np.empty(num_buckets + 1, np.int32)
    passed = np.empty(num_buckets + LINE, np.uint64)
    for q in range(bits.shape[0]):
        row = bits[q]
        maxima[:] = row[:stride]
        for first in range(stride, num_buckets, stride):
            values = row[first : first + stride]
            for i in range(len(values)):
                maxima[i] = max(maxima[i], values[i])
        floor = _floor_of(maxima, m, np.uint32(0))
        num_chosen = count = 0
        for g in range(stride):
            chosen[num_chosen] = g
            num_chosen += maxima[g] >= floor  # no branch to mispredict
        for g in chosen[:num_chosen]:
            for i in range(np.uint64(g), np.uint64(num_buckets), np.uint64(stride)):
                places[count] = i
                count += row[i] >= floor
        for j in range(count):
            passed[j] = key_of(row[places[j]], places[j])
        sort_best(passed, count, keys[q])


@compiled
def sort_best(passed, count, best):
    """The largest of the first `count` keys, all different, in descending order.

    What they do not fill of `best` stays. Up to MOST_COUNTED, `passed` has room for LINE more:
    whole vectors have no remainder to go through one by one.
    """
    if count > len(best) + len(best) // 4:
        count, _ = shrink(passed[:count], len(best), np.int32(0))
    if count > MOST_COUNTED:
        filled = min(count, len(best))
        best[:filled] = np.sort(passed[:count])[::-1][:filled]
        return
    padded = passed[: (count + LINE - 1) // LINE * LINE]
    padded[count:] = 0
    for key in padded[:count]:
        place = 0  # the number of greater keys: vectors count faster than branches compare
        for i in range(len(padded)):
            place += padded[i] > key
        if place < len(best):
            best[place] = key


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
def _within(limits, scores, chunks, low, passed):
    """Which labels of a block are within the limits, and how many; no branches."""
    allowed, min_chunks, least = limits
    count = 0
    for i in range(min(len(passed), len(allowed) - low)):
        passed[i] = allowed[low + i] & (scores[i] >= least) & (chunks[i] >= min_chunks)
        count += passed[i]
    return count


def full_block(cache_size=CACHE_SIZE):
    """The labels of a block of full ranking that are fastest with this machine's L2 cache."""
    with contextlib.suppress(OSError), open(cache_size, encoding="ascii") as file:
        if 1024 * int(file.read().strip().removesuffix("K")) < LARGE_CACHE:
            return LONG_FULL_BLOCK
    return FULL_BLOCK


@compiled
def full_keys(weights, label_buckets, limits, block, keys, candidates):
    """SOLAR-full (§3.3): weights [Q, K, B], label_buckets [K, N] -> keys uint64 [Q, k], zeros
    before, and candidates int64 [Q], the labels within the limits.

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
    if limits is not None:
        # Chunks are counted as scores are summed: 1 for every positive weight.
        ones = np.zeros_like(table) if limits[1] > 0 else table
        chunks = np.zeros(block * LANES, np.float32)
        passed = np.empty(block, np.bool_)
    for first in range(0, num_queries, LANES):
        lanes = min(LANES, num_queries - first)
        counts[:], bounds[:] = 0, 0
        for lane in range(lanes):
            table[:, :, lane] = weights[first + lane]
        if limits is not None:
            candidates[first : first + lanes] = 0
            if limits[1] > 0:
                ones[:] = np.sign(table)
        for low in range(0, num_labels, block):
            _add_up(table, label_buckets, low, scores)
            if limits is not None and limits[1] > 0:
                _add_up(ones, label_buckets, low, chunks)
            for lane in range(lanes):
                if limits is not None:
                    good = _within(limits, scores[lane::LANES], chunks[lane::LANES], low, passed)
                    candidates[first + lane] += good
                count, bound = counts[lane], bounds[lane]
                for i in range(min(block, num_labels - low)):
                    bits = bits_of(scores[i * LANES + lane])
                    if bits >= bound:
                        if limits is not None and not passed[i]:
                            continue
                        best[lane, count] = key_of(bits, low + i)
                        count += 1
                        if count == best.shape[1]:
                            count, bound = shrink(best[lane], k, bound)
                counts[lane], bounds[lane] = count, bound
        for lane in range(lanes):
            sort_best(best[lane], counts[lane], keys[first + lane])
