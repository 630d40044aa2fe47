"""What little parts of the work take on this machine: rows of stage 1, steps, queries.

Measured with the real kernels, at the real size where memory allows and at a smaller one,
scaled by the number of operations, where it does not.
"""

import dataclasses
import functools
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from solar_tf.datasets.source import Head
from solar_tf.preprocessing import hashing
from solar_tf.preprocessing.stage import make_run
from solar_tf.retrieval import forward
from solar_tf.retrieval.forward import add_costs, in_streams, timed_pass
from solar_tf.retrieval.label_table import LabelTable
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.rankers import RankFiles, rank_block
from solar_tf.run.index import build_index
from solar_tf.run.weights import count_parameters
from solar_tf.runtime.devices import load_tensorflow
from solar_tf.runtime.memory import available_memory
from solar_tf.runtime.workers import run_tasks
from solar_tf.training.batches import read_batches
from solar_tf.training.model import ChunkModel, inputs_of, probability_function
from solar_tf.training.sizes import training_bytes

QUERIES = 1000  # of a forward pass
RANKED, DIFFERENT = 8192, 256  # queries that are ranked, and how many of them differ
MEASURE_SECONDS = 8.0  # for each of the measured parts
MEASURED_LABELS = 2_000_000  # an index of more labels is not built; its time is scaled


@dataclass(frozen=True)
class Sample:
    """What stage 1 makes of the first rows, and what that says about all of them."""

    num_rows: int  # of the whole training split
    num_queries: int  # of the whole test split
    num_labels: int
    records_bytes: float  # of all rows in all chunks
    preprocess_seconds: float  # of all rows
    sources: dict  # the records of one chunk, as `batches.read_batches` takes them
    batch: dict  # arrays of a training batch

    @property
    def tokens(self):
        """Of a row, on average; dense rows have none."""
        return len(self.batch.get("ids", ())) / (len(self.batch["bucket_splits"]) - 1)


def take_sample(dataset, config, workers, folder):
    """Run stage 1 on a few blocks, then on three times as many, in `folder`; and count all rows."""
    sources = [source for source in (dataset.train, dataset.test) if source]
    totals = [source.count_rows() for source in sources]
    took, read = [], []  # seconds and rows
    for blocks in (workers, 3 * workers):
        heads = dict(zip(("train", "test"), (Head(s, blocks) for s in sources), strict=False))
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
    records = run.sources("train", 0)
    batch = next(iter(read_batches(**records, batch_size=config.batch_size)))
    a_row = (took[-1] - took[0]) / (read[-1] - read[0]) if len(set(read)) > 1 else 0.0
    return Sample(
        num_rows=totals[0],
        num_queries=sum(totals[1:]),
        num_labels=run.dataset["num_labels"],
        records_bytes=written * sum(totals) / read[-1],
        preprocess_seconds=took[-1] + max(a_row, 0.0) * (sum(totals) - read[-1]),
        sources=records,
        batch={name: tensor.numpy() for name, tensor in batch.items()},
    )


def measure_step(config, input_dim, sources, trainers):
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
    job = functools.partial(_time_steps, narrow(config, shrink), input_dim, sources)
    start = (load_tensorflow, (1,)) if trainers > 1 else ()
    return shrink * float(
        np.mean(list(run_tasks(job, range(trainers), trainers, *start)))
    ), measured


