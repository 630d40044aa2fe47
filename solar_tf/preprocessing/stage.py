"""Stage 1 (§3.1, §3.2): vocabulary, inverted indexes, TFRecords with hashed features.

First a scan of the training rows, where it is needed, for the vocabulary and the
numbers of labels and features. Then every block of rows becomes one shard
(`solar_tf.preprocessing.shards`). A file that exists is complete and is not made again.
"""

import json
import platform
import time
from importlib import metadata

import numpy as np

import solar_tf
from solar_tf.datasets.dataset import read_label_filter
from solar_tf.datasets.source import COUNT_LIMIT, ROWS_PER_BLOCK
from solar_tf.datasets.vocabulary import Vocabulary
from solar_tf.errors import UserError
from solar_tf.preprocessing import features
from solar_tf.preprocessing.scan import scan
from solar_tf.preprocessing.shards import Job, write_files
from solar_tf.run.checksums import file_facts, verify
from solar_tf.run.directory import open_run, run_directory
from solar_tf.run.files import atomic_write, read_arrays, sweep, write_arrays, write_json
from solar_tf.run.locks import try_lock
from solar_tf.run.manifest import FORMAT, read_config, read_summary
from solar_tf.runtime.console import say, seconds, size, table
from solar_tf.runtime.memory import choose_workers, held_to

SPLITS = ("train", "test")
COUNTERS = ("rows", "unlabelled", "duplicate_labels", "featureless")
PARSED_TIMES = 15  # most memory of making a shard, as a multiple of its parsed rows


def preprocess(root, dataset, config, workers, max_memory=None):
    """Make the run directory `root` of a `datasets.Dataset` and a SolarConfig, and report it."""
    started = time.perf_counter()
    if max_memory is not None:
        workers = choose_workers(max_memory, workers, *_needs(dataset))
    with held_to(max_memory):
        run = make_run(root, dataset, config, workers)
    _report(run, time.perf_counter() - started)
    return run


def make_run(root, dataset, config, workers):
    """Stage 1; does what is missing."""
    paths = run_directory(root)
    with try_lock(paths.preprocess_lock) as free:
        if not free:
            raise UserError(f"{root}: another preprocess.py is at work here: wait for it to end")
        paths.start()
        sweep(*paths.preprocess_outputs)
        fingerprint = dataset.fingerprint()
        content = read_config(paths)
        if content is None:
            _refuse_orphans(paths)
        elif content["dataset"]["files"] != fingerprint:
            raise UserError(
                f"{root}: holds a run of other data ({content['dataset']['name']}): "
                "choose another --run, or delete it"
            )
        elif content["config"] != config:
            raise UserError(
                f"{root}: {_difference(content['config'], config)}: choose another --run"
            )
        if content is None or paths.incomplete(content.get("files", {})):
            content = _describe(paths, dataset, config, fingerprint, workers, content)
            paths.publish(*(paths.root / name for name in content["files"]), paths.config)
            paths.require_same()
        if not _is_complete(paths, content):
            job = Job(paths, dataset, config, content)
            job.fetch_inputs()
            verify(paths.root, content["files"], "delete it and run preprocess.py again")
            if config.grouped_share:
                from solar_tf.preprocessing import grouping  # loads scipy

                grouping.write_grouped(job, workers)
            write_files(job, workers)
            _write_summary(job)
    return open_run(root, stage=True)


def _refuse_orphans(paths):
    """Records, indexes and chunks of an unknown config must not mix with those of another."""
    for folder in (paths.summary.parent, paths.index(0).parent, paths.chunks):
        if paths.has(folder):
            raise UserError(
                f"{paths.location}/{folder.name}: belongs to a run whose config.json is missing: "
                "restore that from a copy, or choose another --run"
            )


def _is_complete(paths, content):
    """Whether all is there that the stage writes; what was cut short is cleared away."""
    summary = read_summary(paths, content["format"])
    if summary is None and content["format"] != FORMAT:
        raise UserError(
            f"{paths.location}: an unfinished run of an older version: delete it and start again"
        )
    missing = paths.incomplete(summary["files"]) if summary else []
    if missing:
        paths.drop(*(paths.root / name for name in missing), paths.summary)
    return summary is not None and not missing


def _difference(old, new):
    """How two configs differ, in words."""
    old, new = old.to_dict(), new.to_dict()
    changes = [f"{name}={old[name]}, not {new[name]}" for name in old if old[name] != new[name]]
    return "has been made with " + "; ".join(changes)


