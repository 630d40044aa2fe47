"""What a run will take, before any work: memory, disk, time per chunk, ms per query.

Sizes are arithmetic. Times come from a few measured steps on a sample of the data with the
real kernels, at the real size where memory allows and at a smaller one, scaled by the number
of operations, where it does not. GPU times are computed from the stated assumptions.
"""

import dataclasses
import functools
import os
import shutil
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from solar_tf import features, hashing, records, retrieval
from solar_tf.cli import load_tensorflow
from solar_tf.console import say, seconds, size, table
from solar_tf.datasets.vocabulary import Vocabulary, count_tokens
from solar_tf.index import build_index
from solar_tf.model import ChunkModel, inputs_of
from solar_tf.weights import count_parameters, training_bytes
from solar_tf.workers import available_memory, run_tasks

SAMPLE_ROWS = 16_384
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
    """Some rows of a dataset, and what they say about all of them."""

    num_rows: int  # of the whole training split
    num_queries: int  # of the whole test split
    num_labels: int
    record_bytes: float  # of a row in one chunk
    shared_bytes: float  # of a row, whatever the number of chunks
    preprocess_seconds: float  # of a row, in one process
    batch: dict  # arrays of one training batch


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
    sample = _sample(dataset, config)
    dense = dataset.kind == "dense"
    input_dim = dataset.num_features if dense else config.feature_dim
    tokens = 0 if dense else len(sample.batch["ids"]) / config.batch_size
    parameters, memory, weights, index = sizes(config, input_dim, sample.num_labels, tokens)
    memory += sample.record_bytes * min(SHUFFLE_ROWS, sample.num_rows)
    trainers = choose_trainers(config, input_dim, config.num_chunks)
    step, measured = _measure_step(config, input_dim, dense, sample.batch, trainers)
    forward, top_m = _measure_queries(config, input_dim, dense, sample.batch)
    steps = -(-sample.num_rows // config.batch_size) * config.epochs
    all_rows = sample.num_rows + sample.num_queries
    flops = 6 * config.batch_size * config.hidden_dim * config.num_buckets
    touched = 28 * (
        config.hidden_dim * config.num_buckets + tokens * config.batch_size * config.hidden_dim
    )
    return Estimate(
        parameters=parameters,
        train_memory=memory,
        checkpoint_bytes=12 * parameters,
        records_bytes=all_rows * (sample.record_bytes * config.num_chunks + sample.shared_bytes),
        index_bytes=index,
        weights_bytes=weights,
        rank_memory=index + 4 * sample.num_labels * (1 + workers),
        preprocess_seconds=all_rows * sample.preprocess_seconds / workers,
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


def _sample(dataset, config):
    """Read some rows, and count all."""
    block = next(dataset.train.blocks(SAMPLE_ROWS))
    began = time.perf_counter()
    rows = dataset.train.parse(block)
    spent = time.perf_counter() - began
    num_labels = dataset.num_labels or int(rows.labels.max(initial=0)) + 1
    shared = {"labels": (rows.label_splits, rows.labels)}
    buckets = hashing.hash_ids(rows.labels, 0, config.num_buckets)
    columns = {records.BUCKETS: hashing.or_targets(rows.label_splits, buckets)}
    if dataset.kind == "dense":
        splits = np.arange(len(rows) + 1) * rows.dense.shape[1]
        shared["dense"] = splits, rows.dense.ravel()
    else:
        splits, ids, values = rows.feature_splits, rows.features, rows.values
        if dataset.kind == "text":
            vocabulary = Vocabulary.from_counts(count_tokens(rows.texts), len(rows))
            began = time.perf_counter()
            splits, ids, values = vocabulary.encode(rows.texts)
            spent += 2 * (time.perf_counter() - began)  # the scan counts what this pass encodes
        if config.weighting == "tfidf":
            frequencies = np.bincount(ids) if len(ids) else np.zeros(1)
            weights = features.inverse_frequencies(frequencies, len(rows))
            values = features.weigh(splits, ids, values, config, weights)
        shared["features"], shared["values"] = (splits, ids), (splits, values)
        began = time.perf_counter()
        hashed = hashing.hash_ids(ids, 0, config.feature_dim)
        chunk_splits, ids, values = hashing.hash_features(splits, hashed, values)
        columns |= {records.IDS: (chunk_splits, ids), records.VALUES: (chunk_splits, values)}
    records.encode(columns)  # compiles
    record_bytes = len(records.encode(columns)) / len(rows)
    spent += config.num_chunks * (time.perf_counter() - began)
    shared_bytes = sum(flat.nbytes for _, flat in shared.values()) / len(rows)
    return Sample(
        num_rows=dataset.train.num_rows or _count_rows(dataset.train),
        num_queries=(dataset.test.num_rows or _count_rows(dataset.test)) if dataset.test else 0,
        num_labels=num_labels,
        record_bytes=record_bytes,
        shared_bytes=shared_bytes,
        preprocess_seconds=spent / len(rows),
        batch=_batch(columns, rows.dense, config.batch_size),
    )


def _count_rows(source):
    return sum(block.num_rows for block in source.blocks(SAMPLE_ROWS))


def _batch(columns, dense, batch_size):
    """The first rows of the sample, again and again if need be, as a training batch."""
    num_rows = len(columns[records.BUCKETS][0]) - 1
    chosen = np.arange(batch_size) % num_rows

    def take(name):
        splits, flat = columns[name]
        parts = [flat[splits[row] : splits[row + 1]] for row in chosen]
        ends = np.cumsum([len(part) for part in parts])
        return np.concatenate([[0], ends]).astype(np.int32), np.concatenate(parts)

    splits, buckets = take(records.BUCKETS)
    batch = {"buckets": buckets, "bucket_splits": splits}
    if dense is None:
        batch["row_splits"], batch["ids"] = take(records.IDS)
        batch["values"] = take(records.VALUES)[1]
    else:
        batch["dense"] = dense[chosen]
    return batch


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
    batch = {name: tf.constant(array) for name, array in batch.items()}
    rate = tf.constant(1e-3)
    return _median_seconds(lambda: float(model.train_batch(batch, rate)))


def _measure_queries(config, input_dim, dense, batch):
    """Seconds of one query's forward pass (all cores) and top m (one core) in one chunk."""
    shrink = 1
    while 4 * count_parameters(narrow(config, shrink), input_dim) > 0.5 * available_memory():
        shrink *= 2
    model = ChunkModel(narrow(config, shrink), input_dim, 0, dense=dense)
    # As many queries as in a forward pass of stage 3.
    times = -(-QUERIES // config.batch_size)
    inputs = {name: tf.constant(a) for name, a in inputs_of(_repeat(batch, times)).items()}
    forward = _median_seconds(lambda: model.probabilities(inputs).numpy())
    probabilities = model.probabilities(inputs).numpy()
    m = min(100, config.num_buckets)
    top_m = _median_seconds(lambda: retrieval.top_buckets(probabilities, m))
    return shrink * forward / len(probabilities), top_m / len(probabilities)


def _repeat(batch, times):
    """The rows of a batch several times over."""
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
