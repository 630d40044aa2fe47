"""XML-Repo text into arrays, against scikit-learn's svmlight loader; titles into words.

    python benchmarks/bench_parsing.py

One core, apart from the rows that say two; their ratio is to one process of ours.
"""

import argparse
import functools
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from common import faster, figure, machine, median_time, print_rows, write_results
from sklearn.datasets import load_svmlight_file

from solar_tf.datasets import open_source
from solar_tf.datasets.source import ROWS_PER_BLOCK
from solar_tf.datasets.vocabulary import Vocabulary, count_tokens
from solar_tf.runtime.workers import run_tasks

BLOCK = 5000


def write_xml_repo(path, num_rows, decimals):
    """A file of 40 features and 5 labels a row; values of 6 decimals, or all digits of a double."""
    generator = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write(f"{num_rows} 100000 50000\n")
        for _ in range(num_rows):
            labels = np.unique(generator.integers(50_000, size=5))
            features = np.unique(generator.integers(100_000, size=40))
            values = generator.random(len(features))
            pairs = (f"{f}:{v:.{decimals}f}" for f, v in zip(features, values, strict=True))
            file.write(f"{','.join(map(str, labels))} {' '.join(pairs)}\n")


def repeated(path, times):
    """A file with the rows of another several times over: the ends of work weigh less."""
    header, body = Path(path).read_bytes().split(b"\n", 1)
    num_rows, rest = header.split(b" ", 1)
    longer = Path(path).with_name("longer.txt")
    with open(longer, "wb") as file:
        file.write(b"%d %s\n" % (times * int(num_rows), rest))
        for _ in range(times):
            file.write(body)
    return str(longer)


def read_with_sklearn(path):
    options = {"multilabel": True, "zero_based": True, "n_features": 100_000, "dtype": np.float32}
    return load_svmlight_file(path, offset=1, **options)  # the offset skips the header line


def read_with_ours(path):
    source = open_source(path)
    return [source.parse(block) for block in source.blocks(BLOCK)]


def _num_rows(source, block):
    return len(source.parse(block))  # what a stage makes of it stays in the worker


def rate_in_processes(path, num_processes):
    """Rows a second as a stage's workers parse them, from when all of them are at work."""
    source, started, num_rows = open_source(path), None, 0
    job, blocks = functools.partial(_num_rows, source), source.blocks(ROWS_PER_BLOCK)
    for number, found in enumerate(run_tasks(job, blocks, num_processes)):
        ended = time.perf_counter()
        started = started or ended
        num_rows += found if number >= num_processes else 0  # not those begun before the clock
    return num_rows / (ended - started)


def _rate_of_one(path):
    return rate_in_processes(path, 1)


def rates_of_two(path, turns):
    """Rows a second of one process, of two, and of two that share nothing, which is what two
    cores are worth on a busy machine; in turns, since it is not equally busy all the time."""
    one, two, apart = [], [], []
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for _ in range(turns):
            one.append(_rate_of_one(path))
            two.append(rate_in_processes(path, 2))
            apart.append(sum(pool.map(_rate_of_one, [path] * 2, 1)))
    return map(statistics.median, (one, two, apart))


def titles_of(num_rows):
    """Titles of 9 words with a long tail, as those of books."""
    generator = np.random.default_rng(0)
    words = (generator.zipf(1.3, size=(num_rows, 9)) % 300_000).astype(str)
    return [" ".join(f"Word{word}," for word in row) for row in words]


def measure(folder, num_rows):
    on = machine()
    cores = sorted(os.sched_getaffinity(0))
    path = str(folder / "train.txt")
    write_xml_repo(path, num_rows, 6)
    one, two, apart = rates_of_two(repeated(path, 4), turns=5)
    os.sched_setaffinity(0, {cores[0]})

    def rate(fn, *arguments):
        return num_rows / median_time(lambda: fn(*arguments), 3)

    sklearn, ours = rate(read_with_sklearn, path), rate(read_with_ours, path)
    write_xml_repo(path, num_rows, 17)
    sklearn_long, ours_long = rate(read_with_sklearn, path), rate(read_with_ours, path)
    titles = titles_of(num_rows)
    vocabulary = Vocabulary.from_counts(count_tokens(titles), num_rows)
    sklearn_name = "sklearn load_svmlight_file"
    rows = [
        faster("parsing XML-Repo text, one core", sklearn_name, ours, sklearn, "rows/s", least=1),
        faster("in blocks of a stage, two processes", "one process", two, one, "rows/s"),
        faster("two readers that share nothing", "one process", apart, one, "rows/s"),
        faster("values of 17 decimals, one core", sklearn_name, ours_long, sklearn_long, "rows/s"),
        figure("titles: counting words, one core", rate(count_tokens, titles), "rows/s"),
        figure("titles: encoding, one core", rate(vocabulary.encode, titles), "rows/s"),
    ]
    return rows, on


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000, help="rows of the generated file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows, on = measure(Path(folder), options.rows)
    print_rows(rows)
    write_results("parsing", rows, on)


if __name__ == "__main__":
    main()
