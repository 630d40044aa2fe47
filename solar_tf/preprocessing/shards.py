"""The files of stage 1 (§3.1, §3.2): the index of each chunk, and the shards of the rows.

A shard is one block of rows: the rows once, and for each chunk a TFRecord file with features
hashed by the chunk's seed and OR'ed targets. What exists already is not made again.

The indexes of grouped chunks exist before (`grouping`): their targets follow from them.
"""

import functools
import json

import numpy as np

from solar_tf.datasets.source import row_of_first, tracked_blocks
from solar_tf.datasets.titles import add_own_labels, index_titles
from solar_tf.datasets.vocabulary import Vocabulary, bags
from solar_tf.errors import UserError
from solar_tf.preprocessing import features, hashing
from solar_tf.run import records
from solar_tf.run.files import write_arrays
from solar_tf.run.index import build_index, load_index, save_index
from solar_tf.runtime.console import progress
from solar_tf.runtime.workers import run_tasks


class Job:
    """What a worker needs to know; small and picklable."""

    def __init__(self, paths, dataset, config, content):
        self.paths = paths
        sources = {"train": dataset.train, "test": dataset.test}
        self.sources = {split: source for split, source in sources.items() if source}
        self.kind = dataset.kind
        self.config = config
        self.seeds = content["seeds"]
        self.num_labels = content["dataset"]["num_labels"]
        self.num_features = content["dataset"]["num_features"]
        self.described = content["files"]  # facts of what the scan wrote
        self._grouped = {}  # buckets of grouped chunks

    def shard_files(self, split, shard):
        yield self.paths.rows(split, shard)
        if self.kind == "dense":
            yield self.paths.inputs(split, shard)
        for chunk in range(self.config.num_chunks):
            yield self.paths.records(split, chunk, shard)

    def parse(self, split, block):
        rows = self.sources[split].parse(block)
        if split == "train" and self.config.own_label == "add":
            return add_own_labels(rows, self.labels_of_titles)
        return rows

    def buckets(self, chunk, labels):
        """h_k of some labels, int32 [n]."""
        if not self.config.is_grouped(chunk):
            return hashing.hash_ids(labels, self.seeds[chunk], self.config.num_buckets)
        if chunk not in self._grouped:
            sizes = self.config.num_buckets, self.num_labels
            self._grouped[chunk] = load_index(self.paths.index(chunk), *sizes).label_buckets()
        return self._grouped[chunk][labels]

    def save_index(self, chunk, buckets):
        save_index(self.paths.index(chunk), build_index(buckets, self.config.num_buckets))
        self.paths.publish(self.paths.index(chunk))

    def fetch_inputs(self):
        """Fetch what the scan wrote, and the indexes of grouped chunks: before a worker's tasks."""
        scanned = (self.paths.root / name for name in self.described)
        grouped = filter(self.config.is_grouped, range(self.config.num_chunks))
        self.paths.fetch(*scanned, *map(self.paths.index, grouped), facts=self.described)

    def inputs(self, rows):
        """Splits, ids and weighted values of rows that are not dense; and arrays to keep."""
        if self.kind == "text":
            words = self.vocabulary.sequences(rows.texts)
            splits, ids, values = bags(*words)
            kept = {"word_splits": words[0], "words": words[1]}
        else:
            splits, ids, values = rows.feature_splits, rows.features, rows.values
            kept = {}
        return splits, ids, features.weigh(splits, ids, values, self.config, self.weights), kept

    @functools.cached_property
    def labels_of_titles(self):
        return index_titles(self.paths.label_titles.read_text(encoding="utf-8").split("\n")[:-1])

    @functools.cached_property
    def vocabulary(self):
        return Vocabulary.load(self.paths.vocabulary)

    @functools.cached_property
    def weights(self):
        if self.config.weighting == "tfidf":
            return np.load(self.paths.token_weights, allow_pickle=False)
        return None


_job = None  # of this worker process


def _start_worker(job):
    global _job
    _job = job
    job.fetch_inputs()


def write_files(job, workers):
    """Write indexes and shards in one go: starting workers twice takes longer than a small run."""
    rows = [source.num_rows for source in job.sources.values()]
    with progress(sum(rows) if all(rows) else None, "writing records", "row") as bar:

        def tasks():
            for chunk in range(job.config.num_chunks):
                if not job.paths.has(job.paths.index(chunk)):
                    yield _write_index, chunk
            before = 0
            for split, source in job.sources.items():
                for shard, block in enumerate(tracked_blocks(source, bar, before)):
                    before += block.num_rows
                    if all(map(job.paths.has, job.shard_files(split, shard))):
                        bar.update(block.num_rows)
                    else:
                        yield _write_shard, split, shard, block

        for num_rows in run_tasks(_work, tasks(), workers, _start_worker, (job,)):
            bar.update(num_rows)


def _work(task):
    function, *arguments = task
    return function(*arguments)


@np.errstate(over="ignore", invalid="ignore")  # overflow is an error, see _require_finite
def _write_shard(split, shard, block):
    """One block of rows as files; returns its number of rows."""
    rows = _job.parse(split, block)
    arrays = {"label_splits": rows.label_splits, "labels": rows.labels}
    featureless, facts = 0, {}

    def write(path, columns):
        facts[_job.paths.name_of(path)] = records.write_records(path, columns)

    if _job.kind == "dense":
        splits = np.arange(len(rows) + 1) * rows.dense.shape[1]
        columns = {records.DENSE: (splits, rows.dense.ravel())}
        write(_job.paths.inputs(split, shard), columns)
    else:
        splits, ids, values, kept = _job.inputs(rows)
        arrays |= kept
        _require_finite(split, block, splits, values)
        arrays |= {"feature_splits": splits, "features": ids, "values": values}
        featureless = np.count_nonzero(np.diff(splits) == 0)
    for chunk, seed in enumerate(_job.seeds):
        buckets = _job.buckets(chunk, rows.labels)
        columns = {records.BUCKETS: hashing.or_targets(rows.label_splits, buckets)}
        if _job.kind != "dense":
            hashed = hashing.hash_ids(ids, seed, _job.config.feature_dim)
            chunk_splits, chunk_ids, chunk_values = hashing.hash_features(splits, hashed, values)
            _require_finite(split, block, chunk_splits, chunk_values)
            columns[records.IDS] = chunk_splits, chunk_ids
            columns[records.VALUES] = chunk_splits, chunk_values
        write(_job.paths.records(split, chunk, shard), columns)
    counters = len(rows), rows.num_unlabelled, rows.num_duplicate_labels, featureless
    arrays["counters"] = np.array(counters)
    arrays["files"] = np.array(json.dumps(facts).encode())
    write_arrays(_job.paths.rows(split, shard), arrays)
    _job.paths.publish(*_job.shard_files(split, shard))
    return len(rows)


def _require_finite(split, block, splits, values):
    """Refuse values that weights or hash collisions made too large for float32."""
    bad = ~np.isfinite(values)
    if bad.any():
        row = block.first_row + row_of_first(splits, bad) + 1
        raise UserError(
            f"{_job.sources[split].path}: row {row}: its features are too large for float32: "
            "scale them down"
        )


def _write_index(chunk):
    num_buckets = _job.config.num_buckets
    _job.save_index(chunk, hashing.label_buckets(_job.num_labels, _job.seeds[chunk], num_buckets))
    return 0  # rows
