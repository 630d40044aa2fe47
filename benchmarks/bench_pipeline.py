"""The stages as wholes: what the work around the arithmetic costs.

    python benchmarks/bench_pipeline.py --books FOLDER     train.txt.xz, test.txt.xz, labels.txt.xz
    python benchmarks/bench_pipeline.py --books FOLDER --run RUN    infer.py also on a trained run
    python benchmarks/bench_pipeline.py                    the embedded default only

- A training epoch from TFRecords, against the same steps on batches already in memory.
- infer.py as a program, against its forward passes alone, with and without the start of both.
- One query at a time: p50 and p99 of its latency.
- The cost model against the real run: times, memory and disk.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as the stage programs

import numpy as np
from common import cost, figure, machine, print_rows, write_results

from solar_tf.config import load_preset
from solar_tf.datasets.dataset import open_files, open_named
from solar_tf.preprocessing.stage import preprocess
from solar_tf.retrieval.searcher import Searcher
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_json
from solar_tf.runtime.memory import kernel_count, process_tree

if __name__ != "__mp_main__":  # worker processes of stage 1 import this file, but not TensorFlow
    from solar_tf.operations.estimate import estimate
    from solar_tf.retrieval.encoder import TensorFlowEncoder
    from solar_tf.retrieval.forward import query_batches
    from solar_tf.training.batches import read_batches
    from solar_tf.training.model import ChunkModel

WORKERS = 2
# Trained as far as two epochs go: a network that has learned nothing but frequencies has other
# top buckets, which hold a third more labels.
BOOKS = load_preset(
    "books200k",
    num_chunks=4,
    num_buckets=8000,
    hidden_dim=512,
    batch_size=256,
    epochs=2,
    input_start="gradient",
)


def bench_epoch(name, run, *, rounds=9, max_steps=120):
    """Rounds of steps from memory and from records alternate on the same model.

    Many and short: on a shared machine the ratios of single rounds lie between 0.8 and 1.2.
    """
    files = [run.paths.records("train", 0, s) for s in range(run.summary["train"]["shards"])]
    model = ChunkModel(run.config, run.input_dim, 0)
    model.compile_adam(run.config.learning_rate)
    steps = min(max_steps, run.summary["train"]["rows"] // run.config.batch_size)

    def spend(batches):
        started = time.perf_counter()
        model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)
        return time.perf_counter() - started

    def read(epoch):
        return read_batches(files, run.config.batch_size, seed=1, epoch=epoch)

    kept = read(0).take(steps).cache()
    spend(kept)
    ratios = []
    for epoch in range(rounds):
        memory = spend(kept)
        ratios.append(spend(read(epoch)) / memory)
    ratio = statistics.median(ratios)
    step = memory / steps * 1e3
    return cost(
        f"training epoch from TFRecords, {name}",
        "the same steps on batches in memory",
        ratio * step, step, "ms a step", most=1.1,
    )  # fmt: skip


ONE_ROW = {"full": False, "top_buckets": (100,), "scores": ("evidence",)}


def bench_inference(name, run, rounds=3, **options):
    """infer.py as a program, over a program that does nothing but its forward passes.

    Yields a row from start to end of both, and one from when Python and TensorFlow are loaded
    over passes of batches that are in memory already. The weights have been verified before, as
    after any first use of them.
    """
    chunks = len(run.trained_chunks())
    subset = None if chunks == run.config.num_chunks else chunks
    flags = [f"--{'' if options['full'] else 'no'}full", f"--num_chunks={chunks}"]
    flags += [f"--top_buckets={','.join(map(str, options.get('top_buckets', (100, 50, 25))))}"]
    flags += [f"--score={score}" for score in options.get("scores", ("probability", "evidence"))]
    program = Path(__file__).parent.parent / "infer" / "infer.py"
    infer = [program, f"--run={run.paths.root}", *flags]
    devices = "from solar_tf.runtime.devices import load_tensorflow"
    load = [
        "-c",
        f"{devices}; load_tensorflow(); import solar_tf.retrieval.evaluation",
    ]
    alone = [Path(__file__).with_name("forward_alone.py"), f"--run={run.paths.root}"]
    queries = run.summary["test"]["rows"]
    os.sync()  # what training left to the kernel to write would be waited for by infer.py
    spent = {"infer": [], "load": [], "forward": [_program_seconds(alone)], "passes": []}
    for _ in range(rounds):
        shutil.rmtree(run.paths.topm_folder, ignore_errors=True)
        run.paths.metrics(subset).unlink(missing_ok=True)
        spent["load"].append(_program_seconds(load))
        spent["infer"].append(_program_seconds(infer))
        spent["forward"].append(_program_seconds(alone))
        spent["passes"].append(_forward_seconds(run, run.choose_chunks(chunks), queries))
    rows = read_json(run.paths.metrics(subset))["rows"]
    ms = {part: 1e3 / queries * statistics.median(times) for part, times in spent.items()}
    config = run.config
    what = f"{name}, K={chunks}, B={config.num_buckets}, {len(rows)} rows of results"
    what += " with full" * options["full"]
    most = None if options["full"] else 1.3
    yield cost(
        f"infer.py, {what}", "a program with its forward passes alone",
        ms["infer"], ms["forward"], "ms a query", most,
    )  # fmt: skip
    yield cost(
        f"infer.py after loading TensorFlow, {what}", "its forward passes of batches in memory",
        ms["infer"] - ms["load"], ms["passes"], "ms a query",
    )  # fmt: skip


def _program_seconds(arguments):
    return _run_program(arguments)[0]


def _run_program(arguments, look=None):
    """Seconds of a program, and the most bytes in memory of one of its processes.

    These are looked at every `look` seconds, if at all: what the kernel hands to the parent of
    a process in the end counts what the parent itself had when it started it.
    """
    started, peak = time.perf_counter(), 0
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    while look and process.poll() is None:
        peak = max(peak, *(kernel_count(p, "status", "VmHWM") for p in process_tree(process.pid)))
        time.sleep(look)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return time.perf_counter() - started, peak


def _forward_seconds(run, chunks, queries):
    """All chunks' forward passes of batches in memory, on all cores, with nothing beside."""
    encoder, spent = TensorFlowEncoder(run), 0.0
    for chunk in chunks:
        scores = encoder.load(run.paths.chunk(chunk))
        batches = list(query_batches(run, chunk, 0, queries))
        scores(batches[0])
        started = time.perf_counter()
        for inputs in batches:
            scores(inputs)
        spent += time.perf_counter() - started
    return spent


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
    """The cost model's times, memory and disk, against the real ones."""
    found = estimate(dataset, run.config, WORKERS)
    chunks = [read_json(run.paths.chunk(c) / "state.json") for c in run.trained_chunks()]
    rounds = -(-len(chunks) // found.trainers)
    seconds, ms, mb = "s", "ms a query", "MB"
    for what, guess, real, unit in (
        ("preprocessing", found.preprocess_seconds, spent["preprocess"], seconds),
        (
            "a chunk's training",
            found.chunk_seconds,
            statistics.mean(c["seconds"] for c in chunks),
            seconds,
        ),
        ("train.py, all chunks", found.chunk_seconds * rounds, spent["train"], seconds),
        ("a trainer's memory", found.train_memory / 1e6, spent["train_memory"] / 1e6, mb),
        ("records on disk", found.records_bytes / 1e6, _megabytes(run, "records", "rows"), mb),
        ("indexes on disk", found.index_bytes / 1e6, _megabytes(run, "index"), mb),
        ("weights on disk", found.weights_bytes / 1e6, _megabytes(run, "chunks"), mb),
        ("forward", found.ms_forward, spent["row"]["ms_forward"], ms),
        ("top-m, m=100", found.ms_top_m, spent["row"]["ms_top_m"], ms),
        ("lookup + rank, m=100", found.ms_rank, spent["row"]["ms_rank"], ms),
    ):
        row = cost(f"estimate of {what}, {name}", "the real run", guess, real, unit)
        yield row | {"target": "within 25%", "met": 0.75 <= row["ratio"] <= 1.25}


def _megabytes(run, *folders):
    files = (f for folder in folders for f in (run.paths.root / folder).rglob("*") if f.is_file())
    return sum(file.stat().st_size for file in files) / 1e6


def bench_dataset(name, dataset, config, folder):
    started = time.perf_counter()
    run = preprocess(folder, dataset, config, WORKERS)
    spent = {"preprocess": time.perf_counter() - started}
    yield bench_epoch(name, run)
    train = Path(__file__).parent.parent / "train" / "train.py"
    command = [train, "--gpu=0", f"--run={folder}"]
    spent["train"], spent["train_memory"] = _run_program(command, look=0.5)
    yield from bench_inference(name, run, **ONE_ROW)
    (spent["row"],) = read_json(run.paths.metrics())["rows"]
    yield from bench_inference(name, run, rounds=1, full=True)
    texts = dataset.test.parse(next(dataset.test.blocks(1000))).texts
    yield from bench_latency(name, run, texts)
    yield from bench_estimate(name, dataset, run, spent)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--books", type=Path, help="folder with the files of a titles dataset")
    parser.add_argument("--run", type=Path, help="a run of it with trained chunks")
    parser.add_argument(
        "--planted", help="rows and labels of planted data, such as 1600000,1670000"
    )
    args = parser.parse_args()
    on, rows = machine(), []
    jobs = [("debian", open_named("debian"), load_preset("debian"))]
    if args.books:
        files = [args.books / f"{part}.txt.xz" for part in ("train", "test", "labels")]
        jobs.insert(0, ("books", open_files(*files), BOOKS))
    for name, dataset, config in jobs:
        with tempfile.TemporaryDirectory() as folder:
            rows += bench_dataset(name, dataset, config, folder)
    if args.run:
        rows += bench_inference(args.run.name, open_run(args.run), **ONE_ROW)
    print_rows(rows)
    write_results("pipeline", rows, on)


if __name__ == "__main__":
    main()
