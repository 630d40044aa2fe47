"""The compiled loops against the reference, at block sizes small enough to matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from solar_tf.retrieval.kernels import full as kernel
from solar_tf.retrieval.kernels import shortlist, top_m
from solar_tf.retrieval.label_table import LabelTable
from solar_tf.retrieval.ranking import LabelFilter, decode_keys
from solar_tf.retrieval.reference import rank_simple, top_buckets_simple
from solar_tf.run.index import build_index

SPARSE_ALWAYS, DENSE_ALWAYS = 0, 1 << 20  # labels a hit, from which only hits are cleared
PARTS = (256, SPARSE_ALWAYS), (1 << 19, SPARSE_ALWAYS), (1 << 13, 4), (256, DENSE_ALWAYS)
# Few distinct weights make ties, zeros and sums that only differ in the last bit.
WEIGHTS = st.sampled_from([0.0, 1e-45, 1e-38, 1e-4, 0.1, 0.25, 0.3, 0.999, 1.0, 9.21, 1e30])


def inverted(label_buckets, num_buckets):
    """label_buckets [K, N] -> offsets uint32 [K, B+1], labels int32 [K, N]."""
    indexes = [build_index(row, num_buckets) for row in label_buckets]
    table = LabelTable.stack(indexes, len(indexes))
    return table.offsets, table.labels


def check(keys, candidates, expected):
    """Keys [k] and candidates against the best labels and scores of the reference."""
    ids, scores = decode_keys(keys[None])
    best, sums, count = expected
    np.testing.assert_array_equal(ids[0, : len(best)], best)
    np.testing.assert_array_equal(scores[0, : len(best)], sums)
    assert (keys[len(best) :] == 0).all()
    assert candidates == count


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


def rank_both(problem, label_filter=None):
    """Keys [Q, k] and candidates [Q] of the kernels with a shortlist, and of full ranking."""
    weights, label_buckets, m, k, sizes, block = problem
    num_queries, _, num_buckets = weights.shape
    keys, full = (np.zeros((num_queries, k), np.uint64) for _ in range(2))
    candidates, counted = (np.zeros(num_queries, np.int64) for _ in range(2))
    top = np.argsort(-weights, axis=2, kind="stable")[:, :, :m].astype(np.int32)
    kept = np.take_along_axis(weights, top, axis=2)
    index = inverted(label_buckets, num_buckets)
    shortlist.rank_keys(top, kept, *index, label_filter, *sizes, keys, candidates)
    kernel.full_keys(weights, label_buckets, label_filter, block, full, counted)
    return (keys, candidates), (full, counted)


@settings(max_examples=300, deadline=None)
@given(problems())
def test_both_rankings_equal_the_reference_bit_for_bit(problem):
    weights, label_buckets, m, k, *_ = problem
    index = inverted(label_buckets, weights.shape[2])
    shortlisted, full = rank_both(problem)
    for q, row in enumerate(weights):
        check(shortlisted[0][q], shortlisted[1][q], rank_simple(row, *index, k, m))
        check(full[0][q], full[1][q], rank_simple(row, *index, k))


@settings(max_examples=300, deadline=None)
@given(problems(), st.data())
def test_filtered_rankings_equal_the_reference_bit_for_bit(problem, data):
    weights, label_buckets, m, k, *_ = problem
    allowed = data.draw(hnp.arrays(bool, label_buckets.shape[1]))
    min_chunks = data.draw(st.integers(0, weights.shape[1] + 1))
    least = np.float32(data.draw(st.one_of(st.just(0.0), WEIGHTS, st.floats(0, 3, width=32))))
    label_filter = LabelFilter(allowed, np.int64(min_chunks), least)
    index = inverted(label_buckets, weights.shape[2])
    shortlisted, full = rank_both(problem, tuple(label_filter))
    for q, row in enumerate(weights):
        for (keys, candidates), kept in ((shortlisted, m), (full, None)):
            expected = rank_simple(row, *index, k, kept, label_filter=label_filter)
            check(keys[q], candidates[q], expected)


@pytest.mark.parametrize("k", [1, 100, 700])
@pytest.mark.parametrize("power", [0, 1, 40])
@pytest.mark.parametrize("num_chunks", [1, 16, 150])
def test_rankings_agree_over_many_parts(num_chunks, power, k):
    rng = np.random.default_rng(power)
    num_buckets, num_labels = 50, 20_000
    label_buckets = rng.integers(num_buckets, size=(num_chunks, num_labels), dtype=np.uint16)
    weights = rng.random((5, num_chunks, num_buckets), np.float32) ** power
    index = inverted(label_buckets, num_buckets)
    for sizes in PARTS:
        found = rank_both((weights, label_buckets, num_buckets, k, sizes, 1000))
        for keys, candidates in found:
            np.testing.assert_array_equal(keys, found[1][0])
            assert (candidates == num_labels).all()
    for q, row in enumerate(weights):
        check(found[1][0][q], num_labels, rank_simple(row, *index, k))


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
        best = top_buckets_simple(row, m)
        check(row_keys, m, (best, row[best], m))


@pytest.mark.parametrize("arrange", [np.copy, np.sort, lambda row: np.sort(row)[:, ::-1].copy()])
@pytest.mark.parametrize("m", [1, 7, 100, 3000, 30_000])
def test_top_keys_at_the_papers_size(m, arrange):
    values = arrange(np.random.default_rng(m).random((2, 30_000), np.float32) ** 30)
    keys = np.empty((2, m), np.uint64)
    top_m.top_keys(values.view(np.uint32), keys)
    for row, row_keys in zip(values, keys, strict=True):
        np.testing.assert_array_equal(~row_keys.astype(np.uint32), top_buckets_simple(row, m))


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
