import numpy as np
import pytest

from solar_tf.errors import UserError
from solar_tf.retrieval.label_table import LabelTable, Titles, label_ranges, shard_index
from solar_tf.retrieval.options import SearchOptions
from solar_tf.run.index import build_index

LABEL_BUCKETS = np.array([[0, 1, 1, 2, 0], [1, 1, 0, 0, 1]])
OFFSETS = np.array([[0, 2, 4, 5], [0, 2, 5, 5]], np.uint32)
LABELS = np.array([[0, 4, 1, 2, 3], [2, 3, 0, 1, 4]], np.int32)


@pytest.fixture
def labels():
    table = LabelTable(OFFSETS, LABELS)
    table.titles, table.new_titles = Titles("a\nbé\n\n".encode()), Titles(b"new\nnewer\n")
    return table


def test_titles_of_old_and_new_labels(labels):
    assert [labels.title(label) for label in range(5)] == ["a", "bé", "", "new", "newer"]
    for label in (-1, 5):
        with pytest.raises(UserError, match=f"label {label} is not within 0 and 4"):
            labels.title(label)
    assert LabelTable(OFFSETS, LABELS).title(2) is None


def test_stacked_indexes_are_those_of_the_chunks():
    table = LabelTable.stack([build_index(row, 3) for row in LABEL_BUCKETS], 2)
    np.testing.assert_array_equal(table.offsets, OFFSETS)
    np.testing.assert_array_equal(table.labels, LABELS)
    np.testing.assert_array_equal(table.label_buckets, LABEL_BUCKETS)
    assert table.bucket_sizes.tolist() == [[2, 2, 1], [2, 3, 0]]


@pytest.mark.parametrize(("num_labels", "num_shards"), [(10, 3), (1, 1), (3, 8), (1000, 7)])
def test_ranges_cover_all_labels_alike(num_labels, num_shards):
    ranges = label_ranges(num_labels, num_shards)
    assert [label for low, high in ranges for label in range(low, high)] == list(range(num_labels))
    sizes = [high - low for low, high in ranges]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert len(ranges) == min(num_shards, num_labels)


@pytest.mark.parametrize(("low", "high"), [(0, 50), (0, 20), (13, 14), (20, 50)])
def test_the_index_of_a_shard_is_that_of_its_labels_alone(low, high):
    buckets = np.random.default_rng(0).integers(0, 7, 50)
    shard = shard_index(build_index(buckets, 7), low, high)
    for found, alone in zip(shard, build_index(buckets[low:high], 7), strict=True):
        np.testing.assert_array_equal(found, alone)
        assert found.dtype == alone.dtype


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


def test_removed_labels_pass_no_filter(labels):
    assert labels.filter(SearchOptions()) is None
    allowed = np.array([True, True, False, True, True])
    less = LabelTable(OFFSETS, LABELS, allowed)
    assert less.filter(SearchOptions()).allowed.tolist() == allowed.tolist()
    found = less.filter(SearchOptions(allow=[1, 2], min_chunks=3, threshold=0.5))
    assert np.flatnonzero(found.allowed).tolist() == [1] and found[1:] == (3, 0.5)
    assert less.allowed.tolist() == allowed.tolist()
    assert labels.filter(SearchOptions(min_chunks=2)).allowed.all()
