"""kNN: the labels of the nearest training rows, by the cosine of the inputs. Nothing is learned.

Not one of the paper's competitors, but a floor for them: similar inputs often have similar labels
(docs/books.md). The search is exact: over an inverted index of the rows' features, or by products
with all rows where these are dense.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.dense_search import best_by_product
from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.interface import Baseline, Settings, setting
from solar_tf.baselines.sparse_search import make_postings, rank_by_votes, search_postings


@dataclass(frozen=True)
class KnnSettings(Settings):
    neighbours: int = setting(100, "ours", "nearest training rows that vote for their labels")
    power: float = setting(3.0, "ours", "of the cosine, by which a row's vote weighs")


class Knn(Baseline):
    title = "kNN"
    Settings = KnnSettings

    def fit(self, data, folder):
        label_splits, labels, _ = csr_arrays(data.train.labels)
        rows = data.train.inputs
        index = make_postings(rows) if sp.issparse(rows) else {"rows": rows}
        self.arrays = index | {
            "label_splits": label_splits,
            "labels": labels,
            "label_count": np.int64(data.num_labels),
        }

    def predict(self, inputs, k):
        model, near = self.arrays, self.settings.neighbours
        if "rows" in model:
            members, cosines = best_by_product(np.asarray(inputs), model["rows"], near)
        else:
            members, cosines, _ = search_postings(sp.csr_matrix(inputs), model, near)
        weights = np.maximum(cosines, 0) ** np.float32(self.settings.power)
        voters = model["label_splits"], model["labels"], model["label_count"]
        return rank_by_votes(members, weights, *voters, k)