def _describe(paths, dataset, config, fingerprint, workers, before=None):
    """Scan the data where needed, and write config.json; a second time it must be as `before`."""
    found = scan(dataset, config, workers)
    num_labels = dataset.num_labels or found.num_labels
    num_features = dataset.num_features or found.num_features
    if config.own_label == "add" and (dataset.kind != "text" or dataset.label_titles is None):
        raise UserError("own_label=add needs titles of rows and labels: give --labels, or leave it")
    if not num_labels:
        raise UserError(f"{dataset.train.path}: no row has a label: nothing to learn from")
    if num_labels > COUNT_LIMIT:
        remedy = f"number them from 0 up without gaps, at most {COUNT_LIMIT:,}"
        raise UserError(f"{dataset.train.path}: {num_labels:,} labels are too many: {remedy}")
    label_filter = None
    if dataset.filter_path:
        label_filter = read_label_filter(dataset.filter_path, dataset.test.count_rows(), num_labels)
    if dataset.kind == "text":
        vocabulary = Vocabulary.from_counts(found.words, found.num_rows, config.min_count)
        if not len(vocabulary):
            raise UserError(f"{dataset.train.path}: no words in its titles: nothing to learn from")
        vocabulary.save(paths.vocabulary)
        num_features, frequencies = len(vocabulary), vocabulary.frequencies
    else:
        frequencies = found.feature_rows
    if config.weighting == "tfidf" and dataset.kind != "dense":
        frequencies = np.pad(frequencies, (0, num_features - len(frequencies)))
        weights = features.inverse_frequencies(frequencies, found.num_rows, config.idf_power)
        with atomic_write(paths.token_weights) as file:
            np.save(file, weights)
    if dataset.label_titles is not None:
        with atomic_write(paths.label_titles, "w") as file:
            file.writelines(f"{title}\n" for title in dataset.label_titles)
    if label_filter:
        splits, labels = label_filter
        write_arrays(paths.test_filter, {"splits": splits, "labels": labels})
    written = paths.vocabulary, paths.token_weights, paths.label_titles, paths.test_filter
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
        "files": {paths.name_of(path): file_facts(path) for path in written if path.exists()},
    }
    if before and before["files"] != content["files"]:
        raise UserError(
            f"{paths.location}: this version of solar_tf reads the data in another way than the "
            "one that made the run: make a new run with preprocess.py"
        )
    write_json(paths.config, content)
    return {**content, "config": config}


def _write_summary(job):
    """Count what the shards hold, and mark the stage as complete."""
    paths, counts = job.paths, np.zeros(job.num_labels, np.int64)
    indexes = [paths.index(chunk) for chunk in range(job.config.num_chunks)]
    paths.fetch(*indexes, *paths.stored(paths.rows("train", 0).parent.parent))
    summary, files = {}, {}
    for split in SPLITS:
        counters, shard = [], 0
        while (path := paths.rows(split, shard)).exists():
            arrays = read_arrays(path, "preprocess.py")
            files |= json.loads(arrays["files"].item()) | {paths.name_of(path): file_facts(path)}
            counters.append(arrays["counters"])
            if split == "train":
                counts += np.bincount(arrays["labels"], minlength=job.num_labels)
            shard += 1
        totals = np.sum(counters, axis=0).tolist() if counters else [0] * len(COUNTERS)
        summary[split] = {"shards": shard, **dict(zip(COUNTERS, totals, strict=True))}
    with atomic_write(paths.label_counts) as file:
        np.save(file, counts)
    files |= {paths.name_of(path): file_facts(path) for path in (paths.label_counts, *indexes)}
    write_json(paths.summary, {**summary, "files": files})
    paths.require_same()
    paths.publish(paths.label_counts, paths.summary)


def _report(run, duration):
    dataset, config = run.dataset, run.config
    labels = np.load(run.paths.label_counts, allow_pickle=False)
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
    if run.paths.test_filter.exists():
        pairs = read_arrays(run.paths.test_filter, "preprocess.py")["labels"]
        rows.append(("test filter", f"{len(pairs):,} labels of rows are not evaluated"))
    rows.append(("on disk", size(run.paths.count_bytes())))
    rows.append(("time", seconds(duration)))
    say(table(("preprocess", run.paths.location), rows))
    say(f"\nNext: train.py --gpu 0 --run {run.paths.location}")


def _needs(dataset):
    """Bytes that all processes need together, and each worker; guessed from the first rows."""
    rows = dataset.train.parse(next(dataset.train.blocks(ROWS_PER_BLOCK)))
    text = sum(len(title) + 100 for title in rows.texts or ())
    arrays = (rows.labels, rows.features, rows.values, rows.dense)
    parsed = text + sum(array.nbytes for array in arrays if array is not None)
    labels = dataset.num_labels or 0
    titles = sum(len(title) + 60 for title in dataset.label_titles or ())
    return titles + 16 * labels, PARSED_TIMES * parsed + 40 * labels
