"""Sortable keys: what the compiled kernels of retrieval (§3.3) rank by.

Every ranking works on 64-bit keys: the bits of a non-negative float32 score above
the complement of an int32 id. Such keys order as integers exactly as the project
ranks, higher score first and then the lower id, and the key 0 is worse than any
label: it decodes to the padding, id -1 and score 0.

`full` and `shortlist` take a `label_filter`: None, or what a label must satisfy, a tuple:
    allowed    bool [N]   whether it may be found at all
    min_chunks int        in how many chunks a bucket of positive weight must hold it
    threshold  float32    its least score
None is a type of its own: numba compiles loops for it that test nothing.

Nothing here imports TensorFlow: spawned workers load this module and must start fast.
"""

import numpy as np

from solar_tf.runtime.compiled import compiled

MOST_COUNTED = 512  # keys that are sorted by counting
LINE = 32  # keys that a loop of vectors takes at a time

HALF = np.uint64(32)


def pointer_to(context, builder, signature, arguments, position, kind):
    """LLVM's pointer to array[index], where the array is the argument at `position`."""
    array = context.make_array(signature.args[position])(context, builder, arguments[position])
    return builder.bitcast(builder.gep(array.data, [arguments[position + 1]]), kind.as_pointer())


@compiled
def bits_of(score):
    return np.float32(score).view(np.int32)


@compiled
def key_of(bits, number):
    return (np.uint64(bits) << HALF) | np.uint64(~np.uint32(number))


@compiled
def floor_of(values, m, low):
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
    floor = floor_of(best, k, np.uint64(bound) << HALF)
    count = 0
    for key in best:
        best[count] = key
        count += key >= floor  # no branch to mispredict
    return count, max(bound, np.int32(floor >> HALF))


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
