"""Fit a baseline on a run's training rows and evaluate it on its test rows.

RUN/baselines/NAME holds settings.json (first), training/ (finished parts of the fit, until
it is complete), model/, predictions.npz and metrics.json (last). What exists is complete.
"""

import contextlib
import shutil
import statistics
import time
from pathlib import Path

import numpy as np

from solar_tf.baselines import baseline_class
from solar_tf.baselines.inputs import load_data
from solar_tf.baselines.interface import COMMAND, CORES, spent_seconds
from solar_tf.errors import UserError
from solar_tf.retrieval.metrics import MetricSums, filter_pairs
from solar_tf.run.directory import open_run
from solar_tf.run.files import atomic_folder, read_json, sweep, write_arrays, write_json
from solar_tf.run.locks import try_lock
from solar_tf.runtime.console import progress, say, seconds, size, table
from solar_tf.runtime.memory import kernel_count
from solar_tf.runtime.ragged import slice_rows

QUERIES_PER_BLOCK = 2_000
SINGLE_QUERIES = 200  # timed one at a time
TOP_LABELS = 100


def run_baseline(root, name, settings=None, save_as=None, top_labels=TOP_LABELS):
    """Do what is missing of a baseline's results in a run; returns the content of metrics.json."""
    run = open_run(root)
    folder = run.paths.baseline(save_as or name)
    with try_lock(run.paths.baseline_lock(save_as or name)) as free:
        if not free:
            raise UserError(f"{folder}: another process is at work here: wait for it to end")
        sweep(folder)
        baseline = baseline_class(name)(settings)
        _check_settings(folder, name, baseline.settings)
        result = read_json(folder / "metrics.json")
        if result is None or not (folder / "predictions.npz").exists():
            data = load_data(root, baseline.settings.weighting, baseline.settings.idf_power)
            _fit(baseline, data, folder)
            result = _evaluate(
                type(baseline).load(folder / "model"), name, data, folder, top_labels
            )
            write_json(folder / "metrics.json", result)
    _report(run, result)
    return result


def _check_settings(folder, name, settings):
    """One folder, one configuration: write it down, or hold it to what is written."""
    wanted = {"baseline": name, "settings": settings.to_dict()}
    found = read_json(folder / "settings.json")
    if found is None:
        write_json(folder / "settings.json", wanted)
    elif found != wanted:
        old, new = ({"baseline": c["baseline"], **c["settings"]} for c in (found, wanted))
        changes = "; ".join(
            f"{key}={old.get(key)}, not {new.get(key)}"
            for key in {**old, **new}
            if old.get(key) != new.get(key)
        )
        raise UserError(
            f"{folder}: has been made with {changes}: choose another --save_as, or delete it"
        )


def _fit(baseline, data, folder):
    """Make the folder `model` unless it exists."""
    model, training = folder / "model", folder / "training"
    if not model.exists():
        say(f"{baseline.title}: fitting {len(data.train):,} rows, {data.num_labels:,} labels")
        training.mkdir(parents=True, exist_ok=True)
        before, started = spent_seconds(training), time.perf_counter()
        with contextlib.suppress(OSError):  # not permitted: the peak since the process began
            Path("/proc/self/clear_refs").write_text("5")  # measure the peak from here on
        baseline.fit(data, training)
        spent = before + time.perf_counter() - started
        with atomic_folder(model) as temporary:
            baseline.save(temporary)
            facts = {"seconds": spent, "peak_memory": peak_memory()}
            write_json(temporary / "fit.json", facts)
    shutil.rmtree(training, ignore_errors=True)


def _evaluate(baseline, name, data, folder, top_labels):
    k = min(top_labels, data.num_labels)
    # Ask for more than k, since a filter removes some.
    spare = int(np.diff(data.test_filter[0]).max(initial=0)) if data.test_filter else 0
    inputs, labels, num_queries = data.test.inputs, data.test.labels, len(data.test)
    sums = MetricSums(data.inverse_propensity)
    ids = np.empty((num_queries, k), np.int32)
    scores = np.empty((num_queries, k), np.float32)
    baseline.predict(inputs[:2], k)  # compiles, or loads what was compiled before
    spent = 0.0
    with progress(num_queries, "predicting", "query") as bar:
        for start in range(0, num_queries, QUERIES_PER_BLOCK):
            rows = slice(start, min(start + QUERIES_PER_BLOCK, num_queries))
            began = time.perf_counter()
            found = baseline.predict(inputs[rows], k + spare)
            spent += time.perf_counter() - began
            if spare:
                found = filter_pairs(*found, *slice_rows(*data.test_filter, rows.start, rows.stop))
            ids[rows], scores[rows] = (part[:, :k] for part in found)
            block = labels[rows]
            sums.add(ids[rows], block.indptr, block.indices)
            bar.update(len(ids[rows]))
    write_arrays(folder / "predictions.npz", {"ids": ids, "scores": scores})
    fit = read_json(folder / "model" / "fit.json")
    row = {
        "setting": baseline.title,
        "score": "baseline",
        **sums.result(),
        "ms_query": 1e3 * spent / num_queries,
        "ms_single": 1e3 * _single_seconds(baseline, inputs, k),
        "peak_memory": fit["peak_memory"],
        "model_bytes": folder_bytes(folder / "model"),
        **(facts := baseline.facts(data)),
    }
    return {
        "baseline": name,
        "settings": baseline.settings.to_dict(),
        "dataset": data.name,
        "num_queries": num_queries,
        "num_labels": data.num_labels,
        "training_seconds": fit["seconds"],
        "cores": CORES,
        "facts": list(facts),
        "rows": [row],
    }


def _single_seconds(baseline, inputs, k):
    """Median seconds of a query that comes alone."""
    spent = []
    for row in range(min(SINGLE_QUERIES, inputs.shape[0])):
        query = inputs[row : row + 1]
        began = time.perf_counter()
        baseline.predict(query, k)
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def folder_bytes(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def peak_memory():
    """The most bytes that this process has had resident."""
    return kernel_count("self", "status", "VmHWM")


def _report(run, result):
    names = [f"{name}@{k}" for name in ("P", "RP") for k in (1, 3, 5, 10)] + ["R@100"]
    names += [f"{name}@{k}" for name in ("nDCG", "PSP") for k in (1, 5)]
    rows = [
        [row["setting"]]
        + [f"{row[name]:.2f}" for name in names]
        + [f"{row[name]:.3f}" for name in ("ms_query", "ms_single")]
        + [size(row[name]) for name in ("peak_memory", "model_bytes")]
        for row in result["rows"]
    ]
    say(
        f"{result['dataset']}: {result['num_queries']:,} queries, {result['num_labels']:,} labels, "
        f"trained for {seconds(result['training_seconds'])} on {result['cores']} cores\n"
    )
    say(table(["baseline", *names, "ms a query", "alone ms", "peak memory", "model"], rows))
    for name in result.get("facts", ()):
        say(f"{name.replace('_', ' ')}: {result['rows'][0][name]:.4g}")
    say(
        "\nP@k divides by k; RP@k divides by min(k, true labels). Milliseconds are per query, "
        "on\nall cores, in blocks and one at a time. Peak memory is training's, with the data."
    )
    say(f"\nNext: {COMMAND} NAME --run {run.paths.root}, or infer.py --run {run.paths.root}")
