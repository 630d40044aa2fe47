"""What a file holds, in one streaming pass: rows, labels and features a row, label frequencies."""

import functools
from dataclasses import dataclass, field

import numpy as np

from solar_tf.datasets.source import add_counts, count_ids, map_blocks
from solar_tf.datasets.vocabulary import count_tokens, count_words

COUNTERS = ("num_unlabelled", "num_featureless", "num_duplicate_labels")


def _empty():
    return np.zeros(0, np.int64)


@dataclass
class Statistics:
    """Sums over the rows of a source. Histograms are arrays: place i counts the rows with i."""

    num_rows: int = 0
    num_unlabelled: int = 0
    num_featureless: int = 0
    num_duplicate_labels: int = 0
    labels_per_row: np.ndarray = field(default_factory=_empty)  # histogram
    features_per_row: np.ndarray = field(default_factory=_empty)  # histogram
    label_counts: np.ndarray = field(default_factory=_empty)  # rows of each label, [largest + 1]
    feature_counts: np.ndarray = field(default_factory=_empty)  # of sparse rows, the same
    words: set = field(default_factory=set)  # of texts

    def add(self, other):
        """Add the rows of another Statistics to this one."""
        for name, mine in vars(self).items():
            theirs = getattr(other, name)
            if name == "words":
                mine |= theirs
            else:
                setattr(self, name, add_counts(mine, theirs) if np.ndim(mine) else mine + theirs)

    @property
    def num_labels_used(self):
        return int(np.count_nonzero(self.label_counts))

    @property
    def num_features_used(self):
        return len(self.words) or int(np.count_nonzero(self.feature_counts))


def collect(source, workers=1):
    """The Statistics of all rows of a Source."""
    total = Statistics()
    for part in map_blocks(functools.partial(_block, source), source, workers):
        total.add(part)
    return total


def _block(source, block):
    rows = source.parse(block)
    facts = {name: getattr(rows, name) for name in COUNTERS}
    if rows.texts is not None:
        lengths, facts["words"] = count_words(rows.texts), set(count_tokens(rows.texts))
    elif rows.dense is not None:
        lengths = np.full(len(rows), rows.dense.shape[1])
    else:
        lengths = np.diff(rows.feature_splits)
        facts["feature_counts"] = count_ids(source.path, rows.features, "features")
    return len(rows), Statistics(
        num_rows=len(rows),
        labels_per_row=np.bincount(np.diff(rows.label_splits)),
        features_per_row=np.bincount(lengths),
        label_counts=count_ids(source.path, rows.labels, "labels"),
        **facts,
    )


def mean(histogram):
    """The mean of the numbers that a histogram counts."""
    return float(np.arange(len(histogram)) @ histogram / max(histogram.sum(), 1))


def percentile(histogram, percent):
    """The smallest number that at least `percent` percent of those counted do not exceed."""
    return int(np.searchsorted(np.cumsum(histogram), percent / 100 * histogram.sum()))


@dataclass(frozen=True)
class Frequencies:
    """How often the labels occur in training, most frequent first."""

    counts: np.ndarray  # [N], descending; labels that do not occur have 0

    @classmethod
    def of(cls, label_counts, num_labels=None):
        missing = max((num_labels or 0) - len(label_counts), 0)
        return cls(np.sort(np.pad(label_counts, (0, missing)))[::-1])

    @property
    def num_labels(self):
        return len(self.counts)

    @property
    def unseen(self):
        """Share of the labels that do not occur."""
        return 1 - np.count_nonzero(self.counts) / max(self.num_labels, 1)

    def head(self, share):
        """Share of all occurrences that the most frequent `share` of the labels have."""
        top = max(round(share * self.num_labels), 1)
        return float(self.counts[:top].sum() / max(self.counts.sum(), 1))

    def tail(self, most):
        """Share of the labels that occur, but at most `most` times."""
        return float(np.mean((self.counts > 0) & (self.counts <= most))) if self.num_labels else 0.0

    def covering(self, share):
        """The smallest share of the labels that has this share of all occurrences."""
        needed = np.searchsorted(np.cumsum(self.counts), share * self.counts.sum()) + 1
        return needed / max(self.num_labels, 1)
