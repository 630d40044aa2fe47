"""From what a row says to the weighted features that are hashed (§3.2)."""

import numpy as np

from solar_tf.runtime.ragged import row_numbers


def inverse_frequencies(frequencies, num_rows, power=1.0):
    """IDF of every feature from the number of training rows that have it, [F] float32.

    A `power` above 1 makes frequent features fade further.
    """
    idf = (np.log((1 + num_rows) / (1 + np.asarray(frequencies))) + 1).astype(np.float32)
    return idf ** np.float32(power)


def weigh(splits, ids, values, config, weights=None):
    """The values of a block of rows, [nnz] float32, in the run's weighting.

    `counts` leaves them as they are (the paper's bag of words); `tfidf` multiplies by the
    features' `weights` [F] and scales every row to the length `feature_scale`.
    """
    if config.weighting == "counts":
        return values
    values = values * weights[ids]
    rows = row_numbers(splits)
    lengths = np.sqrt(np.bincount(rows, weights=np.square(values, dtype=np.float64)))
    scale = config.feature_scale / np.where(lengths > 0, lengths, 1)
    return (values * scale[rows]).astype(np.float32)


def scale_rows(inputs):
    """Scale the rows of a CSR matrix or array to unit length, in place; empty ones stay."""
    if hasattr(inputs, "indptr"):  # CSR; scipy need not be loaded to tell
        rows = np.repeat(np.arange(inputs.shape[0]), np.diff(inputs.indptr))
        squares = np.bincount(rows, np.square(inputs.data, dtype=np.float64), inputs.shape[0])
        lengths = np.sqrt(squares).astype(np.float32)
        inputs.data /= np.where(lengths > 0, lengths, 1)[rows]
    else:
        lengths = np.sqrt(np.einsum("ij,ij->i", inputs, inputs, dtype=np.float64))
        inputs /= np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]
    return inputs
