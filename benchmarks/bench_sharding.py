"""One index split over P workers by label range: time, memory, and a projection to 100M labels.

    python benchmarks/bench_sharding.py

K = 16, B = 30000, m = 100, the 100 best labels, evidence; one thread. Every merged ranking is
compared with that of the whole index, bit for bit. The model is time = a + b * labels of a
shard, fitted to all shards of at most half of the largest N and checked against the largest.
About ten minutes and 4 GB at the default sizes.
"""

import argparse
import operator
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from bench_retrieval import BEST, K, indexes, shortlist, take_turns, trained
from common import cost, faster, figure, machine, print_rows, write_results

from solar_tf.retrieval.label_table import LabelTable, label_ranges, shard_index
from solar_tf.retrieval.ranking import merge_shards, rank, score_weights
from solar_tf.run.index import InvertedIndex

M = 100
SHARDS = (2, 4, 8)
PROJECTED = 100_000_000
TARGETS = (50.0, 20.0, 10.0)  # ms/query of ranking


def split(offsets, labels, ranges):
    """The LabelTable of every range of labels."""
    indexes = [InvertedIndex(*chunk) for chunk in zip(offsets, labels, strict=True)]
    return [LabelTable.stack((shard_index(i, *r) for i in indexes), K) for r in ranges]


def on_two_threads(tasks):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(operator.call, tasks))


def measure(num_labels, num_queries, repeats, rows, points):
    """Add the rows of one N; `points` collects (labels of a shard, ms/query)."""
    label_buckets, offsets, labels = indexes(num_labels)
    buckets, values = shortlist(trained(label_buckets, num_queries), M)
    del label_buckets
    weights = score_weights(values, "evidence")
    whole = partial(rank, buckets, weights, offsets, labels, BEST)
    expected = whole()
    at = f"N={num_labels / 1e6:g}M"
    for num_shards in SHARDS:
        ranges = label_ranges(num_labels, num_shards)
        shards = split(offsets, labels, ranges)
        tasks = [partial(shard.rank, buckets, weights, BEST) for shard in shards]
        results = [task() for task in tasks]
        merging = partial(merge_shards, results, ranges)
        for found, array in zip(merging(), expected, strict=True):
            np.testing.assert_array_equal(found, array)

        seconds = take_turns([whole, *tasks, merging, partial(on_two_threads, tasks)], repeats)
        ms = [1e3 * second / num_queries for second in seconds]
        one, each, merging, threads = ms[0], ms[1:-2], ms[-2], ms[-1]
        points += [(high - low, t) for (low, high), t in zip(ranges, each, strict=True)]
        name = f"{at}, {num_shards} shards"
        slowest = max(each) + merging
        rows += [
            faster(f"{name}: slowest + merge", "whole index", slowest, one, "ms/query"),
            cost(f"{name}: all, one after another", "whole index", sum(each), one, "ms/query"),
            faster(f"{name}: all, on two threads", "whole index", threads, one, "ms/query"),
            figure(f"{name}: merge", merging, "ms/query"),
            figure(f"{name}: index of a shard", shards[0].labels.nbytes / 1e6, "MB"),
        ]
        print_rows(rows[-5:])
    points.append((num_labels, one))


def fit(points):
    """a and b of ms/query = a + b * labels, by least squares of relative errors."""
    sizes, times = np.array(points, float).T
    system = np.stack([np.ones_like(sizes), sizes], axis=1) / times[:, None]
    return np.linalg.lstsq(system, np.ones_like(times), rcond=None)[0]


def project(points, rows):
    """Check the model at the largest N, then go on to 100M labels."""
    largest = max(size for size, _ in points)
    small = [point for point in points if point[0] <= largest / 2]
    a, b = fit(small)
    measured = statistics.median(t for size, t in points if size == largest)
    name = f"model of shards up to {largest / 2e6:g}M, at {largest / 1e6:g}M"
    rows.append(cost(name, "measured", a + b * largest, measured, "ms/query"))
    a, b = fit(points)
    rows.append(figure("model: a, for each shard", a, "ms/query"))
    rows.append(figure("model: b, for each million labels", 1e6 * b, "ms/query"))
    index_gb = 4 * K * PROJECTED / 1e9
    at = f"projected, N={PROJECTED / 1e6:g}M"
    for num_shards in (1, 2, 4, 8, 16, 32):
        each = a + b * PROJECTED / num_shards
        rows.append(
            figure(f"{at}, {num_shards} shards of {index_gb / num_shards:.2g} GB", each, "ms/query")
        )
    for target in TARGETS:
        needed = np.ceil(b * PROJECTED / (target - a)) if target > a else np.inf
        rows.append(figure(f"{at}: cores for {target:g} ms a query", needed, "shards"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6, 2e6, 5e6, 1e7])
    parser.add_argument("--queries", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    on, rows, points = machine(), [], []
    for size in options.sizes:
        started = time.perf_counter()
        measure(int(size), options.queries, options.repeats, rows, points)
        print(f"N={size:g}: {time.perf_counter() - started:.0f} s", flush=True)
    project(points, rows)
    print_rows(rows)
    write_results("sharding", rows, on)


if __name__ == "__main__":
    main()
