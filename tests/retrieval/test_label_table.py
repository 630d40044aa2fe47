import numpy as np
import pytest

from solar_tf.errors import UserError
from solar_tf.retrieval.label_table import Labels, Titles
from solar_tf.retrieval.ranking import Limits

LABEL_BUCKETS = np.array([[0, 1, 1, 2, 0], [1, 1, 0, 0, 1]])
OFFSETS = np.array([[0, 2, 4, 5], [0, 2, 5, 5]], np.uint32)
LABELS = np.array([[0, 4, 1, 2, 3], [2, 3, 0, 1, 4]], np.int32)


@pytest.fixture
def labels():
    return Labels(OFFSETS, LABELS, Titles("a\nbé\n\n".encode()), Titles(b"new\nnewer\n"))


def test_titles_of_old_and_new_labels(labels):
    assert [labels.title(label) for label in range(5)] == ["a", "bé", "", "new", "newer"]
    for label in (-1, 5):
        with pytest.raises(UserError, match=f"label {label} is not within 0 and 4"):
            labels.title(label)
    assert Labels(OFFSETS, LABELS, None, Titles(b"")).title(2) is None


def test_the_buckets_of_labels_are_those_that_hold_them(labels):
    np.testing.assert_array_equal(labels.label_buckets, LABEL_BUCKETS)


@pytest.mark.parametrize(
    ("allow", "deny", "expected"),
    [
        (None, None, [0, 1, 2, 3, 4]),
        ([3, 1], None, [1, 3]),
        (None, [0], [1, 2, 3, 4]),
        (np.array([True, False, True, False, False]), np.array([2]), [0]),
        ([], None, []),
        (None, [], [0, 1, 2, 3, 4]),
        ([4], [4], []),
    ],
)
def test_masks(labels, allow, deny, expected):
    assert np.flatnonzero(labels.mask(allow, deny)).tolist() == expected


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([5], "label 5 is not within 0 and 4"),
        ([-1], "label -1"),
        ([0.5], "whole numbers"),
        (["a"], "whole numbers"),
        ([[1]], "whole numbers"),
        (np.ones(4, bool), "4 truth values, where there are 5 labels"),
    ],
)
def test_bad_masks_say_what_is_wrong(labels, chosen, message):
    with pytest.raises(UserError, match=message):
        labels.mask(chosen)


def test_removed_labels_are_within_no_limits(labels):
    assert labels.limits(None) is None
    allowed = np.array([True, True, False, True, True])
    less = Labels(OFFSETS, LABELS, None, Titles(b""), allowed)
    assert less.limits(None).allowed.tolist() == allowed.tolist()
    limits = less.limits(Limits(less.mask([1, 2]), 3, 0.5))
    assert np.flatnonzero(limits.allowed).tolist() == [1] and limits[1:] == (3, 0.5)
