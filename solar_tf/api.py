"""SOLAR as a Python object, in scikit-learn's manner.

The stages' own functions do the work: `fit` is preprocess.py and train.py on data in memory,
and what it makes is a run directory that the programs read as well.
"""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from solar_tf import catalogue
from solar_tf.catalogue.labels import CHOICES, LIFT, SHARE, WITHIN
from solar_tf.config import SolarConfig, load_preset
from solar_tf.datasets.arrays import as_inputs, as_labels, open_arrays
from solar_tf.errors import UserError
from solar_tf.retrieval.metrics import RECALL_AT, evaluate, run_propensities
from solar_tf.retrieval.searcher import Hit, Searcher, open_searcher
from solar_tf.run.directory import Run
from solar_tf.runtime.console import silence

__all__ = ["Hit", "Solar"]

HYPERPARAMETERS = tuple(field.name for field in dataclasses.fields(SolarConfig))


class Solar:
    """Retrieval among many labels with sparse random label vectors (SOLAR).

    `preset` is a named configuration. Hyper-parameters of `SolarConfig` that are given by name
    replace the preset's:

    >>> from solar_tf import Solar
    >>> titles = ["red apple", "green apple", "red brick", "grey brick"] * 30
    >>> labels = [[0], [0], [1], [1]] * 30
    >>> solar = Solar(num_chunks=2, num_buckets=8, hidden_dim=16, batch_size=8, epochs=5)
    >>> solar = solar.fit(titles, labels, label_titles=["fruit", "building"])
    >>> solar.search(["an apple"], k=1)[0][0].title
    'fruit'
    >>> ids, scores = solar.predict(["green apple", "grey brick"], k=1)
    >>> ids.tolist()
    [[0], [1]]
    >>> solar.evaluate(["green apple", "grey brick"], [[0], [1]])["P@1"]
    100.0

    Labels are added and removed without training:

    >>> solar.add_labels(["brick houses"])
    array([2])
    >>> [hit.title for hit in solar.search(["brick"], k=2)[0]]
    ['building', 'brick houses']
    >>> solar.remove_labels([1])
    1
    >>> [hit.title for hit in solar.search(["brick"], k=1)[0]]
    ['brick houses']
    """

    def __init__(self, preset: str = "debian", **hyperparameters: Any):
        self.preset = preset
        self._hyperparameters: dict[str, Any] = {}
        self._searcher: Searcher | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.set_params(**hyperparameters)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"Solar({given})"

    # Parameters.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The preset, and the hyper-parameters that were given.

        >>> Solar(epochs=3).get_params()
        {'preset': 'debian', 'epochs': 3}
        """
        return {"preset": self.preset, **self._hyperparameters}

    def set_params(self, **params: Any) -> Self:
        """Change the preset or hyper-parameters, for the next `fit`."""
        for name, value in params.items():
            if name == "preset":
                self.preset = value
            elif name in HYPERPARAMETERS:
                self._hyperparameters[name] = value
            else:
                raise UserError(
                    f"unknown hyper-parameter {name!r}: choose among {', '.join(HYPERPARAMETERS)}"
                )
        return self

    @property
    def config(self) -> SolarConfig:
        """The whole configuration: the preset with the given hyper-parameters."""
        return load_preset(self.preset, **self._hyperparameters)

    # Training.

    def fit(
        self,
        X: Any,
        Y: Any,
        label_titles: Sequence[str] | None = None,
        run: str | Path | None = None,
        *,
        workers: int | None = 1,
        verbose: bool = False,
    ) -> Self:
        """Train on rows in memory (§3.1, §3.2).

        X is a list of titles, a scipy matrix of sparse features or an array of dense ones. Y is a
        matrix whose non-zeros are the labels, or a list of labels for each row. `run` is the folder
        of the run; by default it is temporary and deleted with this object. A run of the same data
        and configuration in that folder goes on where it stopped.

        `workers` processes preprocess, and train a chunk each; None means as many as cores and
        memory allow. With more than one, a script needs the usual `if __name__ == "__main__":`.
        """
        config, dataset = self.config, open_arrays(X, Y, label_titles)
        folder = None
        if run is None:
            folder = tempfile.TemporaryDirectory(prefix="solar_")
            run = folder.name
        with contextlib.nullcontext() if verbose else silence():
            from solar_tf.preprocessing.stage import make_run
            from solar_tf.runtime.devices import load_tensorflow

            make_run(run, dataset, config, workers or len(os.sched_getaffinity(0)))
            load_tensorflow()
            from solar_tf.training.stage import train

            train(run, trainers=workers)
        self._searcher, self._folder = open_searcher(run), folder
        return self

    @classmethod
    def load(
        cls,
        run: str | Path,
        num_chunks: int | None = None,
        attributes: str | Path | None = None,
    ) -> Self:
        """Open a trained run with all of its chunks, or the first `num_chunks`.

        `attributes` is a file of the labels' attributes that replaces the run's own.
        """
        searcher = open_searcher(run, num_chunks, attributes)
        default = load_preset("debian").to_dict()
        config = searcher.run.config.to_dict()
        solar = cls(**{name: value for name, value in config.items() if default[name] != value})
        solar._searcher = searcher
        return solar

    @property
    def searcher(self) -> Searcher:
        """The searcher that answers queries; threads may share it."""
        if self._searcher is None:
            raise UserError("not trained yet: call fit, or Solar.load(run)")
        return self._searcher

    @property
    def run_(self) -> Run:
        """The run that `fit` made or `load` opened."""
        return self.searcher.run

    # Use.

    def search(self, queries: Any, *values: Any, **options: Any) -> list[list[Hit]]:
        """The k best labels of every query, best first, as `Hit`s (§3.3).

        Takes the `retrieval.options.SearchOptions` k, m, score, allow, deny, where, min_chunks,
        threshold, explain and floor.
        """
        return self.searcher.search_batch(queries, *values, **options)

    def predict(
        self, X: Any, k: int = 5, m: int | None = 100, score: str = "evidence"
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k best labels of every row: ids [n, k] padded with -1, scores [n, k]."""
        searcher = self.searcher
        return searcher.rank(searcher.inputs(X), k, m, score)

    def evaluate(
        self, X: Any, Y: Any, m: int | None = 100, score: str = "evidence"
    ) -> dict[str, float]:
        """P@k, RP@k, nDCG@k, PSP@k and Recall@100 in percent, as infer.py prints them (§5)."""
        searcher = self.searcher
        inputs = searcher.inputs(X)
        splits, labels, _ = as_labels(Y, searcher.num_labels)
        if len(splits) - 1 != inputs.num_queries:
            raise UserError(f"Y: {len(splits) - 1} rows, where X has {inputs.num_queries}")
        ids, _ = searcher.rank(inputs, RECALL_AT, m, score)
        return evaluate(ids, splits, labels, run_propensities(self.run_, searcher.num_labels))

    # A catalogue that changes.

    def add_labels(
        self,
        titles: Sequence[str],
        how: str = "content",
        choices: int = CHOICES,
        within: float = WITHIN,
        lift: float = LIFT,
        share: float = SHARE,
        attributes: Sequence[Mapping[str, Any]] | None = None,
    ) -> NDArray[np.int64]:
        """Add labels by their titles, without training; returns their numbers.

        How "content" and "hash" choose the buckets, and what the other parameters mean, is in
        `solar_tf.catalogue.labels`. `attributes` has an entry for each label, with names that the
        run's labels have. The run directory stores the new labels.
        """
        searcher = self.searcher
        root = searcher.run.paths.root
        place = how, choices, within, lift, share
        labels = catalogue.add_labels(root, titles, *place, searcher, attributes)
        searcher.reload()
        return labels

    def remove_labels(self, labels: Sequence[int]) -> int:
        """Remove labels from all answers; returns how many were not removed before."""
        removed = catalogue.remove_labels(self.run_.paths.root, labels)
        self.searcher.reload()
        return removed

    def tune(
        self,
        X: Any,
        Y: Any,
        epochs: int = 3,
        replay: float = 4.0,
        learning_rate: float = 5e-4,
    ) -> Self:
        """Train on new rows, which may have added labels.

        Each new row brings `replay` rows of the training data with it, so that nothing is
        forgotten.
        """
        searcher = self.searcher
        searcher.inputs(X)  # refuses what is of another kind
        _, inputs = as_inputs(X)
        splits, labels, _ = as_labels(Y, searcher.num_labels)
        with silence():
            from solar_tf.catalogue.tuning import tune
            from solar_tf.runtime.devices import load_tensorflow

            load_tensorflow()
            root = searcher.run.paths.root
            tune(root, inputs, (splits, labels), epochs, replay, learning_rate)
        searcher.reload()
        return self

    def score(self, X: Any, Y: Any) -> float:
        """P@1 as a share, for scikit-learn's model selection."""
        return self.evaluate(X, Y)["P@1"] / 100
