import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare
from sklearn.utils import murmurhash3_32

from solar_tf.preprocessing.hashing import (
    hash_features,
    hash_ids,
    label_buckets,
    or_targets,
    sparse_indices,
)
from solar_tf.preprocessing.hashing import murmurhash3_32 as hashing_in_numpy

NUM_FEATURES, NUM_LABELS = 50, 40
tokens = st.lists(st.tuples(st.integers(0, NUM_FEATURES - 1), st.integers(-8, 8)), max_size=12)
label_sets = st.lists(st.integers(0, NUM_LABELS - 1), max_size=12)
seeds = st.integers(0, 2**32 - 1)


def csr(rows):
    splits = np.cumsum([0, *map(len, rows)])
    return splits, [item for row in rows for item in row]


def rows_of(splits, *columns):
    """The rows of a CSR block as Python lists."""
    return [
        [column[start:end].tolist() for column in columns]
        for start, end in itertools.pairwise(splits)
    ]


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (0, [19054, 24522, 22463, 19505, 19975, 28494]),
        (15, [18849, 16469, 21815, 20375, 7516, 23014]),
    ],
)
def test_golden_buckets(seed, expected):
    buckets = label_buckets(6, seed, 30_000)
    assert buckets.dtype == np.int32
    assert buckets.tolist() == expected


@given(st.integers(0, 30), seeds, st.integers(1, 2**31 - 1))
def test_buckets_are_the_signed_hash_in_pythons_modulo(count, seed, size):
    expected = [murmurhash3_32(np.int32(label), seed=seed) % size for label in range(count)]
    assert label_buckets(count, seed, size).tolist() == expected
    assert hash_ids(np.arange(count)[::-1], seed, size).tolist() == expected[::-1]


def test_the_papers_own_example():
    """§3.1: the generated integers, and the same shifted by B."""
    chunks = [0, 1, 2, 14, 15]
    buckets = np.zeros(16, dtype=np.int32)
    buckets[chunks] = [18189, 8475, 23984, 17924, 459]
    expected = [18189, 38475, 83984, 437924, 450459]
    assert sparse_indices(buckets, 30_000)[chunks].tolist() == expected


def test_sparse_indices_of_many_labels_do_not_overflow():
    buckets = np.full((3, 4), 2**30, dtype=np.int32)
    assert sparse_indices(buckets, 2**31 - 1)[2].tolist() == [
        2**30 + chunk * (2**31 - 1) for chunk in range(4)
    ]


def test_label_vectors_are_nearly_orthogonal():
    """§3.1: the expected dot product of two label vectors is K / B."""
    num_labels, num_chunks, num_buckets = 2000, 16, 100
    pairs = num_labels * (num_labels - 1) / 2
    collisions = 0
    for seed in range(num_chunks):
        sizes = np.bincount(label_buckets(num_labels, seed, num_buckets))
        collisions += (sizes * (sizes - 1) / 2).sum()
    # Pairs are pairwise independent, so the number of collisions has a binomial's deviation.
    deviation = np.sqrt(num_chunks / num_buckets / pairs)
    assert abs(collisions / pairs - num_chunks / num_buckets) < 4 * deviation


@pytest.mark.parametrize("seed", [0, 1, 15, 31])
def test_bucket_sizes_are_binomial(seed):
    """§3.1 calls the index load-balanced: equal in expectation, binomial in fact."""
    num_labels, num_buckets = 100_000, 5000
    sizes = np.bincount(label_buckets(num_labels, seed, num_buckets), minlength=num_buckets)
    law = binom(num_labels, 1 / num_buckets)
    edges = law.ppf(np.linspace(0, 1, 11)[1:-1])  # about ten cells of equal probability
    cells = np.bincount(np.searchsorted(edges, sizes), minlength=len(edges) + 1)
    expected = np.diff(law.cdf([-1, *edges, num_labels])) * num_buckets
    assert chisquare(cells, expected).pvalue > 1e-3


def test_chunks_hash_independently():
    first, second = (label_buckets(100_000, seed, 100) for seed in (0, 1))
    assert abs((first == second).mean() - 1 / 100) < 4 * np.sqrt(1 / 100 / 100_000)


@given(st.lists(tokens, max_size=8), seeds, st.integers(1, 60))
def test_hash_features_adds_up_collisions_row_by_row(rows, seed, feature_dim):
    splits, flat = csr(rows)
    ids, values = np.array(flat, dtype=np.int32).reshape(-1, 2).T
    hashed = hash_ids(ids, seed, feature_dim)
    result = hash_features(splits, hashed, values.astype(np.float32))
    expected = []
    for row in rows:
        sums = {}
        for token, value in row:
            place = murmurhash3_32(np.int32(token), seed=seed) % feature_dim
            sums[place] = sums.get(place, 0) + value
        expected.append([sorted(sums), [sums[token] for token in sorted(sums)]])
    assert rows_of(*result) == expected
    assert [array.dtype for array in result[1:]] == [np.int32, np.float32]


@given(st.lists(label_sets, max_size=8), seeds, st.integers(1, 60))
def test_or_is_the_set_union_of_buckets(rows, seed, num_buckets):
    buckets = label_buckets(NUM_LABELS, seed, num_buckets)
    splits, labels = csr(rows)
    result = or_targets(splits, buckets[np.array(labels, dtype=np.int32)])
    assert rows_of(*result) == [[sorted({int(buckets[label]) for label in row})] for row in rows]
    assert result[1].dtype == np.int32


def test_a_slice_of_a_larger_block_is_a_block():
    """Splits need not start at 0."""
    buckets, splits = label_buckets(8, 0, 7), np.array([0, 3, 3, 8])
    whole = rows_of(*or_targets(splits, buckets))
    assert rows_of(*or_targets(splits[1:], buckets[3:])) == whole[1:]


@pytest.mark.parametrize("seed", [0, 1, 15, 2**31, 2**32 - 1])
def test_the_hash_is_scikit_learns(seed):
    limits = np.iinfo(np.int32)
    keys = np.random.default_rng(seed).integers(limits.min, limits.max, 10_000, endpoint=True)
    keys = np.concatenate([keys, [0, 1, -1, limits.min, limits.max]]).astype(np.int32)
    before = keys.copy()
    np.testing.assert_array_equal(hashing_in_numpy(keys, seed), murmurhash3_32(keys, seed))
    np.testing.assert_array_equal(keys, before)
    assert hashing_in_numpy(keys[:0], seed).shape == (0,)
