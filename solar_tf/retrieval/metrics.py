"""P@k, RP@k, R@k, nDCG@k and PSP@k of ranked predictions (§5).

Predictions are `ids` int32 [Q, width], best first, each label at most once in a row, padded
with -1; columns that a cut-off k finds missing count as padding. The truth is ragged, in CSR
form: query q has the true labels `labels[splits[q]:splits[q + 1]]`. A query without true
labels scores 0 and still counts.

P@k divides by k, always. RP@k divides by min(k, true labels), as the evaluators of the paper's
authors do: the two differ wherever a query has fewer than k true labels.
"""

import numpy as np

from solar_tf.datasets.cards import PROPENSITY_DEFAULT
from solar_tf.run.files import read_arrays
from solar_tf.runtime.ragged import row_numbers, row_splits

KS = (1, 3, 5, 10)  # cut-offs of P@k, RP@k, nDCG@k and PSP@k
RECALL_AT = 100
PADDING = -1
PAIRS_PER_BLOCK = 4096  # of a query and a true label; their rankings fit the cache


def hits(ids, splits, labels):
    """Which predictions are true labels of their query: bool [Q, width]."""
    found = np.zeros(ids.shape, dtype=bool)
    rows = row_numbers(splits)
    for start in range(0, len(rows), PAIRS_PER_BLOCK):  # each true label with the whole ranking
        block = slice(start, start + PAIRS_PER_BLOCK)
        pairs, columns = np.nonzero(ids[rows[block]] == labels[block, None])
        found[rows[block][pairs], columns] = True
    return found


def precision_at(hits, k):
    """P@k of each query: float [Q]."""
    return hits[:, :k].sum(axis=1) / k


def r_precision_at(hits, num_true, k):
    """RP@k of each query, given its number of true labels [Q]: float [Q]."""
    return hits[:, :k].sum(axis=1) / np.clip(num_true, 1, k)


def recall_at(hits, num_true, k):
    """R@k of each query, given its number of true labels [Q]: float [Q]."""
    return hits[:, :k].sum(axis=1) / np.maximum(num_true, 1)


def ndcg_at(hits, num_true, k):
    """nDCG@k of each query, normalised over min(k, true labels): float [Q]."""
    gains = 1 / np.log2(np.arange(2, k + 2))
    top = hits[:, :k]
    return top @ gains[: top.shape[1]] / np.cumsum(gains)[np.clip(num_true, 1, k) - 1]


def inverse_propensity(counts, num_train_rows, a=PROPENSITY_DEFAULT[0], b=PROPENSITY_DEFAULT[1]):
    """1 / p_l of every label from its training counts n_l [N]: 1 + C (n_l + b)^-a, float [N].

    C = (ln R - 1)(b + 1)^a with R training rows (Jain et al., KDD 2016).
    """
    scale = (np.log(num_train_rows) - 1) * (b + 1) ** a
    return 1 + scale * (np.asarray(counts) + b) ** -a


def psp_at(hits, ids, splits, labels, inverse_propensity, k):
    """Propensity-scored hits in the top k, and the best that could be reached: two float [Q].

    PSP@k of a test set is the sum of the first over the sum of the second.
    """
    # Padding looks up the last label's weight, but is never a hit.
    gained = np.where(hits[:, :k], inverse_propensity[ids[:, :k]], 0).sum(axis=1)
    num_true, rows = np.diff(splits), row_numbers(splits)
    weights = inverse_propensity[labels]
    weights = weights[np.lexsort((-weights, rows))]
    ranks = np.arange(len(rows)) - np.repeat(splits[:-1] - splits[0], num_true)
    return gained, np.bincount(rows, weights * (ranks < k), minlength=len(num_true))


