"""SNRM (Zamani et al., CIKM 2018): learned sparse vectors, searched by an inverted index (§2).

A convolution over five words and two over one, all with ReLU and without bias, then the mean
over positions: a wide, non-negative vector of a query's or a label's title. A hinge on products
ranks a label above a random one; an L1 weight has to make the vectors sparse. The paper argues
that it fails: with a small weight the vectors are dense, with a large one they are empty.

Cost: a step multiplies all words of a batch with hidden * width weights; a query touches the
entries of all its dimensions, a fixed share of N as long as the vectors are not sparse.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import setting
from solar_tf.baselines.sparse_search import (
    largest_entries,
    make_postings,
    posting_balance,
    search_postings,
)
from solar_tf.baselines.titles import Pairs, PairSettings, TitleBaseline, stack_rows, title_keys
from solar_tf.runtime.compiled import compiled
from solar_tf.runtime.console import progress
from solar_tf.runtime.devices import load_tensorflow

WINDOW = 5  # words that the convolution sees
LAYERS = ("convolution", "narrow", "wide")
SAMPLE = 1000  # test queries whose sparsity is measured
FLOATS_PER_BLOCK = 30_000_000  # of the widest layer at a time; bounds memory


@dataclass(frozen=True)
class SnrmSettings(PairSettings):
    weighting: str = setting("words", "SNRM's paper", "words in their order", choices=("words",))
    learning_rate: float = setting(1e-4, "SNRM's paper", "Adam's learning rate")
    dim: int = setting(100, "SNRM's paper", "dimension of word vectors")
    hidden: int = setting(300, "SNRM's paper", "units of the convolution over five words")
    narrow: int = setting(100, "SNRM's paper", "units of the layer before the last")
    width: int = setting(30_000, "Table 1", "dimensions of a title's vector")
    l1: float = setting(1e-7, "SNRM's paper", "weight of the vectors' L1 norm", least=0)
    most: int = setting(
        1000, "ours", "entries of a vector that the index keeps, the largest; bounds memory"
    )


# Chosen on training rows held out: docs/title_baselines.md.
SMALL = {
    "dim": 64, "hidden": 128, "narrow": 64, "width": 2000, "batch_size": 256, "epochs": 2,
    "learning_rate": 1e-3, "l1": 1e-4, "same_title": "drop", "most": 200,
}  # fmt: skip


class Snrm(TitleBaseline):
    title = "SNRM"
    Settings = SnrmSettings
    presets = {"debian": SMALL, "books200k": SMALL | {"l1": 1e-5, "learning_rate": 3e-3}}

    def fit(self, data, folder):
        pairs = Pairs(data, self.settings)
        load_tensorflow()
        from solar_tf.baselines.pair_training import train
        from solar_tf.baselines.towers import SparseTowers

        def make_batch(rows, labels, negatives):
            titles = data.label_inputs[np.append(labels, negatives)]
            splits, ids, _ = stack_rows(data.train.inputs[rows], titles)
            return {"windows": windows(splits, ids), "row_splits": splits}

        s = self.settings
        shapes = (WINDOW * s.dim, s.hidden), (s.hidden, s.narrow), (s.narrow, s.width)
        layers = dict(zip(LAYERS, shapes, strict=True))
        model = SparseTowers(data.num_features, layers, s)
        train(model, pairs, make_batch, folder)
        self.arrays = model.weights()
        vectors, nonzeros = self._embed_all(data.label_inputs)
        self.arrays |= make_postings(vectors) | {
            "label_nonzeros": nonzeros,
            "label_keys": title_keys(data.label_inputs),
        }

    def embed(self, inputs):
        """Sparse vectors of rows of words, CSR [n, width], and all their non-zeros, int [n]."""
        splits, words, _ = csr_arrays(inputs)
        dense = mean_activations(self.arrays, splits, words)
        return largest_entries(dense, self.settings.most), np.count_nonzero(dense, axis=1)

    def _blocks(self, inputs):
        """Slices of rows whose widest layer fits into memory."""
        longest = max(1, int(np.diff(inputs.indptr).max(initial=1)))
        step = max(1, FLOATS_PER_BLOCK // (longest * self.settings.width))
        for start in range(0, inputs.shape[0], step):
            yield inputs[start : start + step]

    def _embed_all(self, inputs, what="label"):
        parts = []
        with progress(inputs.shape[0], f"{what} vectors", what) as bar:
            for block in self._blocks(inputs):
                parts.append(self.embed(block))
                bar.update(block.shape[0])
        vectors, nonzeros = zip(*parts, strict=True)
        return sp.vstack(vectors, "csr"), np.concatenate(nonzeros)

    def rank(self, inputs, k):
        found = [
            search_postings(self.embed(block)[0], self.arrays, k)[:2]
            for block in self._blocks(inputs)
        ]
        ids, scores = zip(*found, strict=True)
        return np.concatenate(ids), np.concatenate(scores)

    def facts(self, data):
        """Sparsity of labels and queries, and how evenly the index is filled."""
        queries, query_nonzeros = self._embed_all(data.test.inputs[:SAMPLE], "query")
        candidates = search_postings(queries, self.arrays, 1)[2]
        labels = self.arrays["label_nonzeros"]
        return {
            "nonzeros": float(labels.mean()),
            "empty": float(100 * np.mean(labels == 0)),
            "query_nonzeros": float(query_nonzeros.mean()),
            "query_empty": float(100 * np.mean(query_nonzeros == 0)),
            "candidates": candidates,
            **posting_balance(self.arrays),
        }


@compiled
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
