import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer

from solar_tf.config import SolarConfig
from solar_tf.preprocessing.features import inverse_frequencies, weigh

NUM_FEATURES = 7
features = st.dictionaries(st.integers(0, NUM_FEATURES - 1), st.integers(1, 50))
blocks = st.lists(features, min_size=1, max_size=8)


def to_arrays(rows):
    splits = np.cumsum([0] + [len(row) for row in rows])
    ids = np.array([feature for row in rows for feature in row], np.int32)
    values = np.array([value for row in rows for value in row.values()], np.float32)
    return splits, ids, values


@given(blocks, st.sampled_from([1.0, 3.0, 0.25]))
@example([{}, {0: 2, 3: 1}, {}, {}], 3.0)  # trailing rows are empty
@example([{}], 1.0)
def test_tfidf_equals_scikit_learns_times_feature_scale(rows, scale):
    splits, ids, values = to_arrays(rows)
    counts = csr_array((values, ids, splits), (len(rows), NUM_FEATURES))
    expected = TfidfTransformer(norm="l2").fit_transform(counts)

    weights = inverse_frequencies(np.bincount(ids, minlength=NUM_FEATURES), len(rows))
    config = SolarConfig(weighting="tfidf", feature_scale=scale)
    actual = weigh(splits, ids, values, config, weights)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, scale * expected.data, rtol=1e-5)


def test_a_row_is_weighed_alike_wherever_its_block_ends():
    config = SolarConfig(weighting="tfidf")
    weights = np.arange(1, 4, dtype=np.float32)
    alone = weigh([0, 2], np.array([0, 2]), np.float32([4, 1]), config, weights)
    block = weigh([0, 0, 2, 3, 3], np.array([0, 2, 1]), np.float32([4, 1, 9]), config, weights)
    np.testing.assert_array_equal(block, [*alone, 1])


def test_a_row_of_zeros_stays_zeros():
    config = SolarConfig(weighting="tfidf")
    weighed = weigh([0, 2], np.array([0, 1]), np.zeros(2, np.float32), config, np.ones(2))
    np.testing.assert_array_equal(weighed, [0, 0])


def test_counts_stay_as_they_are_whatever_feature_scale_is():
    values = np.float32([3, 0.5, 17])
    config = SolarConfig(weighting="counts", feature_scale=3.0)
    np.testing.assert_array_equal(weigh([0, 1, 3], np.array([1, 0, 2]), values, config), values)


def test_a_feature_of_every_row_weighs_least_and_a_new_one_most():
    weights = inverse_frequencies([100, 10, 0], 100)
    np.testing.assert_allclose(weights, [1, 1 + np.log(101 / 11), 1 + np.log(101)], rtol=1e-6)
    squares = inverse_frequencies([100, 10, 0], 100, power=2)
    assert squares.dtype == np.float32
    np.testing.assert_allclose(squares, np.square(weights), rtol=1e-6)
