"""Stage 1 (§3.1, §3.2): vocabulary, inverted indexes, TFRecords with hashed features.

First a scan of the training rows, where it is needed, for the vocabulary and the
numbers of labels and features. Then every block of rows becomes one shard: its rows
once, and for each chunk a TFRecord file with features hashed by the chunk's seed and
OR'ed targets. What exists already is complete and is not made again.
"""

import collections
import functools
import platform
import time
from importlib import metadata
from pathlib import Path

import numpy as np

import solar_tf
from solar_tf import features, hashing, records
from solar_tf.console import progress, say, seconds, size, table
from solar_tf.datasets.vocabulary import Vocabulary, count_tokens
from solar_tf.errors import UserError
from solar_tf.index import build_index, save_index
from solar_tf.rundir import (
    FORMAT,
    RunDirectory,
    atomic_write,
    claim,
    open_run,
    read_arrays,
    read_config,
    sweep,
    write_arrays,
    write_json,
)
from solar_tf.workers import run_tasks

ROWS_PER_SHARD = 16_384
SPLITS = ("train", "test")
COUNTERS = ("rows", "unlabelled", "duplicate_labels", "featureless")


def preprocess(root, dataset, config, workers):
    """Make the run directory `root` of a `datasets.Dataset` and a SolarConfig."""
    started = time.perf_counter()
    paths = RunDirectory(Path(root))
    with claim(paths.preprocess_claim) as free:
        if not free:
            raise UserError(f"{root}: another preprocess.py is at work here: wait for it to end")
        sweep(*paths.preprocess_outputs)
        fingerprint = dataset.fingerprint()
        content = read_config(paths)
        if content is None:
            content = _describe(paths, dataset, config, fingerprint, workers)
        elif content["dataset"]["files"] != fingerprint:
            raise UserError(
                f"{root}: holds a run of other data ({content['dataset']['name']}): "
                "choose another --run, or delete it"
            )
        elif content["config"] != config:
            raise UserError(
                f"{root}: {_difference(content['config'], config)}: choose another --run"
            )
        if not paths.summary.exists():
            job = _Job(paths, dataset, config, content)
            _write_shards(job, workers)
            _write_indexes(job, workers)
            _write_summary(job)
    run = open_run(root)
    _report(run, time.perf_counter() - started)
    return run


def _difference(old, new):
    """How two configs differ, in words."""
    old, new = old.to_dict(), new.to_dict()
    changes = [f"{name}={old[name]}, not {new[name]}" for name in old if old[name] != new[name]]
    return "has been made with " + "; ".join(changes)


# The scan.


def _describe(paths, dataset, config, fingerprint, workers):
    """Scan the data where needed, and write config.json."""
    scan = _scan(dataset, config, workers)
    num_labels = dataset.num_labels or scan.num_labels
    num_features = dataset.num_features or scan.num_features
    if not num_labels:
        raise UserError(f"{dataset.train.path}: no row has a label: nothing to learn from")
    if dataset.kind == "text":
        vocabulary = Vocabulary.from_counts(scan.words, scan.num_rows, config.min_count)
        if not len(vocabulary):
            raise UserError(f"{dataset.train.path}: no words in its titles: nothing to learn from")
        vocabulary.save(paths.vocabulary)
        num_features, frequencies = len(vocabulary), vocabulary.frequencies
    else:
        frequencies = scan.feature_rows
    if config.weighting == "tfidf" and dataset.kind != "dense":
        frequencies = np.pad(frequencies, (0, num_features - len(frequencies)))
        weights = features.inverse_frequencies(frequencies, scan.num_rows)
        with atomic_write(paths.token_weights) as file:
            np.save(file, weights)
    if dataset.label_titles is not None:
        with atomic_write(paths.label_titles, "w") as file:
            file.writelines(f"{title}\n" for title in dataset.label_titles)
    content = {
        "format": FORMAT,
        "solar_tf": solar_tf.__version__,
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("numpy", "scikit-learn", "numba")},
        },
        "dataset": {
            "name": dataset.name,
            "kind": dataset.kind,
            "num_labels": int(num_labels),
            "num_features": int(num_features),
            "propensity": list(dataset.propensity),
            "files": fingerprint,
        },
        "seeds": list(range(config.num_chunks)),  # §3.2: different ones, saved for evaluation
        "config": config.to_dict(),
    }
    write_json(paths.config, content)
    return {**content, "config": config}


