"""SLICE (Jain et al., WSDM 2019): linear classifiers on shortlists of near labels.

Inputs are dense and of unit length; sparse ones are first projected on their leading singular
vectors, which is ours: the paper starts from dense embeddings. A
label is the unit mean of its rows. Each row's nearest labels are its hard negatives; a label's
SVM is trained on its own rows and on those. A query is scored on its nearest labels alone, by
the SVM (discriminative) and the label's mean (generative).

Cost: n searches among N labels (`dense_search`: not linear in N); O(n * shortlist * dim) for all
SVMs together; memory n * shortlist labels, on disk.
"""

import functools
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.dense_search import choose_method, load_index, make_index
from solar_tf.baselines.interface import (
    CORES,
    Baseline,
    Parts,
    Settings,
    in_threads,
    rank_in_threads,
    setting,
)
from solar_tf.baselines.kernels.ranking import best_labels
from solar_tf.baselines.kernels.svm import train_svms
from solar_tf.baselines.kernels.vectors import dot
from solar_tf.preprocessing.features import scale_rows
from solar_tf.preprocessing.grouping import balanced_clusters
from solar_tf.runtime.compiled import compiled
from solar_tf.runtime.console import progress
from solar_tf.runtime.ragged import row_splits

PAIRS_PER_BLOCK = 20_000_000  # of a label and a row near it; bounds memory
ROWS_PER_SEARCH = 2_000


@dataclass(frozen=True)
class SliceSettings(Settings):
    dim: int = setting(300, "SLICE's paper", "singular vectors that sparse inputs are projected on")
    shortlist: int = setting(300, "SLICE's paper", "nearest labels of a row, or of a query")
    centre_rows: int = setting(
        0,
        "SLICE's paper",
        "0: a label is the mean of its rows; else a label with more rows than this is parted into "
        "centres of as many, any of which finds it",
        least=0,
    )
    cost: float = setting(1.0, "SLICE's paper", "C of the squared-hinge SVMs")
    iterations: int = setting(20, "SLICE's program", "passes of an SVM's solver")
    tolerance: float = setting(0.1, "liblinear's", "an SVM's violation at its end")
    search: str = setting(
        "auto",
        "ours",
        "how near labels are found: exact; clusters, our own; hnsw, the paper's, by faiss-cpu; "
        "auto: exact for few labels, else hnsw where faiss-cpu is installed, else clusters",
        choices=("auto", "exact", "clusters", "hnsw"),
    )


