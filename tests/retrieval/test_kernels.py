"""The compiled loops against brute force, at block sizes small enough to matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from solar_tf.retrieval.kernels import full as kernel
from solar_tf.retrieval.kernels import shortlist, top_m

SPARSE_ALWAYS, DENSE_ALWAYS = 0, 1 << 20  # labels a hit, from which only hits are cleared
PARTS = (256, SPARSE_ALWAYS), (1 << 19, SPARSE_ALWAYS), (1 << 13, 4), (256, DENSE_ALWAYS)
# Few distinct weights make ties, zeros and sums that only differ in the last bit.
WEIGHTS = st.sampled_from([0.0, 1e-45, 1e-38, 1e-4, 0.1, 0.25, 0.3, 0.999, 1.0, 9.21, 1e30])


def inverted(label_buckets, num_buckets):
    """label_buckets [K, N] -> offsets uint32 [K, B+1], labels int32 [K, N]."""
    sizes = [np.bincount(row, minlength=num_buckets) for row in label_buckets]
    offsets = np.pad(np.cumsum(sizes, axis=1), ((0, 0), (1, 0))).astype(np.uint32)
    return offsets, np.argsort(label_buckets, axis=1, kind="stable").astype(np.int32)


def best_keys(scores, found, k):
    """The k best of scores float32 [N] by sorting all of them, as the kernels' keys."""
    order = [i for i in np.lexsort((np.arange(len(scores)), -scores)) if found[i]][:k]
    keys = [(int(scores[i].view(np.uint32)) << 32) | (2**32 - 1 - int(i)) for i in order]
    return np.array(keys + [0] * (k - len(keys)), np.uint64)


@st.composite
def problems(draw):
    """(weights [Q, K, B], label_buckets [K, N], m, k, (part, sparse), block)."""
    num_queries, num_chunks = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    num_buckets, num_labels = draw(st.integers(1, 9)), draw(st.integers(1, 60))
    shape = (num_queries, num_chunks, num_buckets)
    elements = draw(st.sampled_from([WEIGHTS, st.floats(0, 1, width=32)]))
    weights = draw(hnp.arrays(np.float32, shape, elements=elements))
    seed = draw(st.integers(0, 2**32 - 1))
    label_buckets = np.random.default_rng(seed).integers(
        num_buckets, size=(num_chunks, num_labels), dtype=np.uint16
    )
    m = draw(st.sampled_from([1, num_buckets, min(7, num_buckets)]))
    k, block = draw(st.integers(1, 70)), draw(st.sampled_from([1, 7, 4096]))
    part = draw(st.sampled_from([1, 7, 16, 1 << 13]))
    sizes = part, draw(st.sampled_from([SPARSE_ALWAYS, 1, DENSE_ALWAYS]))
    return weights, label_buckets, m, k, sizes, block


@settings(max_examples=300, deadline=None)
@given(problems())
def test_both_rankings_equal_brute_force_bit_for_bit(problem):
    weights, label_buckets, m, k, sizes, block = problem
    num_queries, num_chunks, num_buckets = weights.shape
    order = np.argsort(-weights, axis=2, kind="stable")[:, :, :m]
    keys = np.zeros((num_queries, k), np.uint64)
    full = np.zeros((num_queries, k), np.uint64)
    candidates = np.zeros(num_queries, np.int64)
    shortlist.rank_keys(
        order.astype(np.int32),
        np.take_along_axis(weights, order, axis=2),
        *inverted(label_buckets, num_buckets),
        None,
        *sizes,
        keys,
        candidates,
    )
    counted = np.zeros(num_queries, np.int64)
    kernel.full_keys(weights, label_buckets, None, block, full, counted)
    assert (counted == label_buckets.shape[1]).all()
    everywhere = np.ones(label_buckets.shape[1], bool)
    for q in range(num_queries):
        total = np.zeros(label_buckets.shape[1], np.float32)
        shortlisted, found = total.copy(), ~everywhere
        for chunk in range(num_chunks):
            hit = np.isin(label_buckets[chunk], order[q, chunk])
            found |= hit
            total += weights[q, chunk, label_buckets[chunk]]
            shortlisted += np.where(hit, weights[q, chunk, label_buckets[chunk]], np.float32(0))
        np.testing.assert_array_equal(keys[q], best_keys(shortlisted, found, k))
        np.testing.assert_array_equal(full[q], best_keys(total, everywhere, k))
        assert candidates[q] == found.sum()
    if m == num_buckets:
        np.testing.assert_array_equal(keys, full)


