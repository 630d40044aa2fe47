import numpy as np
import pytest
import scipy.sparse as sp

from baselines.conftest import with_labels
from solar_tf.baselines.titles import (
    Pairs,
    PairSettings,
    stack_rows,
    title_keys,
    without_same_titles,
)
from solar_tf.errors import UserError


def make(data, negatives=3, **settings):
    return Pairs(data, PairSettings(batch_size=50, **settings), negatives)


def test_an_epoch_has_every_pair_once(titled):
    pairs = make(titled)
    order = pairs.order(0)
    assert sorted(order) == list(range(titled.train.labels.nnz))
    seen = []
    for step in range(pairs.steps):
        rows, labels, _ = pairs.batch(order, 0, step)
        assert 40 <= len(rows) <= 60
        seen += zip(rows.tolist(), labels.tolist(), strict=True)
    truth = titled.train.labels.tocoo()
    assert sorted(seen) == sorted(zip(truth.row.tolist(), truth.col.tolist(), strict=True))


def test_one_label_of_each_row_is_another_in_another_epoch(titled):
    pairs = make(titled, pairs="one")
    first, second = (np.sort(pairs.order(epoch)) for epoch in (0, 1))
    np.testing.assert_array_equal(pairs.rows[first], np.arange(len(titled.train)))
    assert 0.2 < np.mean(first != second) < 0.8  # of two labels


def test_batches_are_functions_of_seed_epoch_and_step(titled):
    def draws(seed, epoch, step):
        pairs = make(titled, seed=seed)
        return pairs.batch(pairs.order(epoch), epoch, step)[2].tolist()

    wanted = draws(0, 1, 2)
    assert draws(0, 1, 2) == wanted
    for other in ((1, 1, 2), (0, 2, 2), (0, 1, 3)):
        assert draws(*other) != wanted


def test_random_labels_are_never_true_ones(titled):
    pairs = make(titled, negatives=20)
    rows, _, negatives = pairs.batch(pairs.order(0), 0, 0)
    assert negatives.shape == (len(rows), 20)
    truth = titled.train.labels[rows].toarray()
    assert not np.take_along_axis(truth, negatives, axis=1).any()
    assert len(np.unique(negatives)) == titled.num_labels  # all others have their turn
    np.testing.assert_array_equal(
        pairs.is_true(rows[:, None], np.arange(titled.num_labels)), truth > 0
    )


def test_co_occurrence_is_the_formula_on_the_whole_matrix(titled):
    """C of all labels, cut to the batch's, some of which are there twice."""
    pairs = make(titled)
    labels = np.array([5, 4, 17, 5, 30, 31])
    whole = (titled.train.labels.T @ titled.train.labels).toarray()
    part = whole[np.ix_(labels, labels)]
    inverse = np.diag(1 / part.diagonal())
    wanted = (part @ inverse + inverse @ part) / 2
    pairs.co_occurrence(np.arange(40))  # leaves nothing behind in the scratch
    np.testing.assert_allclose(pairs.co_occurrence(labels), wanted, rtol=1e-6)
    assert wanted[0, 1] == 1 and wanted[0, 2] == 0  # labels of the toy come in pairs


def test_rows_are_stacked_in_order_and_with_their_repeats():
    first = sp.csr_matrix((np.ones(4), [3, 1, 3, 0], [0, 3, 3, 4]), (3, 5))
    splits, columns, values = stack_rows(first[[0, 1]], first[[2, 0]])
    assert splits.tolist() == [0, 3, 3, 4, 7]
    assert columns.tolist() == [3, 1, 3, 0, 3, 1, 3]
    assert values.dtype == np.float32 and values.tolist() == [1] * 7


def test_data_that_pairs_cannot_be_made_of_are_refused(planted, titled):
    with pytest.raises(UserError, match="titles of labels, and there are none"):
        make(planted)
    with pytest.raises(UserError, match="a row has all labels"):
        make(with_labels(titled, np.ones(titled.train.labels.shape)))


def rows(*words):
    splits = np.cumsum([0, *map(len, words)])
    columns = np.concatenate(words).astype(np.int32)
    return sp.csr_matrix((np.ones(len(columns), np.float32), columns, splits), (len(words), 50))


def test_keys_are_equal_for_the_same_words_only():
    keys = title_keys(rows([1, 2], [2, 1], [1], [], [3], [1, 2, 2], [0, 3]))
    assert keys[0] == keys[1] and keys[3] == 0
    assert len(set(keys.tolist())) == 6
    many = rows(*([a, b] for a in range(50) for b in range(a)))
    assert len(np.unique(title_keys(many))) == 50 * 49 // 2


def test_labels_of_the_querys_own_words_are_left_out():
    labels = title_keys(rows([1, 2], [4], [2, 1], [5]))
    keys = title_keys(rows([2, 1], [9]))

    def search(k):
        ids = np.array([[2, 1, 0, 3], [0, 1, 2, 3]], np.int32)[:, :k]
        return ids, 10 - np.arange(k, dtype=np.float32) + np.zeros((2, 1), np.float32)

    ids, scores = without_same_titles(search, keys, labels, 2)
    assert ids.tolist() == [[1, 3], [0, 1]]
    assert scores.tolist() == [[9, 7], [10, 9]] and scores.dtype == np.float32
    ids, scores = without_same_titles(search, keys, labels, 6)
    assert ids.tolist() == [[1, 3, -1, -1, -1, -1], [0, 1, 2, 3, -1, -1]]
    assert not scores[ids < 0].any()
