"""Top-m, lookup and rank (§3.3) against TensorFlow, sparse_dot_topn, scipy and numpy.

    pip install sparse_dot_topn
    python benchmarks/bench_retrieval.py

K = 16, B = 30000, the 100 best labels; one thread unless a row says otherwise. A row's
contenders take turns, so that other work on the machine hits all of them. A ratio over 1
means that solar_tf is faster. `trained` probabilities look like a trained model's: a dozen
labels that most chunks agree on, hundreds of weakly related ones, and a long tail; `random`
ones are uniform. Growth rows compare with solar_tf itself at the first N: a ratio of 1
is time in proportion to N. About five minutes and 6 GB at the default sizes.
"""

import argparse
import importlib.metadata
import operator
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from common import faster, machine, median_time, write_results
from scipy.sparse import csr_matrix
from sparse_dot_topn import sp_matmul_topn

from solar_tf.retrieval.ranking import SCORES, rank, rank_full, score_weights, top_buckets
from solar_tf.run.index import build_index

K, B, BEST = 16, 30_000, 100


def indexes(num_labels):
    """label_buckets [K, N], offsets [K, B+1], labels [K, N], as if hashed."""
    generator = np.random.default_rng(0)
    label_buckets = generator.integers(B, size=(K, num_labels), dtype=np.uint16)
    offsets, labels = zip(*(build_index(row, B) for row in label_buckets), strict=True)
    return label_buckets, np.stack(offsets), np.stack(labels)


def trained(label_buckets, num_queries):
    """Probabilities [Q, K, B]: true and related labels raise their bucket in every chunk."""
    generator = np.random.default_rng(1)
    logits = generator.standard_normal((num_queries, K, B), np.float32) * 1.3 - 9.5
    for query in logits:
        for count, center, spread in ((200, -5.0, 1.3), (generator.integers(3, 15), 1.5, 2.0)):
            chosen = generator.integers(label_buckets.shape[1], size=count)
            level = generator.normal(center, spread, count)
            for chunk, buckets in zip(query, label_buckets[:, chosen], strict=True):
                noisy = level + generator.standard_normal(count)
                np.maximum.at(chunk, buckets, noisy.astype(np.float32))
    return 1 / (1 + np.exp(-logits))


def uniform(label_buckets, num_queries):
    return np.random.default_rng(1).random((num_queries, K, B), np.float32)


def shortlist(probabilities, m):
    buckets, values = top_buckets(probabilities.reshape(-1, B), m)
    return buckets.reshape(-1, K, m), values.reshape(-1, K, m)


def label_matrix(offsets, labels):
    """The labels' sparse vectors, transposed, [K * B, N]: the stacked indexes themselves."""
    num_labels = labels.shape[1]
    begins = (offsets[:, :-1] + num_labels * np.arange(K)[:, None]).ravel()
    indptr = np.append(begins, labels.size).astype(np.int32)
    ones = np.ones(labels.size, np.float32)
    return csr_matrix((ones, labels.ravel(), indptr), shape=(K * B, num_labels))


def query_matrix(buckets, weights):
    """The sparsified queries, [Q, K * B]."""
    num_queries, _, m = buckets.shape
    columns = (buckets + B * np.arange(K, dtype=np.int32)[:, None]).ravel()
    indptr = np.arange(num_queries + 1, dtype=np.int32) * (K * m)
    return csr_matrix((weights.ravel(), columns, indptr), shape=(num_queries, K * B))


def take_turns(functions, repeats):
    """Median seconds of each of the functions, after a round that warms up."""
    seconds = [[] for _ in functions]
    for turn in range(repeats + 1):
        for function, times in zip(functions, seconds, strict=True):
            start = time.perf_counter()
            function()
            if turn:
                times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in seconds]


class Table:
    def __init__(self, num_queries, repeats):
        self.rows, self.num_queries, self.repeats = [], num_queries, repeats

    def compare(self, what, ours, others, num_queries=None, least=None):
        """Measure, and add a row for each contender; returns milliseconds a query, ours first."""
        seconds = take_turns([ours, *others.values()], self.repeats)
        times = [1e3 * second / (num_queries or self.num_queries) for second in seconds]
        for name, theirs in zip(others, times[1:], strict=True):
            self.add(what, name, times[0], theirs, least)
        return times

    def add(self, what, against, ours, theirs, least=None):
        self.rows.append(faster(what, against, ours, theirs, "ms/query", least))
        print(f"{what:48} {ours:9.3f} ms {theirs / ours:7.2f}x  {against}", flush=True)


def tensorflow_top_k(probabilities, m, threads):
    import tensorflow as tf  # loaded after its environment and threads are settled

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rows = tf.constant(probabilities.reshape(-1, B))
    return lambda: tf.math.top_k(rows, m)[0].numpy()