def narrow(config, shrink):
    """The config with a hidden layer `shrink` times narrower: its steps take that much less."""
    return dataclasses.replace(config, hidden_dim=config.hidden_dim // shrink)


def _time_steps(config, input_dim, sources, chunk):
    """Mean seconds of a step, from records as in stage 2."""
    model = ChunkModel(config, input_dim, chunk)
    model.compile_adam(1e-3)
    batches = read_batches(**sources, batch_size=config.batch_size, seed=chunk).repeat()
    # All the time there is: other trainers, which take their share of the machine, begin later.
    clock = StepClock(MEASURE_SECONDS)
    model.fit(batches, callbacks=[clock], shuffle=False, verbose=0)
    return float(np.mean(clock.times))  # now and then a step takes long, and all of them add up


class StepClock(keras.callbacks.Callback):
    """Times the steps of `fit` after the first, which is traced, and stops it when time is up."""

    def __init__(self, most_seconds):
        super().__init__()
        self.most_seconds, self.times = most_seconds, []

    def on_train_begin(self, logs=None):
        self.end = time.perf_counter() + self.most_seconds

    def on_train_batch_begin(self, batch, logs=None):
        self.began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        if batch >= self.model.steps_per_execution:
            self.times.append((time.perf_counter() - self.began) / self.model.steps_per_execution)
        self.model.stop_training = len(self.times) >= 3 and time.perf_counter() > self.end


def measure_queries(config, input_dim, dense, batch, num_queries):
    """Seconds of all queries' forward passes (all cores), and of a query's top m in one chunk.

    The passes are those of stage 3 from the first on, which is traced; those that there is no
    time for go at the pace of the last half.
    """
    shrink = 1
    while 4 * count_parameters(narrow(config, shrink), input_dim) > 0.5 * available_memory():
        shrink *= 2
    small = narrow(config, shrink)
    weights = ChunkModel(small, input_dim).weights_by_name()
    scores = probability_function(small, input_dim, dense)
    batch = _of_size(batch, QUERIES)
    inputs = {name: tf.constant(array) for name, array in inputs_of(batch).items()}
    m = min(100, config.num_buckets)
    passes = config.num_chunks * math.ceil(num_queries / QUERIES)
    started = time.perf_counter()

    def numbers():
        for number in range(passes):
            if number >= 5 and time.perf_counter() - started > MEASURE_SECONDS:
                return
            yield number

    def work(_):
        return timed_pass(lambda batch: scores(batch, weights).numpy(), inputs, m)[-1]

    with ThreadPoolExecutor(forward.STREAMS) as pool:
        spent = list(in_streams(work, numbers(), pool))
    last = spent[len(spent) // 2 :]
    pace, top = (float(np.median([costs[part] for costs in last])) for part in last[0])
    spent += [{"forward": pace, "top_m": top}] * (passes - len(spent))
    return shrink * add_costs(spent)["forward"], top / (len(batch["bucket_splits"]) - 1)


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


def measure_rank(config, num_labels, workers, folder, m=100):
    """Seconds of one core for a query's lookup and ranking, by the workers and files of stage 3."""
    measured, m = min(num_labels, MEASURED_LABELS), min(m, config.num_buckets)
    files = RankFiles(Path(folder), tuple(range(config.num_chunks)), ((0, measured),))
    generator = np.random.default_rng(config.seed)

    def indexes():
        for chunk in files.chunks:
            of = hashing.label_buckets(measured, chunk, config.num_buckets)
            index = build_index(of, config.num_buckets)
            queries = _likely_queries(generator, np.diff(index.offsets), m)
            for name, array in zip(("buckets", "values"), queries, strict=True):
                np.save(files.queries(name, chunk), np.tile(array, (RANKED // DIFFERENT, 1)))
            yield index

    LabelTable.stack(indexes(), config.num_chunks, files.new_array(0))
    settings = [SearchOptions(min(100, measured), m)]
    ((*_, spent),) = rank_block(files, settings, RANKED, workers)
    return spent / RANKED * num_labels / measured


def _likely_queries(generator, bucket_sizes, m):
    """DIFFERENT queries as trained chunks would leave them: top buckets and their probabilities."""
    # Likely buckets hold one or two labels more than others (trained chunks of debian and books).
    rates = np.maximum(bucket_sizes.astype(float) ** 2, 1e-9)
    buckets = [
        np.argpartition(generator.exponential(size=len(rates)) / rates, m - 1)[:m]
        for _ in range(DIFFERENT)
    ]
    # Of trained chunks, probabilities fall by about this power of their place (books).
    values = generator.uniform(0.05, 0.5, (DIFFERENT, 1)) / np.arange(1, m + 1) ** 0.75
    return np.stack(buckets).astype(np.int32), values.astype(np.float32)
