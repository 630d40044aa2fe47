"""What a run will take, before any work: memory, disk, time per chunk, ms per query.

Sizes are computed. Times are measured on small parts (`measuring`) and multiplied. GPU times are
computed from data sheets.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass

from solar_tf.operations.measuring import measure_queries, measure_rank, measure_step, take_sample
from solar_tf.run.weights import count_parameters
from solar_tf.runtime.console import say, seconds, size, table
from solar_tf.runtime.memory import available_memory
from solar_tf.training.sizes import choose_trainers, training_bytes

SHUFFLE_ROWS = 200_000  # at most two blocks of the shuffle are in memory
SUPPOSED_QUERIES = 100_000  # if there are no test rows
START_SHARE = 0.25  # of an epoch, the time of a start along the gradient; 0.22 on books
GPUS = {"V100": (15.7e12, 0.9e12), "A100": (19.5e12, 1.55e12)}  # fp32 peak, memory bandwidth
GPU_EFFICIENCY = 0.5  # of the peak; all of the bandwidth is taken as reached


@dataclass(frozen=True)
class Estimate:
    """Bytes and seconds of a run on this machine."""

    parameters: int  # of one chunk
    free_memory: float  # before measuring, which takes some
    train_memory: float
    checkpoint_bytes: float
    records_bytes: float
    index_bytes: float
    weights_bytes: float
    rank_memory: float
    preprocess_seconds: float
    step_seconds: float
    chunk_seconds: float
    trainers: int  # chunks trained at the same time
    ms_forward: float
    ms_top_m: float
    ms_rank: float
    gpu_chunk_seconds: dict
    measured: str  # how the step was measured

    @property
    def disk_bytes(self):
        return self.records_bytes + self.index_bytes + self.weights_bytes + self.checkpoint_bytes


def sizes(config, input_dim, num_labels, tokens=9.0):
    """Parameters of a chunk, and bytes of a trainer, of all weights and of all indexes."""
    parameters = count_parameters(config, input_dim)
    index = 4 * config.num_chunks * (num_labels + config.num_buckets + 1)
    memory = training_bytes(config, input_dim, tokens)
    return parameters, memory, 4 * parameters * config.num_chunks, index


def estimate(dataset, config, workers):
    """The Estimate of preprocess, train and infer for this dataset and config."""
    free_memory = available_memory()
    dense = dataset.kind == "dense"
    input_dim = dataset.num_features if dense else config.feature_dim
    trainers = choose_trainers(config, input_dim, config.num_chunks)
    with tempfile.TemporaryDirectory() as folder:
        sample = take_sample(dataset, config, workers, folder)
        step, measured = measure_step(config, input_dim, sample.sources, trainers)
        rank = measure_rank(config, sample.num_labels, workers, folder)
    parameters, memory, weights, index = sizes(config, input_dim, sample.num_labels, sample.tokens)
    row_bytes = sample.records_bytes / (sample.num_rows + sample.num_queries) / config.num_chunks
    memory += row_bytes * min(SHUFFLE_ROWS, sample.num_rows)
    queries = sample.num_queries or SUPPOSED_QUERIES
    forward, top_m = measure_queries(config, input_dim, dense, sample.batch, queries)
    steps = -(-sample.num_rows // config.batch_size) * config.epochs
    started = START_SHARE * steps / config.epochs * (config.input_start == "gradient")
    flops = 6 * config.batch_size * config.hidden_dim * config.num_buckets
    rows = config.num_buckets + sample.tokens * config.batch_size  # read and written by a step
    touched = 28 * config.hidden_dim * rows
    return Estimate(
        parameters=parameters,
        free_memory=free_memory,
        train_memory=memory,
        checkpoint_bytes=12 * parameters,
        records_bytes=sample.records_bytes,
        index_bytes=index,
        weights_bytes=weights,
        rank_memory=index + 4 * sample.num_labels * (1 + workers),
        preprocess_seconds=sample.preprocess_seconds,
        step_seconds=step,
        chunk_seconds=step * (steps + started),
        trainers=trainers,
        ms_forward=1e3 * forward / queries,
        ms_top_m=1e3 * top_m * config.num_chunks,
        ms_rank=1e3 * rank,
        gpu_chunk_seconds={
            name: steps * max(flops / (GPU_EFFICIENCY * peak), touched / bandwidth)
            for name, (peak, bandwidth) in GPUS.items()
        },
        measured=measured,
    )


def report(root, dataset, config, workers):
    """Print the estimate and warnings; returns the Estimate."""
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
            (f"train.py, a chunk on one {name} (computed)", seconds(spent))
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
    """Yield what does not fit on this machine, each with a setting that does."""
    memory = found.free_memory
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