class _Scan:
    """What one pass over the rows finds out."""

    def __init__(self):
        self.num_rows = self.num_labels = self.num_features = 0
        self.words = collections.Counter()
        self.feature_rows = np.zeros(0, np.int64)

    def add(self, num_rows, num_labels, words, feature_rows):
        self.num_rows += num_rows
        self.num_labels = max(self.num_labels, num_labels)
        self.words.update(words)
        longer = max(len(self.feature_rows), len(feature_rows))
        self.feature_rows = sum(
            np.pad(counts, (0, longer - len(counts)))
            for counts in (self.feature_rows, feature_rows)
        )
        self.num_features = longer


def _scan(dataset, config, workers):
    """One pass over the training rows; over the test rows too if they can add labels."""
    scan = _Scan()
    sparse_unknown = dataset.kind == "sparse" and dataset.num_features is None
    counts_features = dataset.kind != "dense" and config.weighting == "tfidf"
    if dataset.kind == "text" or sparse_unknown or counts_features or not dataset.num_labels:
        for facts in _scan_source(dataset.train, workers):
            scan.add(*facts)
    if dataset.test and (sparse_unknown or not dataset.num_labels):
        for _, num_labels, _, feature_rows in _scan_source(dataset.test, workers):
            scan.add(0, num_labels, {}, np.zeros_like(feature_rows))
    return scan


def _scan_source(source, workers):
    tasks = source.blocks(ROWS_PER_SHARD)
    with progress(source.num_rows, "reading", "row") as bar:
        for facts in run_tasks(functools.partial(_scan_block, source), tasks, workers):
            bar.update(facts[0])
            yield facts


def _scan_block(source, block):
    rows = source.parse(block)
    words = count_tokens(rows.texts) if rows.texts is not None else {}
    feature_rows = np.zeros(0, np.int64)
    if rows.features is not None and len(rows.features):
        feature_rows = np.bincount(rows.features)
    return len(rows), int(rows.labels.max(initial=-1)) + 1, words, feature_rows


# The shards.


class _Job:
    """What a worker needs to know; small and picklable."""

    def __init__(self, paths, dataset, config, content):
        self.paths = paths
        sources = {"train": dataset.train, "test": dataset.test}
        self.sources = {split: source for split, source in sources.items() if source}
        self.kind = dataset.kind
        self.config = config
        self.seeds = content["seeds"]
        self.num_labels = content["dataset"]["num_labels"]

    def shard_files(self, split, shard):
        yield self.paths.rows(split, shard)
        if self.kind == "dense":
            yield self.paths.inputs(split, shard)
        for chunk in range(self.config.num_chunks):
            yield self.paths.records(split, chunk, shard)

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


def _write_shards(job, workers):
    def tasks(split, source):
        for shard, block in enumerate(source.blocks(ROWS_PER_SHARD)):
            if all(path.exists() for path in job.shard_files(split, shard)):
                bar.update(block.num_rows)
            else:
                yield split, shard, block

    for split, source in job.sources.items():
        with progress(source.num_rows, f"writing {split} records", "row") as bar:
            for num_rows in run_tasks(
                _write_shard, tasks(split, source), workers, _start_worker, (job,)
            ):
                bar.update(num_rows)


