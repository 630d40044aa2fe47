import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.same_titles import title_keys, without_same_titles


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