@settings(max_examples=300, deadline=None)
@given(problems(), st.data())
def test_limited_rankings_equal_brute_force_bit_for_bit(problem, data):
    weights, label_buckets, m, k, sizes, block = problem
    (num_queries, num_chunks, num_buckets), num_labels = weights.shape, label_buckets.shape[1]
    order = np.argsort(-weights, axis=2, kind="stable")[:, :, :m]
    kept = np.take_along_axis(weights, order, axis=2)
    allowed = data.draw(hnp.arrays(bool, num_labels))
    min_chunks = data.draw(st.integers(0, num_chunks + 1))
    least = np.float32(data.draw(st.one_of(st.just(0.0), WEIGHTS, st.floats(0, 3, width=32))))
    limits = allowed, np.int64(min_chunks), least
    shape = num_queries, k
    keys, full = np.zeros(shape, np.uint64), np.zeros(shape, np.uint64)
    candidates, counted = np.zeros(num_queries, np.int64), np.zeros(num_queries, np.int64)
    index = inverted(label_buckets, num_buckets)
    shortlist.rank_keys(order.astype(np.int32), kept, *index, limits, *sizes, keys, candidates)
    kernel.full_keys(weights, label_buckets, limits, block, full, counted)
    for q in range(num_queries):
        for shortlisted, (found, number) in ((True, (keys, candidates)), (False, (full, counted))):
            total, chunks = np.zeros(num_labels, np.float32), np.zeros(num_labels, int)
            held = np.full(num_labels, not shortlisted)
            for chunk in range(num_chunks):
                hit = np.isin(label_buckets[chunk], order[q, chunk]) | (not shortlisted)
                terms = np.where(hit, weights[q, chunk, label_buckets[chunk]], np.float32(0))
                total += terms
                chunks += terms > 0
                held |= hit
            good = held & allowed & (chunks >= min_chunks) & (total >= least)
            np.testing.assert_array_equal(found[q], best_keys(total, good, k))
            assert number[q] == good.sum()


@pytest.mark.parametrize("k", [1, 100, 700])
@pytest.mark.parametrize("power", [0, 1, 40])
@pytest.mark.parametrize("num_chunks", [1, 16, 150])
def test_rankings_agree_over_many_parts(num_chunks, power, k):
    rng = np.random.default_rng(power)
    num_buckets, num_labels = 50, 20_000
    label_buckets = rng.integers(num_buckets, size=(num_chunks, num_labels), dtype=np.uint16)
    weights = rng.random((5, num_chunks, num_buckets), np.float32) ** power
    order = np.argsort(-weights, axis=2, kind="stable").astype(np.int32)
    sorted_weights = np.take_along_axis(weights, order, axis=2)
    index = inverted(label_buckets, num_buckets)
    full = np.zeros((5, k), np.uint64)
    kernel.full_keys(weights, label_buckets, None, 1000, full, np.zeros(5, np.int64))
    scores = np.zeros((5, num_labels), np.float32)
    for chunk in range(num_chunks):
        scores += weights[:, chunk, label_buckets[chunk]]
    for sums, best in zip(scores, full, strict=True):
        np.testing.assert_array_equal(best, best_keys(sums, np.ones(num_labels, bool), k))
    for part, sparse in PARTS:
        keys, candidates = np.zeros((5, k), np.uint64), np.zeros(5, np.int64)
        shortlist.rank_keys(order, sorted_weights, *index, None, part, sparse, keys, candidates)
        np.testing.assert_array_equal(keys, full)
        assert (candidates == num_labels).all()


VALUES = st.one_of(st.floats(0, width=32), st.sampled_from([0.0, 1e-45, 1e-38, 0.5, 1.0]))


@settings(max_examples=300, deadline=None)
@given(
    hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=90), elements=VALUES),
    st.data(),
)
def test_top_keys_equal_a_stable_sort(values, data):
    m = data.draw(st.integers(1, values.shape[1]))
    keys = np.empty((len(values), m), np.uint64)
    top_m.top_keys(values.view(np.uint32), keys)
    for row, row_keys in zip(values, keys, strict=True):
        np.testing.assert_array_equal(row_keys, best_keys(row, np.ones(len(row), bool), m))


@pytest.mark.parametrize("arrange", [np.copy, np.sort, lambda row: np.sort(row)[:, ::-1].copy()])
@pytest.mark.parametrize("m", [1, 7, 100, 3000, 30_000])
def test_top_keys_at_the_papers_size(m, arrange):
    values = arrange(np.random.default_rng(m).random((2, 30_000), np.float32) ** 30)
    keys = np.empty((2, m), np.uint64)
    top_m.top_keys(values.view(np.uint32), keys)
    expected = np.argsort(-values, axis=1, kind="stable")[:, :m]
    np.testing.assert_array_equal(~keys.astype(np.uint32), expected)


@pytest.mark.parametrize(
    ("size", "block"),
    [
        ("512K", kernel.LONG_FULL_BLOCK),
        ("2048K", kernel.FULL_BLOCK),
        (None, kernel.FULL_BLOCK),
    ],
)
def test_sums_that_a_small_cache_cannot_hold_are_made_in_long_blocks(size, block, tmp_path):
    if size:
        (tmp_path / "size").write_text(f"{size}\n")
    assert kernel.full_block(tmp_path / "size") == block
