"""What a run will take, before any work: memory, disk, time per chunk, ms per query.

Sizes are arithmetic. Times come from stage 1 on the first rows of the data and from a few
measured steps with the real kernels, at the real size where memory allows and at a smaller
one, scaled by the number of operations, where it does not. GPU times are computed from the
stated assumptions.
"""

import dataclasses
import functools
import itertools
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from solar_tf import hashing, retrieval
from solar_tf.batches import read_batches
from solar_tf.cli import load_tensorflow
from solar_tf.console import say, seconds, size, table
from solar_tf.datasets.source import Source
from solar_tf.index import build_index
from solar_tf.model import ChunkModel, inputs_of
from solar_tf.preprocessing import make_run
from solar_tf.weights import count_parameters, training_bytes
from solar_tf.workers import available_memory, run_tasks

QUERIES = 1000  # of a forward pass
MEASURE_SECONDS = 8.0  # for each of the measured parts
MEASURED_LABELS = 2_000_000  # an index of more labels is not built; its time is scaled
SHUFFLE_ROWS = 200_000  # at most two blocks of the shuffle are in memory

# fp32 peak and memory bandwidth of the data sheets; half of the peak, and all of the
# bandwidth, are taken to be reached.
GPUS = {"V100": (15.7e12, 0.9e12), "A100": (19.5e12, 1.55e12)}
GPU_EFFICIENCY = 0.5


@dataclass(frozen=True)
class Sample:
    """What stage 1 makes of the first rows, and what that says about all of them."""

    num_rows: int  # of the whole training split
    num_queries: int  # of the whole test split
    num_labels: int
    records_bytes: float  # of all rows in all chunks
    preprocess_seconds: float  # of all rows
    batch: dict  # arrays of one training batch

    @property
    def tokens(self):
        """Of a row, on average; dense rows have none."""
        return len(self.batch.get("ids", ())) / (len(self.batch["bucket_splits"]) - 1)


@dataclass(frozen=True)
class _Head:
    """The first blocks of a source."""

    source: Source
    num_blocks: int
    num_rows = None

    def blocks(self, rows_per_block):
        return itertools.islice(self.source.blocks(rows_per_block), self.num_blocks)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "source"), name)


@dataclass(frozen=True)
class Estimate:
    """Bytes and seconds of a run; times are of this machine."""

    parameters: int  # of one chunk
    train_memory: float
    checkpoint_bytes: float
    records_bytes: float
    index_bytes: float
    weights_bytes: float
    rank_memory: float
    preprocess_seconds: float
    step_seconds: float
    chunk_seconds: float
    trainers: int  # chunks trained at a time
    ms_forward: float
    ms_top_m: float
    ms_rank: float
    gpu_chunk_seconds: dict
    measured: str  # how the step was measured

    @property
    def disk_bytes(self):
        return self.records_bytes + self.index_bytes + self.weights_bytes + self.checkpoint_bytes


def sizes(config, input_dim, num_labels, tokens=9.0):
    """Parameters of a chunk, and bytes of its training, of all weights and of all indexes."""
    parameters = count_parameters(config, input_dim)
    index = 4 * config.num_chunks * (num_labels + config.num_buckets + 1)
    memory = training_bytes(config, input_dim, tokens)
    return parameters, memory, 4 * parameters * config.num_chunks, index


