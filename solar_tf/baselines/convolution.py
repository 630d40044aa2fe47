"""SNRM's network without TensorFlow: convolutions as products with windows of words."""

import numpy as np
from numba import njit

WINDOW = 5  # words that the first convolution sees
LAYERS = ("convolution", "narrow", "wide")


@njit(nogil=True, cache=True)
def windows(splits, words):
    """The five words around each word, int32 [words, 5]; -1 beyond the ends of its row."""
    around = np.full((len(words), WINDOW), -1, np.int32)
    for row in range(len(splits) - 1):
        for at in range(splits[row], splits[row + 1]):
            for i in range(WINDOW):
                place = at + i - WINDOW // 2
                if splits[row] <= place < splits[row + 1]:
                    around[at, i] = words[place]
    return around


def mean_activations(weights, splits, words):
    """The last layer's mean over the words of each row, float32 [n, width]; 0 without words."""
    around = windows(splits, words)
    rows = weights["word_vectors"][np.maximum(around, 0)] * (around >= 0)[:, :, None]
    hidden = rows.reshape(len(rows), weights[LAYERS[0]].shape[0])
    for layer in LAYERS:
        hidden = np.maximum(hidden @ weights[layer], 0)
    counts = np.diff(splits)
    sums = np.zeros((len(counts), hidden.shape[1]), np.float32)
    if len(hidden):  # between the starts of rows with words there are these rows' words only
        sums[counts > 0] = np.add.reduceat(hidden, splits[:-1][counts > 0], axis=0)
    return sums / np.maximum(counts, 1)[:, None].astype(np.float32)
