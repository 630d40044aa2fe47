"""What doubling the data costs the baselines: twice as many rows and labels, twice the time.

    python benchmarks/bench_baselines.py [--rows 10000] [--names parabel,slice]

Seconds are those of all cores together, which other work on the machine disturbs least. A step
that is quadratic in rows or labels would show as a ratio of 4; SLICE's search without faiss is
O(n sqrt(N)), 2.8. Ensembles are cut to two members, of which each costs the same.
"""

import argparse
import tempfile
import time

import numpy as np
import scipy.sparse as sp
from common import cost, machine, print_rows, write_results

from solar_tf.baselines import BASELINES, baseline_class
from solar_tf.baselines.inputs import Data, Split
from solar_tf.preprocessing.features import scale_rows

FEW = {
    "parabel": {"num_trees": 2},
    "pfastrexml": {"num_trees": 2},
    "sleec": {"learners": 2, "cluster_rows": 2500, "dim": 50, "label_neighbours": 25},
    "slice": {"dim": 64, "shortlist": 100, "search": "clusters"},
    "annexml": {"learners": 2, "part_rows": 2500},
}
LABELS_PER_ROW, WORDS_PER_LABEL, NOISE = 3, 3, 4
NUM_QUERIES = 1000


def plant(num_rows, seed=0):
    """Rows with labels of one topic, their words and noise; a label for every two rows.

    Labels are drawn by Zipf's law, and the most frequent one is on a tenth of the rows.
    """
    generator = np.random.default_rng(seed)
    num_labels = num_rows // 2
    first = np.minimum(generator.zipf(1.3, num_rows) - 1, num_labels - 1)
    labels = (first[:, None] * 7 + generator.integers(6, size=(num_rows, LABELS_PER_ROW))) % (
        num_labels
    )
    labels[generator.random(num_rows) < 0.1, 0] = 0
    words = labels[:, :, None] + np.arange(WORDS_PER_LABEL) * 31
    noise = generator.zipf(1.2, (num_rows, NOISE)) % num_labels
    words = np.concatenate([words.reshape(num_rows, -1) % num_labels, noise], axis=1)

    def matrix(columns):
        splits = np.arange(num_rows + 1) * columns.shape[1]
        ones = np.ones(columns.size, np.float32)
        matrix = sp.csr_matrix((ones, columns.ravel(), splits), (num_rows, num_labels))
        matrix.sum_duplicates()
        matrix.data[:] = 1
        return matrix

    split = Split(scale_rows(matrix(words)), matrix(labels))
    test = Split(split.inputs[:NUM_QUERIES], split.labels[:NUM_QUERIES])
    return Data("planted", "sparse", num_labels, num_labels, split, test, (0.55, 1.5))


def measure(name, data):
    """Seconds of all cores for fitting, and for predicting NUM_QUERIES queries."""
    kind = baseline_class(name)
    baseline = kind(kind.Settings(**FEW.get(name, {})))
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        baseline.fit(data, folder)
        fitted = time.process_time() - started
    baseline.predict(data.test.inputs[:2], 10)
    started = time.process_time()
    baseline.predict(data.test.inputs, 10)
    return fitted, time.process_time() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--names", default=",".join(FEW))
    arguments = parser.parse_args()
    on = machine()
    rows = []
    for name in arguments.names.split(","):
        measure(name, plant(arguments.rows))  # compiles, also what only several parts need
        title = baseline_class(name).title
        before = None
        for size in (arguments.rows, 2 * arguments.rows, 4 * arguments.rows):
            after = measure(name, plant(size))
            if before:
                for what, ours, theirs in zip(
                    ("fitting", "predicting"), after, before, strict=True
                ):
                    part = f"{title}: {what}, {size:,} rows"
                    unit = "s" if what == "fitting" else "ms a query"
                    scale = 1 if what == "fitting" else 1e3 / NUM_QUERIES
                    most = 3 if what == "fitting" else None
                    row = cost(
                        part, f"{size // 2:,} rows", ours * scale, theirs * scale, unit, most
                    )
                    rows.append(row)
                    print(f"{part}: {row['ratio']:.2f}", flush=True)
            before = after
    print_rows(rows)
    write_results("baselines", rows, on)


if __name__ == "__main__":
    assert FEW.keys() <= BASELINES.keys()
    main()
