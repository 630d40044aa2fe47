"""Planted data of the paper's size through stage 1, and through steps of a chunk of its full width.

    python benchmarks/bench_planted.py
    python benchmarks/bench_planted.py --rows 3000000 --labels 3000000 --steps 4

The paper's own preset `books`, one chunk of it: 100,000 x 4096 x 30,000, batch 1000. Needs 10 GB
of memory. Its lookup and ranking at this size and beyond is in bench_retrieval.py.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

from common import cost, figure, machine, print_rows, write_results

from solar_tf.analysis.geometry import measure
from solar_tf.config import load_preset
from solar_tf.datasets.dataset import open_files
from solar_tf.datasets.synthetic import Recipe, synthesize
from solar_tf.preprocessing.stage import preprocess

if __name__ != "__mp_main__":  # worker processes of stage 1 import this file, but not TensorFlow
    from bench_pipeline import WORKERS, bench_epoch


def bench(recipe, steps, folder):
    started = time.perf_counter()
    card = synthesize(folder / "data", recipe, "titles")
    name, rows = f"N={recipe.labels:,}, K=1", recipe.rows + recipe.test_rows
    yield figure(f"synthesize, {name}", rows / (time.perf_counter() - started), "rows/s")
    files = (folder / "data" / card["files"][role] for role in ("train", "test", "labels"))
    started = time.perf_counter()
    run = preprocess(
        folder / "run", open_files(*files), load_preset("books", num_chunks=1), WORKERS
    )
    yield figure(f"preprocess.py, {name}", rows / (time.perf_counter() - started), "rows/s")
    load = measure(run)["load"]["measured"]
    mean = recipe.labels / run.config.num_buckets
    yield cost(f"the fullest bucket, {name}", "the mean", float(load["max"]), mean, "labels")
    config = run.config
    width = f"{run.input_dim} x {config.hidden_dim} x {config.num_buckets}"
    yield bench_epoch(f"{width}, {name}", run, rounds=3, max_steps=steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield figure("its peak memory", peak, "GB")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_600_000, help="of training [1,600,000]")
    parser.add_argument("--labels", type=int, default=1_670_000, help="[1,670,000]")
    parser.add_argument("--steps", type=int, default=8, help="of training, seven times [8]")
    args = parser.parse_args()
    on = machine()
    with tempfile.TemporaryDirectory() as folder:
        recipe = Recipe(args.rows, args.rows // 100, args.labels)
        rows = list(bench(recipe, args.steps, Path(folder)))
    print_rows(rows)
    write_results("planted", rows, on)


if __name__ == "__main__":
    main()