class MetricSums:
    """Metrics of queries that come in blocks: `add` every block, then ask for the `result`."""

    def __init__(self, inverse_propensity=None, ks=KS, recall_at=RECALL_AT):
        self.inverse_propensity = inverse_propensity
        self.ks = tuple(ks)
        self.recall_k = recall_at
        self.num_queries = 0
        names = ("P", "RP", "nDCG") + ("PSP",) * (inverse_propensity is not None)
        self._sums = {f"{name}@{k}": 0.0 for name in names for k in self.ks}
        self._sums[f"R@{recall_at}"] = 0.0
        self._best = dict.fromkeys(self.ks, 0.0)  # of PSP

    def add(self, ids, splits, labels):
        """Add a block: predictions [Q, width] and the CSR arrays of its true labels."""
        found, num_true = hits(ids, splits, labels), np.diff(splits)
        self.num_queries += len(ids)
        self._sums[f"R@{self.recall_k}"] += recall_at(found, num_true, self.recall_k).sum()
        for k in self.ks:
            self._sums[f"P@{k}"] += precision_at(found, k).sum()
            self._sums[f"RP@{k}"] += r_precision_at(found, num_true, k).sum()
            self._sums[f"nDCG@{k}"] += ndcg_at(found, num_true, k).sum()
            if self.inverse_propensity is not None:
                gained, best = psp_at(found, ids, splits, labels, self.inverse_propensity, k)
                self._sums[f"PSP@{k}"] += gained.sum()
                self._best[k] += best.sum()

    def result(self):
        """Every metric by its name, as a percentage: {"P@1": 26.7, ...}."""
        totals = {f"PSP@{k}": best for k, best in self._best.items()}
        return {
            name: float(100 * value / (totals.get(name, self.num_queries) or 1))
            for name, value in self._sums.items()
        }


def evaluate(ids, splits, labels, inverse_propensity=None, ks=KS, recall_at=RECALL_AT):
    """All metrics of one test set as percentages: {"P@1": ..., "PSP@10": ..., "R@100": ...}."""
    sums = MetricSums(inverse_propensity, ks, recall_at)
    sums.add(ids, splits, labels)
    return sums.result()


# The test queries of a run. A dataset may come with a filter: labels that do not count for a
# query, neither as predictions nor as true labels (filter_labels_test.txt).


def true_labels(run):
    """The true labels of all test queries, without filtered ones: splits [Q + 1], labels."""
    paths = [run.paths.rows("test", shard) for shard in range(run.summary["test"]["shards"])]
    pieces = [read_arrays(path, "preprocess.py") for path in paths]
    counts = np.concatenate([np.diff(piece["label_splits"]) for piece in pieces])
    labels = np.concatenate([piece["labels"] for piece in pieces])
    return without_pairs(row_splits(counts), labels, *filtered_labels(run))


def filtered_labels(run):
    """The filter of the test queries: splits [Q + 1], labels. Most runs have none."""
    if not run.paths.test_filter.exists():
        return np.zeros(run.summary["test"]["rows"] + 1, np.int64), np.zeros(0, np.int32)
    stored = read_arrays(run.paths.test_filter, "preprocess.py")
    return stored["splits"], stored["labels"]


def run_propensities(run, num_labels):
    """1 / p_l of a run's labels, those added since training included: float [N]."""
    counts = np.load(run.paths.label_counts, allow_pickle=False)
    counts = np.pad(counts, (0, num_labels - len(counts)))
    return inverse_propensity(counts, run.summary["train"]["rows"], *run.dataset["propensity"])


def filter_pairs(ids, scores, splits, filtered):
    """Remove each query's filtered labels from its ranking, before any cut at k.

    What follows a removed label moves up; the row's end is padded with -1 and -inf. Returns ids
    and scores, both [Q, width].
    """
    removed = hits(ids, splits, filtered)
    order = np.argsort(removed, axis=1, kind="stable")
    ids = np.where(removed, PADDING, ids).astype(ids.dtype)
    scores = np.where(removed, -np.inf, scores).astype(scores.dtype)
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(scores, order, axis=1)


def without_pairs(splits, labels, filter_splits, filtered):
    """The truth without each query's filtered labels, all in CSR form: splits [Q + 1], labels."""
    keys = (row_numbers(splits) << 32) + labels
    kept = ~np.isin(keys, (row_numbers(filter_splits) << 32) + filtered)
    counts = np.bincount(keys[kept] >> 32, minlength=len(splits) - 1)
    return row_splits(counts), labels[kept]