def choose_trainers(config, input_dim, num_chunks):
    """How many trainers of one chunk the CPU has cores, memory and chunks for."""
    fit = int(0.9 * available_memory() // training_bytes(config, input_dim))
    return max(1, min(os.cpu_count(), num_chunks, fit))


def estimate(dataset, config, workers):
    """The Estimate of preprocess, train and infer for this dataset and config."""
    sample = _sample(dataset, config, workers)
    dense = dataset.kind == "dense"
    input_dim = dataset.num_features if dense else config.feature_dim
    sized = sizes(config, input_dim, sample.num_labels, sample.tokens)
    parameters, memory, weights, index = sized
    row_bytes = sample.records_bytes / (sample.num_rows + sample.num_queries) / config.num_chunks
    memory += row_bytes * min(SHUFFLE_ROWS, sample.num_rows)
    trainers = choose_trainers(config, input_dim, config.num_chunks)
    step, measured = _measure_step(config, input_dim, dense, sample.batch, trainers)
    forward, top_m = _measure_queries(config, input_dim, dense, sample.batch)
    steps = -(-sample.num_rows // config.batch_size) * config.epochs
    flops = 6 * config.batch_size * config.hidden_dim * config.num_buckets
    rows = config.num_buckets + sample.tokens * config.batch_size  # that a step reads and writes
    touched = 28 * config.hidden_dim * rows
    return Estimate(
        parameters=parameters,
        train_memory=memory,
        checkpoint_bytes=12 * parameters,
        records_bytes=sample.records_bytes,
        index_bytes=index,
        weights_bytes=weights,
        rank_memory=index + 4 * sample.num_labels * (1 + workers),
        preprocess_seconds=sample.preprocess_seconds,
        step_seconds=step,
        chunk_seconds=step * steps,
        trainers=trainers,
        ms_forward=1e3 * forward * config.num_chunks,
        ms_top_m=1e3 * top_m * config.num_chunks,
        ms_rank=1e3 * _measure_rank(config, sample.num_labels),
        gpu_chunk_seconds={
            name: steps * max(flops / (GPU_EFFICIENCY * peak), touched / bandwidth)
            for name, (peak, bandwidth) in GPUS.items()
        },
        measured=measured,
    )


def _sample(dataset, config, workers):
    """Run stage 1 on a few blocks, then on three times as many; and count all rows."""
    sources = [source for source in (dataset.train, dataset.test) if source]
    totals = [source.count_rows() for source in sources]
    took, read = [], []  # seconds and rows
    with tempfile.TemporaryDirectory() as folder:
        for blocks in (workers, 3 * workers):
            heads = dict(zip(("train", "test"), (_Head(s, blocks) for s in sources), strict=False))
            part = dataclasses.replace(dataset, **heads, filter_path=None)
            began = time.perf_counter()
            run = make_run(Path(folder, str(blocks)), part, config, workers)
            took.append(time.perf_counter() - began)
            read.append(sum(run.summary[split]["rows"] for split in heads))
            if read[-1] == sum(totals):
                break
        written = sum(
            file.stat().st_size
            for parent in (run.paths.summary.parent, run.paths.rows("train", 0).parent.parent)
            for file in parent.rglob("shard_*")
        )
        paths = [run.paths.records("train", 0, 0)]
        dense = {}
        if dataset.kind == "dense":
            dense = {"dense_paths": [run.paths.inputs("train", 0)], "dense_dim": run.input_dim}
        batch = next(iter(read_batches(paths, config.batch_size, **dense)))
        num_labels = run.dataset["num_labels"]
    a_row = (took[-1] - took[0]) / (read[-1] - read[0]) if len(set(read)) > 1 else 0.0
    return Sample(
        num_rows=totals[0],
        num_queries=sum(totals[1:]),
        num_labels=num_labels,
        records_bytes=written * sum(totals) / read[-1],
        preprocess_seconds=took[-1] + max(a_row, 0.0) * (sum(totals) - read[-1]),
        batch={name: tensor.numpy() for name, tensor in batch.items()},
    )


def _measure_step(config, input_dim, dense, batch, trainers):
    """Seconds of a training step when as many trainers as will run do run, and how measured."""
    shrink = 1
    while training_bytes(
        narrow(config, shrink), input_dim
    ) > 0.8 * available_memory() and config.hidden_dim // (2 * shrink):
        shrink *= 2
    measured = f"{trainers} at a time" if trainers > 1 else "one at a time"
    if shrink > 1:
        hidden = narrow(config, shrink).hidden_dim
        measured += f", at hidden_dim {hidden}, times {shrink}: the full size does not fit"
    job = functools.partial(_time_steps, narrow(config, shrink), input_dim, dense, batch)
    start = (load_tensorflow, (1,)) if trainers > 1 else ()
    return shrink * float(
        np.mean(list(run_tasks(job, range(trainers), trainers, *start)))
    ), measured


def narrow(config, shrink):
    """The config with a hidden layer `shrink` times narrower: its steps take that much less."""
    return dataclasses.replace(config, hidden_dim=config.hidden_dim // shrink)


def _time_steps(config, input_dim, dense, batch, chunk):
    model = ChunkModel(config, input_dim, chunk, dense=dense)
    model.make_moments()
    batch = _of_size(batch, config.batch_size)
    batch = {name: tf.constant(array) for name, array in batch.items()}
    rate = tf.constant(1e-3)
    return _median_seconds(lambda: float(model.train_batch(batch, rate)))


def _measure_queries(config, input_dim, dense, batch):
    """Seconds of one query's forward pass (all cores) and top m (one core) in one chunk."""
    shrink = 1
    while 4 * count_parameters(narrow(config, shrink), input_dim) > 0.5 * available_memory():
        shrink *= 2
    model = ChunkModel(narrow(config, shrink), input_dim, 0, dense=dense)
    batch = inputs_of(_of_size(batch, QUERIES))
    inputs = {name: tf.constant(array) for name, array in batch.items()}
    m = min(100, config.num_buckets)
    times, pending = [], []

    def top_m(probabilities):
        began = time.thread_time()
        retrieval.top_buckets(probabilities, m)
        return time.thread_time() - began

    # As in stage 3 a thread takes the top m of the last batch, on a core that the next one misses.
    with ThreadPoolExecutor(1) as aside:
        started = time.perf_counter()
        while len(times) < 5 or (
            len(times) < 50 and time.perf_counter() - started < MEASURE_SECONDS
        ):
            if len(pending) > 1:
                pending[-2].result()
            began = time.perf_counter()
            probabilities = model.probabilities(inputs).numpy()
            times.append(time.perf_counter() - began)
            pending.append(aside.submit(top_m, probabilities))
    forward, top = (np.median(t) for t in (times[2:], [p.result() for p in pending[2:]]))
    return shrink * float(forward) / len(probabilities), float(top) / len(probabilities)


def _of_size(batch, size):
    """`size` rows or a few more: those of a batch, again and again if need be."""
    times = -(-size // (len(batch["bucket_splits"]) - 1))
    out = {}
    for name, array in batch.items():
        if name.endswith("splits"):
            ends = [array[1:] + i * array[-1] for i in range(times)]
            out[name] = np.concatenate([array[:1], *ends]).astype(np.int32)
        else:
            out[name] = np.concatenate([array] * times)
    return out


def _measure_rank(config, num_labels, m=100):
    """Seconds of one query's lookup and ranking on one core."""
    measured = min(num_labels, MEASURED_LABELS)
    m = min(m, config.num_buckets)
    indexes = [
        build_index(hashing.label_buckets(measured, chunk, config.num_buckets), config.num_buckets)
        for chunk in range(config.num_chunks)
    ]
    offsets = np.stack([index.offsets for index in indexes])
    labels = np.stack([index.labels for index in indexes])
    generator = np.random.default_rng(0)
    shape = 16, config.num_chunks
    buckets = np.stack(
        [
            generator.permuted(np.arange(config.num_buckets, dtype=np.int32))[:m]
            for _ in range(shape[0] * shape[1])
        ]
    ).reshape(*shape, m)
    weights = np.sort(generator.exponential(size=(*shape, m)).astype(np.float32))[..., ::-1]
    k = min(100, measured)
    spent = _median_seconds(lambda: retrieval.rank(buckets, weights, offsets, labels, k))
    return spent / shape[0] * num_labels / measured


def _median_seconds(function):
    """The median of some calls after the first, which compiles."""
    function()
    times, started = [], time.perf_counter()
    while len(times) < 3 or (len(times) < 50 and time.perf_counter() - started < MEASURE_SECONDS):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def report(root, dataset, config, workers):
    """Print the estimate, and what will not fit."""
    found = estimate(dataset, config, workers)
    total = found.chunk_seconds * -(-config.num_chunks // found.trainers)
    rows = [
        ("parameters of a chunk", f"{found.parameters:,}"),
        ("memory of a trainer", size(found.train_memory)),
        ("memory of the rankers' shared index", size(found.rank_memory)),
        ("disk: records", size(found.records_bytes)),
        ("disk: indexes", size(found.index_bytes)),
        ("disk: weights", size(found.weights_bytes)),
        ("disk: checkpoint in training", size(found.checkpoint_bytes)),
        (f"preprocess.py, {workers} processes", seconds(found.preprocess_seconds)),
        ("train.py, a step here", f"{found.step_seconds * 1e3:.1f} ms, {found.measured}"),
        ("train.py, a chunk here", seconds(found.chunk_seconds)),
        (f"train.py, all {config.num_chunks} chunks here", seconds(total)),
        *(
            (f"train.py, a chunk on a {name} (computed)", seconds(spent))
            for name, spent in found.gpu_chunk_seconds.items()
        ),
        ("infer.py, ms/query: forward", f"{found.ms_forward:.3f} (all cores)"),
        ("infer.py, ms/query: top-m, m=100", f"{found.ms_top_m:.3f} (one core)"),
        ("infer.py, ms/query: lookup + rank, m=100", f"{found.ms_rank:.3f} (one core)"),
    ]
    say(table(("estimate", dataset.name), rows))
    for warning in warnings(root, found, config):
        say(f"warning: {warning}")
    return found


def warnings(root, found, config):
    """What will not fit on this machine, each with the setting that would."""
    memory = available_memory()
    if found.train_memory > memory:
        smaller = config.hidden_dim
        while smaller > 1 and found.train_memory * smaller / config.hidden_dim > memory:
            smaller //= 2
        yield (
            f"a trainer needs {size(found.train_memory)}, and {size(memory)} of memory are free: "
            f"--hidden_dim {smaller} would fit"
        )
    folder = os.path.abspath(root)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    if found.disk_bytes > free:
        chunks = max(1, int(config.num_chunks * free / found.disk_bytes))
        yield (
            f"the run needs {size(found.disk_bytes)} of disk, and {size(free)} are free: "
            f"--num_chunks {chunks} would fit"
        )