class Slice(Baseline):
    title = "SLICE"
    Settings = SliceSettings

    def fit(self, data, folder):
        parts, s = Parts(folder), self.settings
        basis = {}
        if sp.issparse(data.train.inputs):
            basis = parts.get("basis", lambda: {"basis": singular_vectors(data, s.dim, s.seed)})
        self.arrays = dict(basis)
        inputs = self._dense(data.train.inputs)
        method = choose_method(s.search, data.num_labels)
        means = parts.get("means", lambda: label_means(data, inputs, s.centre_rows, s.seed))
        index = parts.get("index", lambda: make_index(means["means"], method, s.seed))
        width = min(s.shortlist, len(means["owners"]))
        near = self._near_labels(inputs, load_index(index), means["owners"], width, Path(folder))
        parts.tick()
        self.arrays |= means | index
        weights = self._classifiers(inputs, data, near, parts)
        # One scale for both scores: cosines become as large as the SVMs' margins are.
        lengths = np.linalg.norm(weights[data.label_counts > 0], axis=1)
        self.arrays |= {"weights": weights, "gamma": np.float32(lengths.mean())}

    @functools.cached_property
    def index(self):
        return load_index(self.arrays)

    def _dense(self, inputs):
        """Dense rows of unit length."""
        if sp.issparse(inputs):
            basis = self.arrays["basis"]
            return scale_rows(np.ascontiguousarray(inputs @ basis, np.float32))
        return np.ascontiguousarray(inputs, np.float32)

    def _near_labels(self, inputs, index, owners, width, folder):
        """The nearest labels of all training rows, int32 [n, width], as a mapped file."""
        path = folder / "near.npy"
        if not path.exists():
            unfinished = folder / "near.unfinished.npy"
            near = np.lib.format.open_memmap(unfinished, "w+", np.int32, (len(inputs), width))
            with progress(len(inputs), "searching near labels", "row") as bar:
                for start in range(0, len(inputs), ROWS_PER_SEARCH):
                    rows = slice(start, start + ROWS_PER_SEARCH)
                    near[rows] = labels_of(index.search(inputs[rows], width), owners)
                    bar.update(len(near[rows]))
            near.flush()
            unfinished.rename(path)
        return np.load(path, mmap_mode="r")

    def _classifiers(self, inputs, data, near, parts):
        """The SVMs of all labels, [N, dim], in blocks of labels."""
        s, num_labels = self.settings, data.num_labels
        counts = count_near(near, num_labels)
        positives = data.train.labels.T.tocsr()
        ends = np.cumsum(counts + data.label_counts)
        borders = np.searchsorted(ends, np.arange(0, ends[-1], PAIRS_PER_BLOCK)[1:])
        borders = np.unique([0, *borders.tolist(), num_labels])
        weights = np.zeros((num_labels, inputs.shape[1]), np.float32)
        with progress(num_labels, "training classifiers", "label") as bar:
            for first, last in itertools.pairwise(borders.tolist()):

                def train(first=first, last=last):
                    splits = row_splits(counts[first:last])
                    rows = gather_near(near, first, last, splits)
                    block = np.zeros((last - first, inputs.shape[1]), np.float32)
                    members = positives[first:last]
                    member_splits = members.indptr.astype(np.int64)
                    in_threads(
                        lambda start, stop: train_svms(
                            start, stop, inputs, member_splits, members.indices, splits, rows,
                            s.cost, s.iterations, s.tolerance, s.seed, block,
                        ),
                        last - first,
                        max(1, min(256, (last - first) // (4 * CORES))),
                    )  # fmt: skip
                    return {"weights": block}

                weights[first:last] = parts.get(f"classifiers_{first:09d}", train)["weights"]
                bar.update(last - first)
        return weights

    def predict(self, inputs, k):
        rows, gamma = self._dense(inputs), float(self.arrays["gamma"])
        means, owners, weights = (self.arrays[name] for name in ("means", "owners", "weights"))
        near = self.index.search(rows, min(self.settings.shortlist, len(means)))
        arguments = rows, near, means, owners, weights, gamma
        return rank_in_threads(rank_near, len(rows), k, *arguments)[:2]


def singular_vectors(data, dim, seed):
    """The leading right singular vectors of the training rows, float32 [F, dim]."""
    from sklearn.utils.extmath import randomized_svd

    inputs = data.train.inputs
    dim = min(dim, min(inputs.shape) - 1)
    vectors = randomized_svd(inputs, dim, n_iter=3, random_state=seed)[2]
    return np.ascontiguousarray(vectors.T, np.float32)


def label_means(data, inputs, centre_rows, seed):
    """Unit means [M, dim] of labels' rows, and the label of each [M]; zeros where it has no rows.

    The first N are of whole labels. A label with more than `centre_rows` rows, if that is not 0,
    is split into balanced clusters of about as many; their means follow, and its own is zero.
    """
    members = data.train.labels.T.tocsr()
    means = np.asarray(members @ inputs, np.float32)
    centres, owners = [means], [np.arange(data.num_labels)]
    generator = np.random.default_rng(seed)
    for label in np.flatnonzero(data.label_counts > centre_rows) if centre_rows else ():
        rows = inputs[members.indices[members.indptr[label] : members.indptr[label + 1]]]
        count = -(-len(rows) // centre_rows)
        splits, order = balanced_clusters(rows, count, generator)
        centres.append(np.add.reduceat(rows[order], splits[:-1], axis=0))
        owners.append(np.full(count, label))
        means[label] = 0
    means = scale_rows(np.concatenate(centres))
    return {"means": means, "owners": np.concatenate(owners).astype(np.int32)}


def labels_of(found, owners):
    """The labels of means found, int32 [n, width]: each once, padded with -1."""
    labels = np.sort(np.where(found < 0, -1, owners[found]), axis=1)
    labels[:, 1:][labels[:, 1:] == labels[:, :-1]] = -1
    return labels


def count_near(near, num_labels):
    """How many rows have each label nearby, [N]."""
    counts = np.zeros(num_labels, np.int64)
    for start in range(0, len(near), 100_000):
        block = near[start : start + 100_000].ravel()
        counts += np.bincount(block[block >= 0], minlength=num_labels)
    return counts


def gather_near(near, first, last, splits):
    """The rows that have each of the labels first to last nearby: int32, CSR by `splits`."""
    rows = np.empty(splits[-1], np.int32)
    cursors = splits[:-1].copy()
    for start in range(0, len(near), 100_000):
        _scatter_near(np.asarray(near[start : start + 100_000]), start, first, last, cursors, rows)
    return rows


@compiled
def _scatter_near(near, offset, first, last, cursors, rows):
    for i in range(near.shape[0]):
        for label in near[i]:
            if first <= label < last:
                rows[cursors[label - first]] = offset + i
                cursors[label - first] += 1


@compiled
def rank_near(start, stop, rows, near, means, owners, weights, gamma, ids, scores):
    """Rank the labels of the near means of queries start to stop: sigmoid(w x) + sigmoid(gamma
    cos), with the nearest mean of a label."""
    width = near.shape[1]
    sums = np.zeros(width, np.float32)
    labels, places = np.empty(width, np.int32), np.empty(width, np.int32)
    for q in range(start, stop):
        # Ranked by their places in label order, which puts the lower label first in ties.
        found = near[q][near[q] >= 0]
        found = found[np.argsort(owners[found])]
        count, cosine = 0, np.float32(0)
        for at in range(len(found)):
            label, here = owners[found[at]], dot(means[found[at]], rows[q])
            cosine = here if at == 0 or label != owners[found[at - 1]] else max(cosine, here)
            if at + 1 < len(found) and owners[found[at + 1]] == label:
                continue
            margin = dot(weights[label], rows[q])
            sums[count] = 1 / (1 + np.exp(-margin)) + 1 / (1 + np.exp(-gamma * cosine))
            labels[count], places[count] = label, count
            count += 1
        best_labels(places[:count], sums, ids[q], scores[q])
        for i in range(min(len(ids[q]), count)):
            ids[q, i] = labels[ids[q, i]]