def on_two_threads(probabilities, m):
    """Milliseconds a query of tf.math.top_k, in a process of its own: its threads are fixed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "probabilities.npy")
        np.save(path, probabilities)
        command = [sys.executable, __file__, "--top_k", str(path), str(m)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(output.split()[-1])


def measure(table, sizes, num_queries):
    """The paper's sizes of m at the first N; TensorFlow's part does not depend on N."""
    first = {}  # (kind, score) -> the ranking to grow from
    for num_labels in sizes:
        label_buckets, offsets, labels = indexes(num_labels)
        matrix = label_matrix(offsets, labels) if num_labels <= 3_000_000 else None
        for kind, make in (("trained", trained), ("random", uniform)):
            probabilities = make(label_buckets, num_queries)
            size = f"N={num_labels / 1e6:g}M"
            for m in (100, 50, 25) if num_labels == sizes[0] and kind == "trained" else (100,):
                at = f"{size} m={m} {kind}"
                top = measure_top(table, at, probabilities, m) if num_labels == sizes[0] else None
                rankings = measure_rank(table, at, probabilities, m, offsets, labels, matrix, top)
                for score, ranking in rankings.items():
                    smaller = first.setdefault((kind, score), ranking)
                    if num_labels != sizes[0]:
                        grown, base = take_turns([ranking, smaller], table.repeats)
                        factor = 1e3 / num_queries
                        expected = factor * base * num_labels / sizes[0]
                        what = f"growth, {at} {score}"
                        table.add(
                            what, f"in proportion to N={sizes[0]:,}", factor * grown, expected
                        )
            if num_labels == sizes[0]:
                index = label_buckets, offsets, labels
                measure_full(table, f"SOLAR-full, {size} {kind}", probabilities[:4], *index)


def measure_top(table, at, probabilities, m):
    """Milliseconds a query of ours and of TensorFlow's on one thread."""
    what = f"top m, {at}"
    others = {
        "tf.math.top_k": tensorflow_top_k(probabilities, m, 1),
        "numpy argpartition": lambda: np.argpartition(probabilities, B - m, axis=2),
    }
    ours, theirs, _ = table.compare(what, lambda: shortlist(probabilities, m), others)
    table.add(what, "tf.math.top_k, 2 threads", ours, on_two_threads(probabilities, m))
    return ours, theirs


def measure_rank(table, at, probabilities, m, offsets, labels, matrix, top):
    """Our ranking for each score, ready to be called."""
    buckets, values = shortlist(probabilities, m)
    rankings = {}
    for score in SCORES:
        weights = score_weights(values, score)
        others = {}
        if matrix is not None:
            queries = query_matrix(buckets, weights)
            others["sparse_dot_topn"] = partial(sp_matmul_topn, queries, matrix, BEST, sort=True)
            others["scipy CSR product, unranked"] = partial(operator.matmul, queries, matrix)
        rankings[score] = partial(rank, buckets, weights, offsets, labels, BEST)
        ours, *theirs = table.compare(f"rank, {at} {score}", rankings[score], others)
        if top is not None:
            together, apart = top[0] + ours, top[1] + theirs[0]
            both = "tf.math.top_k + sparse_dot_topn"
            table.add(f"top m + rank, {at} {score}", both, together, apart, least=5)
    return rankings


def measure_full(table, what, weights, label_buckets, offsets, labels):
    def with_numpy(weights):
        for query in weights:
            scores = np.zeros(label_buckets.shape[1], np.float32)
            for weight, buckets in zip(query, label_buckets, strict=True):
                scores += weight[buckets]
            best = np.argpartition(scores, -BEST)[-BEST:]
            best[np.argsort(-scores[best])]

    lone = weights[:1]
    four, one = (partial(rank_full, part, label_buckets, BEST) for part in (weights, lone))
    numpy = "numpy gather + argpartition"
    table.compare(what, four, {numpy: partial(with_numpy, weights)}, len(weights), least=4)
    table.compare(f"{what}, lone query", one, {numpy: partial(with_numpy, lone)}, 1)

    def through_all_buckets():
        rank(*shortlist(lone, B), offsets, labels, BEST)

    table.compare(f"{what}, by m=B", through_all_buckets, {"rank_full, lone query": one}, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=float, nargs="+", default=[1.67e6, 3e6, 1e7], help="numbers of labels"
    )
    parser.add_argument("--queries", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--top_k", nargs=2, help=argparse.SUPPRESS)  # for on_two_threads
    options = parser.parse_args()
    if options.top_k:
        probabilities, m = np.load(options.top_k[0]), int(options.top_k[1])
        seconds = median_time(tensorflow_top_k(probabilities, m, 2), options.repeats)
        print(1e3 * seconds / len(probabilities))
        return
    on = machine()
    on["versions"]["sparse_dot_topn"] = importlib.metadata.version("sparse_dot_topn")
    table = Table(options.queries, options.repeats)
    measure(table, [int(size) for size in options.sizes], options.queries)
    write_results("retrieval", table.rows, on)


if __name__ == "__main__":
    main()
