"""TFRecords in and out, against TensorFlow's own ways.

    python benchmarks/bench_records.py

Rows are like those of §5.1's books: about 9 tokens and 4 buckets each, batches of 1000.
Everything but the row of two processes runs on one core.
"""

import argparse
import multiprocessing
import os
import tempfile
from pathlib import Path

import numpy as np
from common import faster, machine, median_time, print_rows, write_results

from solar_tf.run import records
from solar_tf.runtime.ragged import row_splits

BATCH = 1000
KINDS = {records.IDS: "int64", records.VALUES: "float32", records.BUCKETS: "int64"}


def random_columns(num_rows, seed=0):
    generator = np.random.default_rng(seed)

    def splits(mean):
        return row_splits(generator.poisson(mean, num_rows))

    tokens, targets = splits(9), splits(4)
    return {
        records.IDS: (tokens, generator.integers(100_000, size=tokens[-1], dtype=np.int32)),
        records.VALUES: (tokens, generator.random(tokens[-1], np.float32)),
        records.BUCKETS: (targets, generator.integers(30_000, size=targets[-1], dtype=np.int32)),
    }


def write_loop(path, columns, num_rows):
    """The usual loop: one tf.train.Example and one call of the writer for every row."""
    import tensorflow as tf

    (splits, ids), (_, values), (target_splits, buckets) = (columns[name] for name in KINDS)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in range(num_rows):
            tokens = slice(splits[row], splits[row + 1])
            targets = slice(target_splits[row], target_splits[row + 1])
            feature = {
                records.IDS: tf.train.Feature(
                    int64_list=tf.train.Int64List(value=ids[tokens].tolist())
                ),
                records.VALUES: tf.train.Feature(
                    float_list=tf.train.FloatList(value=values[tokens].tolist())
                ),
                records.BUCKETS: tf.train.Feature(
                    int64_list=tf.train.Int64List(value=buckets[targets].tolist())
                ),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def read_singly(path, num_rows, shuffle=False):
    """The usual pipeline: parse every row by itself, then batch."""
    import tensorflow as tf

    features = {name: tf.io.RaggedFeature(tf.dtypes.as_dtype(kind)) for name, kind in KINDS.items()}
    rows = tf.data.TFRecordDataset(str(path)).take(num_rows)
    if shuffle:
        rows = rows.shuffle(100_000, seed=0)
    rows = rows.map(lambda row: tf.io.parse_single_example(row, features))
    return sum(1 for _ in rows.ragged_batch(BATCH).prefetch(2))


def read_ours(path, **options):
    from solar_tf.training.batches import read_batches

    return sum(1 for _ in read_batches([path], BATCH, **options))


def write_shard(path, num_rows, seed, core):
    """Rows per second of writing one shard, in a process of its own on one core."""
    os.sched_setaffinity(0, {core})
    columns = random_columns(num_rows, seed)
    return num_rows / median_time(lambda: records.write_records(path, columns))


def measure_scaling(folder, num_rows, rounds=5):
    """Rows per second of one process, and of two side by side.

    Rounds alternate and their medians count: other work on the machine blurs this pair most.
    """
    cores = sorted(os.sched_getaffinity(0))[:2]
    jobs = [(folder / f"{core}.tfrecord", num_rows, core, core) for core in cores]
    with multiprocessing.get_context("spawn").Pool(len(jobs)) as pool:
        speeds = [
            (pool.apply(write_shard, jobs[0]), sum(pool.starmap(write_shard, jobs, chunksize=1)))
            for _ in range(rounds)
        ]
    return np.median(speeds, axis=0)


def measure(folder, num_rows):
    on = machine()
    alone, together = measure_scaling(folder, num_rows)

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before TensorFlow starts threads
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    columns = random_columns(num_rows)
    ours, theirs, few = folder / "ours.tfrecord", folder / "theirs.tfrecord", num_rows // 10

    def rate(count, fn, *arguments, **options):
        return count / median_time(lambda: fn(*arguments, **options), repeats=3)

    write = rate(num_rows, records.write_records, ours, columns)
    rows = [
        faster(
            "writing TFRecords, one core", "a loop of tf.train.Example",
            write, rate(few, write_loop, theirs, columns, few), "rows/s", least=5,
        ),
        faster(
            "writing TFRecords, two processes", "one process", together, alone, "rows/s",
        ),
        faster(
            "reading TFRecords into batches, one core", "parse_single_example then batch",
            rate(num_rows, read_ours, ours), rate(few, read_singly, ours, few), "rows/s", least=10,
        ),
        faster(
            "the same, shuffled", "shuffle, parse_single_example, batch",
            rate(num_rows, read_ours, ours, seed=0),
            rate(few, read_singly, ours, few, True), "rows/s",
        ),
    ]  # fmt: skip
    return rows, on


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows to write and to read")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows, on = measure(Path(folder), options.rows)
    print_rows(rows)
    write_results("records", rows, on)


if __name__ == "__main__":
    main()
