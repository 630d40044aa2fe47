"""DSSM (Nigam et al., KDD 2019), as the paper trains it (appendix D): one network, two towers.

The words of a title, be it a query's or a label's, are looked up and averaged; batch
normalisation and tanh follow; pairs get a high cosine, a query and a random label a low one.
Labels are ranked by exact inner product, or by an index of faiss-cpu.

Cost: an epoch reads all pairs, O(pairs * words * dim); a query O(N * dim), by matrix products.
"""

import functools
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.dense_search import best_by_product, best_of_near, load_index, make_index
from solar_tf.baselines.interface import setting
from solar_tf.baselines.titles import Pairs, PairSettings, TitleBaseline, stack_rows, title_keys
from solar_tf.preprocessing.features import scale_rows
from solar_tf.runtime.console import progress
from solar_tf.runtime.devices import load_tensorflow

ROWS_PER_BLOCK = 4096
NEAR_LABELS = 4  # times as many as are asked for come from an index, to be ranked exactly
SAMPLE = 2000  # labels between which angles are measured


@dataclass(frozen=True)
class DssmSettings(PairSettings):
    weighting: str = setting(
        "counts",
        "appendix D",
        "weights of the averaged words: counts, which is the plain mean, or tfidf",
        choices=("counts", "tfidf"),
    )
    dim: int = setting(1600, "appendix D", "dimension of word and title vectors")
    negatives: int = setting(1, "appendix D", "random labels for each pair")
    compare: str = setting(
        "own",
        "appendix D",
        "compare a query with its own random labels, or with those of the whole batch",
        choices=("own", "batch"),
    )
    loss: str = setting(
        "hinge",
        "Nigam et al.",
        "hinge: squared, beyond the thresholds; softmax: cross entropy, an improvement",
        choices=("hinge", "softmax"),
    )
    high: float = setting(0.9, "Nigam et al.", "cosine above which a pair is good enough")
    low: float = setting(
        0.2, "Nigam et al.", "cosine below which a random label is far enough", least=-1
    )
    temperature: float = setting(0.05, "ours", "temperature of the softmax")
    glas: float = setting(0.0, "the paper's DSSM has none", "weight of GLaS", least=0)
    search: str = setting(
        "exact",
        "§5.1",
        "how labels are found: exact; clusters, our own index; hnsw, by faiss-cpu",
        choices=("exact", "clusters", "hnsw"),
    )


# Chosen on training rows held out, by P@k: docs/title_baselines.md.
SMALL = {
    "dim": 256, "weighting": "tfidf", "learning_rate": 1e-2, "decay": "linear",
    "same_title": "drop",
}  # fmt: skip
SOFTMAX = {"loss": "softmax", "compare": "batch", "temperature": 0.02}


class Dssm(TitleBaseline):
    title = "DSSM"
    Settings = DssmSettings
    presets = {
        "debian": SMALL,
        "debian_softmax": SMALL | SOFTMAX | {"pairs": "one", "epochs": 12, "dim": 512},
        "books200k": SMALL | {"epochs": 3},
        "books200k_softmax": SMALL | SOFTMAX | {"epochs": 3, "temperature": 0.05},
    }

    def fit(self, data, folder):
        s = self.settings
        pairs = Pairs(data, s, s.negatives)
        load_tensorflow()
        from solar_tf.baselines.pair_training import train
        from solar_tf.baselines.towers import Towers

        queries, titles = (_mean_rows(inputs) for inputs in (data.train.inputs, data.label_inputs))
        nothing = np.zeros((0, 0), np.float32)

        def make_batch(rows, labels, negatives):
            random = negatives.ravel()
            splits, ids, values = stack_rows(queries[rows], titles[labels], titles[random])
            batch = {"ids": ids, "values": values, "row_splits": splits}
            batch["wrong"] = batch["target"] = nothing
            if s.compare == "batch":
                batch["wrong"] = (~pairs.is_true(rows[:, None], random)).astype(np.float32)
            if s.glas:
                batch["target"] = pairs.co_occurrence(labels)
            return batch

        model = Towers(data.num_features, s)
        train(model, pairs, make_batch, folder)
        self.arrays = model.weights()
        self.arrays["label_keys"] = title_keys(titles)
        self.arrays["labels"] = self._embed_all(titles)
        if s.search != "exact":
            self.arrays |= make_index(self.arrays["labels"], s.search, s.seed)

    def embed(self, inputs):
        """Vectors of unit length of rows of words, [n, dim] float32."""
        a = self.arrays
        pooled = np.asarray(_mean_rows(inputs) @ a["word_vectors"])
        scale = a["scale"] / a["deviation"]
        return scale_rows(np.tanh((pooled - a["mean"]) * scale + a["shift"]))

    def _embed_all(self, inputs):
        vectors = np.empty((inputs.shape[0], self.arrays["mean"].shape[0]), np.float32)
        with progress(len(vectors), "label vectors", "label") as bar:
            for start in range(0, len(vectors), ROWS_PER_BLOCK):
                block = self.embed(inputs[start : start + ROWS_PER_BLOCK])
                vectors[start : start + len(block)] = block
                bar.update(len(block))
        return vectors

    @functools.cached_property
    def index(self):
        return load_index(self.arrays)

    def rank(self, inputs, k):
        queries, labels = self.embed(inputs), self.arrays["labels"]
        if self.settings.search == "exact":
            return best_by_product(queries, labels, k)
        near = self.index.search(queries, min(NEAR_LABELS * k, len(labels)))
        return best_of_near(queries, labels, near, k)

    def facts(self, data):
        """How near to orthogonal the labels are: all of them, and those that occur in training."""
        labels = self.arrays["labels"]
        seen = labels[data.label_counts > 0]
        return {
            "orthogonality": mean_squared_cosine(labels, self.settings.seed),
            "orthogonality_seen": mean_squared_cosine(seen, self.settings.seed),
        }


def _mean_rows(inputs):
    """CSR rows whose values add up to 1; empty ones stay."""
    inputs = sp.csr_matrix(inputs, dtype=np.float32)
    sums = np.asarray(inputs.sum(axis=1)).ravel()
    counts = np.diff(inputs.indptr)
    values = inputs.data / np.repeat(np.where(sums > 0, sums, 1), counts)
    return sp.csr_matrix((values, inputs.indices, inputs.indptr), inputs.shape)


def mean_squared_cosine(vectors, seed):
    """Mean squared cosine between vectors of a sample: 0 is orthogonal, 1 / dim is random."""
    generator = np.random.default_rng(seed)
    if len(vectors) > SAMPLE:
        vectors = vectors[generator.choice(len(vectors), SAMPLE, replace=False)]
    products = vectors @ vectors.T
    count = len(vectors)
    off = np.square(products, dtype=np.float64).sum() - np.square(products.diagonal()).sum()
    return float(off / max(1, count * (count - 1)))
