"""The stages as wholes: what the work around the arithmetic costs.

    python benchmarks/bench_pipeline.py --books FOLDER     train.txt.xz, test.txt.xz, labels.txt.xz
    python benchmarks/bench_pipeline.py --books FOLDER --run RUN    infer.py also on a trained run
    python benchmarks/bench_pipeline.py                    the embedded default only

- A training epoch from TFRecords, against the same steps on batches already in memory.
- infer.py's work from records to metrics, against its forward passes alone.
- One query at a time: p50 and p99 of its latency.
- The cost model against the real run.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from common import cost, figure, machine, print_rows, write_results

from solar_tf.batches import read_batches
from solar_tf.datasets.dataset import open_files, open_named
from solar_tf.estimate import estimate
from solar_tf.inference import infer
from solar_tf.model import ChunkModel
from solar_tf.preprocessing import preprocess
from solar_tf.presets import load_preset
from solar_tf.rundir import open_run, read_json
from solar_tf.search import Searcher
from solar_tf.training import train

WORKERS = 2
BOOKS = {
    "num_chunks": 4,
    "num_buckets": 8000,
    "feature_dim": 100_000,
    "hidden_dim": 512,
    "batch_size": 256,
    "epochs": 1,
}


def bench_epoch(name, run, max_steps=800):
    """Rounds of steps from memory and from records alternate on the same model."""
    files = [run.paths.records("train", 0, s) for s in range(run.summary["train"]["shards"])]
    model = ChunkModel(run.config, run.input_dim, 0)
    model.make_moments()
    rate = tf.constant(run.config.learning_rate)

    def spend(batches):
        started = time.perf_counter()
        for batch in batches:
            loss = model.train_batch(batch, rate)
        float(loss)
        return time.perf_counter() - started

    kept = list(read_batches(files, run.config.batch_size, seed=1).take(max_steps))
    spend(kept[:20])
    ratios = []
    for epoch in range(3):
        memory = spend(kept)
        records = spend(
            read_batches(files, run.config.batch_size, seed=1, epoch=epoch).take(max_steps)
        )
        ratios.append(records / memory)
    ratio = statistics.median(ratios)
    step = memory / len(kept) * 1e3
    return cost(
        f"training epoch from TFRecords, {name}",
        "the same steps on batches in memory",
        ratio * step, step, "ms a step", most=1.1,
    )  # fmt: skip


ONE_ROW = {"full": False, "top_buckets": (100,), "scores": ("probability",)}


def bench_inference(name, run, **options):
    """Wall time of all of stage 3 after TensorFlow is loaded, over that of its forward passes."""
    chunks = len(run.trained_chunks())
    shutil.rmtree(run.paths.topm_folder, ignore_errors=True)
    for subset in (None, chunks):
        run.paths.metrics(subset).unlink(missing_ok=True)
    started = time.perf_counter()
    rows = infer(run.paths.root, workers=WORKERS, num_chunks=chunks, **options)
    wall = time.perf_counter() - started
    queries = run.summary["test"]["rows"]
    part = f"infer.py, {name}, K={chunks}, {len(rows)} rows of results"
    part += " with full" * options["full"]
    forward = rows[0]["ms_forward"]
    most = None if options["full"] else 1.3
    return cost(part, "its forward passes", wall / queries * 1e3, forward, "ms a query", most)


def bench_latency(name, run, texts):
    """One query at a time, from text to titles, in one resident process."""
    searcher = Searcher(run, run.choose_chunks())
    for text in texts[:50]:
        searcher.search(text)
    times = []
    for text in texts:
        started = time.perf_counter()
        searcher.search(text)
        times.append(time.perf_counter() - started)
    p50, p99 = (float(np.percentile(times, q)) * 1e3 for q in (50, 99))
    part = f"one query at a time, {name}, K={run.config.num_chunks}, B={run.config.num_buckets}"
    target = {"debian": "under 5 ms"}.get(name)
    yield figure(f"{part}: p50", p50, "ms", target, target and p50 < 5)
    yield figure(f"{part}: p99", p99, "ms")


def bench_estimate(name, dataset, run, spent):
    """The cost model's time of a chunk and of preprocessing, against the real ones."""
    found = estimate(dataset, run.config, WORKERS)
    chunks = [read_json(run.paths.chunk(c) / "state.json") for c in run.trained_chunks()]
    real = {
        "a chunk's training": (found.chunk_seconds, statistics.mean(c["seconds"] for c in chunks)),
        "preprocessing": (found.preprocess_seconds, spent["preprocess"]),
        "records on disk": (found.records_bytes / 1e6, _megabytes(run, "records", "rows")),
        "forward": (found.ms_forward, spent["row"]["ms_forward"]),
        "lookup + rank, m=100": (found.ms_rank, spent["row"]["ms_rank"]),
    }
    for what, (guess, measured) in real.items():
        row = cost(f"estimate of {what}, {name}", "the real run", guess, measured, UNITS[what])
        yield row | {"target": "within 25%", "met": 0.75 <= row["ratio"] <= 1.25}


UNITS = {
    "a chunk's training": "s",
    "preprocessing": "s",
    "records on disk": "MB",
    "forward": "ms a query",
    "lookup + rank, m=100": "ms a query",
}


def _megabytes(run, *folders):
    files = (f for folder in folders for f in (run.paths.root / folder).rglob("*") if f.is_file())
    return sum(file.stat().st_size for file in files) / 1e6


def bench_dataset(name, dataset, config, folder):
    started = time.perf_counter()
    run = preprocess(folder, dataset, config, WORKERS)
    spent = {"preprocess": time.perf_counter() - started}
    yield bench_epoch(name, run)
    train(folder, trainers=None)
    for options in (ONE_ROW, {"full": True}):
        yield bench_inference(name, run, **options)
    rows = read_json(run.paths.metrics())["rows"]
    spent["row"] = next(r for r in rows if (r["setting"], r["score"]) == ("m=100", "evidence"))
    texts = dataset.test.parse(next(dataset.test.blocks(1000))).texts
    yield from bench_latency(name, run, texts)
    yield from bench_estimate(name, dataset, run, spent)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--books", type=Path, help="folder with the files of a titles dataset")
    parser.add_argument("--run", type=Path, help="a run of it with trained chunks")
    args = parser.parse_args()
    on, rows = machine(), []
    jobs = [("debian", open_named("debian"), load_preset("debian"))]
    if args.books:
        files = [args.books / f"{part}.txt.xz" for part in ("train", "test", "labels")]
        jobs.insert(0, ("books", open_files(*files), load_preset("debian", **BOOKS)))
    for name, dataset, config in jobs:
        with tempfile.TemporaryDirectory() as folder:
            rows += bench_dataset(name, dataset, config, folder)
    if args.run:
        rows.append(bench_inference(args.run.name, open_run(args.run), **ONE_ROW))
    print_rows(rows)
    write_results("pipeline", rows, on)


if __name__ == "__main__":
    main()