def _write_shard(task):
    split, shard, block = task
    rows = _job.sources[split].parse(block)
    arrays = {"label_splits": rows.label_splits, "labels": rows.labels}
    featureless = 0
    if _job.kind == "dense":
        splits = np.arange(len(rows) + 1) * rows.dense.shape[1]
        columns = {records.DENSE: (splits, rows.dense.ravel())}
        records.write_records(_job.paths.inputs(split, shard), columns)
    else:
        if _job.kind == "text":
            splits, ids, values = _job.vocabulary.encode(rows.texts)
        else:
            splits, ids, values = rows.feature_splits, rows.features, rows.values
        values = features.weigh(splits, ids, values, _job.config, _job.weights)
        arrays |= {"feature_splits": splits, "features": ids, "values": values}
        featureless = np.count_nonzero(np.diff(splits) == 0)
    for chunk, seed in enumerate(_job.seeds):
        buckets = hashing.hash_ids(rows.labels, seed, _job.config.num_buckets)
        columns = {records.BUCKETS: hashing.or_targets(rows.label_splits, buckets)}
        if _job.kind != "dense":
            hashed = hashing.hash_ids(ids, seed, _job.config.feature_dim)
            chunk_splits, chunk_ids, chunk_values = hashing.hash_features(splits, hashed, values)
            columns[records.IDS] = chunk_splits, chunk_ids
            columns[records.VALUES] = chunk_splits, chunk_values
        records.write_records(_job.paths.records(split, chunk, shard), columns)
    counters = len(rows), rows.num_unlabelled, rows.num_duplicate_labels, featureless
    arrays["counters"] = np.array(counters)
    write_arrays(_job.paths.rows(split, shard), arrays)
    return len(rows)


def _write_indexes(job, workers):
    missing = [c for c in range(job.config.num_chunks) if not job.paths.index(c).exists()]
    with progress(len(missing), "building indexes", "chunk") as bar:
        for _ in run_tasks(_write_index, missing, workers, _start_worker, (job,)):
            bar.update()


def _write_index(chunk):
    num_buckets = _job.config.num_buckets
    buckets = hashing.label_buckets(_job.num_labels, _job.seeds[chunk], num_buckets)
    save_index(_job.paths.index(chunk), build_index(buckets, num_buckets))


def _write_summary(job):
    """Count what the shards hold, and mark the stage as complete."""
    counts = np.zeros(job.num_labels, np.int64)
    summary = {}
    for split in SPLITS:
        counters, shard = [], 0
        while job.paths.rows(split, shard).exists():
            arrays = read_arrays(job.paths.rows(split, shard), "preprocess.py")
            counters.append(arrays["counters"])
            if split == "train":
                counts += np.bincount(arrays["labels"], minlength=job.num_labels)
            shard += 1
        totals = np.sum(counters, axis=0).tolist() if counters else [0] * len(COUNTERS)
        summary[split] = {"shards": shard, **dict(zip(COUNTERS, totals, strict=True))}
    with atomic_write(job.paths.label_counts) as file:
        np.save(file, counts)
    write_json(job.paths.summary, summary)


def _report(run, duration):
    dataset, config = run.dataset, run.config
    labels = np.load(run.paths.label_counts, allow_pickle=False)
    on_disk = sum(file.stat().st_size for file in run.paths.root.rglob("*") if file.is_file())
    rows = [
        ("dataset", f"{dataset['name']} ({dataset['kind']})"),
        ("labels (N)", f"{dataset['num_labels']:,}, {np.count_nonzero(labels):,} seen in training"),
        ("features", f"{dataset['num_features']:,} -> {run.input_dim:,}"),
        ("chunks x buckets (K x B)", f"{config.num_chunks} x {config.num_buckets:,}"),
        ("labels a bucket (N / B)", f"{dataset['num_labels'] / config.num_buckets:.1f}"),
    ]
    for split in SPLITS:
        counts = run.summary[split]
        notes = [
            f"{counts[name]:,} {text}"
            for name, text in (
                ("unlabelled", "without labels"),
                ("featureless", "without known features"),
                ("duplicate_labels", "repeated labels dropped"),
            )
            if counts.get(name)
        ]
        rows.append((f"{split} rows", ", ".join([f"{counts['rows']:,}", *notes])))
    rows.append(("on disk", size(on_disk)))
    rows.append(("time", seconds(duration)))
    say(table(("preprocess", str(run.paths.root)), rows))
    say(f"\nNext: train.py --gpu 0 --run {run.paths.root}")
