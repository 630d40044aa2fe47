"""What baselines learn from: a preprocessed run as matrices, before any feature hashing.

Rows have unit length. Their values are the run's own, TF-IDF, or the counts that the dataset
gives. A run of either weighting gives the other: IDF is one factor per feature, and rows are
scaled to unit length in both.
"""

import functools
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from solar_tf.datasets.vocabulary import Vocabulary, bags
from solar_tf.errors import UserError
from solar_tf.preprocessing import features
from solar_tf.preprocessing.features import scale_rows
from solar_tf.retrieval.metrics import inverse_propensity
from solar_tf.run import records
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_arrays
from solar_tf.runtime.ragged import row_splits


@dataclass(frozen=True)
class Split:
    """Rows: inputs, a CSR matrix or dense array [n, F] float32, and labels, CSR of ones [n, N]."""

    inputs: sp.csr_matrix | np.ndarray
    labels: sp.csr_matrix

    def __len__(self):
        return self.labels.shape[0]


@dataclass(frozen=True)
class Data:
    name: str
    kind: str  # text, sparse or dense
    num_labels: int
    num_features: int
    train: Split
    test: Split
    propensity: tuple[float, float]  # a and b of metrics.inverse_propensity
    label_inputs: sp.csr_matrix | None = None  # [N, F]: label titles in the words of the rows
    test_filter: tuple | None = None  # splits [n + 1] and labels that may not be predicted

    @functools.cached_property
    def label_counts(self):
        """Training rows of each label, [N]."""
        return np.bincount(self.train.labels.indices, minlength=self.num_labels)

    @functools.cached_property
    def inverse_propensity(self):
        """1 / p_l, float [N]."""
        return inverse_propensity(self.label_counts, len(self.train), *self.propensity)


def load_data(root, weighting="auto", idf_power=0.0):
    """The Data of a preprocessed run.

    `weighting` is auto, tfidf, counts or words, and an `idf_power` of 0 that of the run.
    """
    run = open_run(root)
    dataset, config = run.dataset, run.config
    idf_power = idf_power or config.idf_power
    kind, num_features = dataset["kind"], dataset["num_features"]
    if not run.summary["train"]["rows"] or not run.summary["test"]["rows"]:
        raise UserError(f"{root}: baselines need training and test rows: give preprocess.py both")
    in_order = weighting == "words"
    splits = {split: _read_split(run, split, in_order) for split in ("train", "test")}
    label_inputs = test_filter = None
    if kind == "text" and run.paths.label_titles.exists():
        titles = run.paths.label_titles.read_text(encoding="utf-8").split("\n")[:-1]
        words = Vocabulary.load(run.paths.vocabulary).sequences(titles)
        label_inputs = _matrix(num_features, *(words if in_order else bags(*words)))
    if kind != "dense" and not in_order:
        want_tfidf = weighting == "tfidf" or (weighting == "auto" and kind == "text")
        have_power = config.idf_power if config.weighting == "tfidf" else 0
        train = splits["train"].inputs
        frequencies = np.bincount(train.indices, minlength=num_features)
        idf = features.inverse_frequencies(frequencies, train.shape[0])
        factors = idf ** np.float32(want_tfidf * idf_power - have_power)
        for split in splits.values():
            split.inputs.data *= factors[split.inputs.indices]
        if label_inputs is not None and want_tfidf:
            label_inputs.data *= (idf ** np.float32(idf_power))[label_inputs.indices]
    for inputs in (*(split.inputs for split in splits.values()), label_inputs):
        if inputs is not None and not in_order:
            scale_rows(inputs)
    if run.paths.test_filter.exists():
        arrays = read_arrays(run.paths.test_filter, "preprocess.py")
        test_filter = arrays["splits"], arrays["labels"]
    return Data(
        dataset["name"],
        kind,
        dataset["num_labels"],
        num_features,
        splits["train"],
        splits["test"],
        tuple(dataset["propensity"]),
        label_inputs,
        test_filter,
    )


def csr_arrays(matrix):
    """splits int64 [n + 1], columns int32 and values float32 of a matrix: what kernels take.

    A dense matrix becomes a sparse one that lacks nothing.
    """
    matrix = sp.csr_matrix(matrix, dtype=np.float32)
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data


def _matrix(width, splits, columns, values=None):
    """CSR [n, width]; of ones, if there are no values."""
    values = np.ones(len(columns)) if values is None else values
    return sp.csr_matrix((values.astype(np.float32), columns, splits), (len(splits) - 1, width))


def _read_split(run, split, in_order=False):
    shards = range(run.summary[split]["shards"])
    pieces = [read_arrays(run.paths.rows(split, shard), "preprocess.py") for shard in shards]
    if in_order and run.dataset["kind"] != "text":
        raise UserError(f"{run.paths.root}: this baseline reads titles, and there are none")
    if in_order and not all("words" in piece for piece in pieces):
        raise UserError(
            f"{run.paths.root}: made by a version that did not keep the order of words: "
            "make a new run with preprocess.py"
        )

    def joined(width, splits, *names):
        counts = np.concatenate([np.diff(piece[splits]) for piece in pieces])
        arrays = (np.concatenate([piece[name] for piece in pieces]) for name in names)
        return _matrix(width, row_splits(counts), *arrays)

    labels = joined(run.dataset["num_labels"], "label_splits", "labels")
    num_features = run.dataset["num_features"]
    if run.dataset["kind"] == "dense":
        files = [run.paths.inputs(split, shard) for shard in shards]
        inputs = np.concatenate([_read_dense(file, num_features) for file in files])
    elif in_order:
        inputs = joined(num_features, "word_splits", "words")
    else:
        inputs = joined(num_features, "feature_splits", "features", "values")
    return Split(inputs, labels)


def _read_dense(path, dim):
    """The rows of a TFRecord file of dense inputs, [n, dim]: all its frames are of one length."""
    num_rows = records.verify_records(path)
    if not num_rows:
        return np.zeros((0, dim), np.float32)
    frames = np.memmap(path, np.uint8, "r").reshape(num_rows, -1)
    end = frames.shape[1] - records.FOOTER
    values = np.ascontiguousarray(frames[:, end - 4 * dim : end])  # the proto ends with its floats
    return values.view("<f4").astype(np.float32, copy=False)
