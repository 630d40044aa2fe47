"""Parabel (Prabhu et al., WWW 2018), trained and asked through omikuji.

Labels, as the unit means of their rows, are split by balanced spherical 2-means into trees
with at most 100 labels a leaf; every node and label has a linear SVM; a query follows the 10
best paths of each tree. Cost: training O(nnz labels log N) for each tree, a query
O(beam log N) inner products.

omikuji reads training rows from a text file only, and draws its progress on descriptor 2.
Trees are trained one at a time, so that finished ones survive a kill, and saved as one forest.
Its random start has no seed: two fits differ by a few tenths of a point.
"""

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import Baseline, Parts, Settings, rank_in_threads, setting
from solar_tf.errors import UserError
from solar_tf.run.files import atomic_folder, atomic_write
from solar_tf.runtime.console import progress


@dataclass(frozen=True)
class ParabelSettings(Settings):
    num_trees: int = setting(3, "Parabel's paper", "trees of the forest")
    leaf_labels: int = setting(100, "Parabel's paper", "most labels of a leaf")
    cost: float = setting(1.0, "Parabel's paper", "C of the squared-hinge SVMs")
    iterations: int = setting(20, "Parabel's program", "passes of an SVM's solver")
    weight_threshold: float = setting(
        0.1, "Parabel's paper", "smaller weights are dropped; dense inputs keep all", least=0
    )
    beam: int = setting(10, "Parabel's paper", "paths of a tree that a query follows")


class Parabel(Baseline):
    title = "Parabel"
    Settings = ParabelSettings
    settings_file = "parabel.json"  # omikuji has a settings.json of its own

    def fit(self, data, folder):
        folder = Path(folder)
        rows = folder / "train.txt"
        if not rows.exists():
            _write_rows(rows, data.train, data.num_features)
        settings = self.settings
        parameters = _omikuji().Model.default_hyper_param()
        parameters.n_trees = 1
        parameters.min_branch_size = settings.leaf_labels
        parameters.linear_c = settings.cost
        parameters.linear_max_iter = settings.iterations
        parameters.linear_weight_threshold = (
            0.0 if data.kind == "dense" else settings.weight_threshold
        )
        parts = Parts(folder)
        trees = [folder / f"tree_{i}" for i in range(settings.num_trees)]
        with progress(len(trees), "fitting trees", "tree") as bar:
            for tree in trees:
                if not tree.exists():
                    with atomic_folder(tree) as temporary, _quiet(folder / "omikuji.log"):
                        model = _omikuji().Model.train_on_data(str(rows), parameters)
                        model.save(str(temporary))
                    parts.tick()
                bar.update()
        self.model = _load_forest(trees, folder / "forest")

    def predict(self, inputs, k):
        splits, columns, values = csr_arrays(inputs)

        def ask(start, stop, ids, scores):
            for row in range(start, stop):
                part = slice(splits[row], splits[row + 1])
                pairs = list(zip(columns[part].tolist(), values[part].tolist(), strict=True))
                found = self.model.predict(pairs, self.settings.beam, k)
                if found:
                    found.sort(key=lambda pair: (-pair[1], pair[0]))
                    ids[row, : len(found)], scores[row, : len(found)] = zip(*found, strict=True)

        return rank_in_threads(ask, len(splits) - 1, k, rows_per_task=64)[:2]

    def save(self, folder):
        with _quiet(os.devnull):
            self.model.save(str(folder))
        super().save(folder)

    @classmethod
    def load(cls, folder):
        baseline = super().load(folder)
        baseline.model = _load(folder)
        return baseline


def _omikuji():
    try:
        import omikuji
    except ImportError:
        raise UserError("Parabel needs omikuji: pip install 'solar-tf[baselines]'")
    return omikuji


def _load(folder):
    with _quiet(os.devnull):
        return _omikuji().Model.load(str(folder))


def _load_forest(trees, folder):
    """One forest of single trees: omikuji keeps a file for each, and loads all that it finds."""
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed before it saved
    with atomic_folder(folder) as temporary:
        shutil.copy(trees[0] / "settings.json", temporary)
        for i, tree in enumerate(trees):
            shutil.copy(tree / "tree0.cbor", temporary / f"tree{i}.cbor")
    return _load(folder)


def _write_rows(path, split, num_features):
    """The XML-Repo's text format: a header, then `label,label feature:value ...` a row."""
    from sklearn.datasets import dump_svmlight_file

    inputs, labels = sp.csr_matrix(split.inputs), split.labels
    # omikuji refuses a row without features; neither kind teaches anything.
    useful = (np.diff(inputs.indptr) > 0) & (np.diff(labels.indptr) > 0)
    with atomic_write(path, "wb") as file:
        file.write(f"{useful.sum()} {num_features} {labels.shape[1]}\n".encode())
        dump_svmlight_file(inputs[useful], labels[useful], file, multilabel=True)


@contextlib.contextmanager
def _quiet(log):
    """Send what omikuji writes on descriptors 1 and 2 to a file.

    On a terminal, 2 stays: what it draws there is a progress bar.
    """
    sys.stdout.flush()
    descriptors = (1,) if os.isatty(2) else (1, 2)
    with open(log, "ab") as file:
        kept = [os.dup(descriptor) for descriptor in descriptors]
        for descriptor in descriptors:
            os.dup2(file.fileno(), descriptor)
        try:
            yield
        finally:
            for descriptor, copy in zip(descriptors, kept, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)
