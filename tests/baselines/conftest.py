"""A planted task in memory: a word for each label, noise words, and labels that come in pairs."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from solar_tf.baselines.inputs import Data, Split
from solar_tf.preprocessing.features import scale_rows

NUM_LABELS, NUM_NOISE = 40, 30


def plant_split(num_rows, generator, num_labels=NUM_LABELS):
    """Rows of two words that name their labels, 2i and 2i + 1, and of two words of noise."""
    pairs = generator.integers(num_labels // 2, size=num_rows)
    labels = np.stack([2 * pairs, 2 * pairs + 1], axis=1)
    noise = num_labels + np.stack([generator.choice(NUM_NOISE, 2, False) for _ in range(num_rows)])
    columns = np.sort(np.concatenate([labels, noise], axis=1), axis=1)

    def matrix(columns, width):
        splits = np.arange(num_rows + 1) * columns.shape[1]
        return sp.csr_matrix((np.ones(columns.size, np.float32), columns.ravel(), splits),
                             (num_rows, width))  # fmt: skip

    inputs = scale_rows(matrix(columns, num_labels + NUM_NOISE))
    return Split(inputs, matrix(labels, num_labels))


def plant(num_train=600, num_test=80, num_labels=NUM_LABELS, kind="sparse", seed=0):
    generator = np.random.default_rng(seed)
    train, test = (plant_split(n, generator, num_labels) for n in (num_train, num_test))
    if kind == "dense":
        train, test = (Split(split.inputs.toarray(), split.labels) for split in (train, test))
    num_features = train.inputs.shape[1]
    return Data("planted", kind, num_labels, num_features, train, test, (0.55, 1.5))


def with_labels(data, labels):
    """The same task with other labels of the training rows."""
    labels = sp.csr_matrix(labels, dtype=np.float32)
    labels.eliminate_zeros()
    return dataclasses.replace(data, train=Split(data.train.inputs, labels))


@pytest.fixture(scope="session")
def planted():
    return plant()


@pytest.fixture(scope="session")
def planted_dense():
    return plant(kind="dense")


@pytest.fixture(scope="session")
def titled():
    """The planted task with titles of labels: the word that names each."""
    data = plant()
    titles = sp.eye(NUM_LABELS, data.num_features, format="csr", dtype=np.float32)
    return dataclasses.replace(data, kind="text", label_inputs=sp.csr_matrix(titles))
