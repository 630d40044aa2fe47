"""What a reproduction will take: --dry_run."""

from solar_tf.analysis.tables import Table
from solar_tf.reproduce.execution import baseline_is_done, existing_run, solar_is_done
from solar_tf.reproduce.plan import MODELS
from solar_tf.runtime.console import say, seconds, size

# Seconds of a fit on the embedded default, 48,344 rows and 42,242 labels, on two cores that other
# work shared (benchmarks/results/reproduction/debian). They grow with the rows, or a little faster.
MEASURED_ROWS = 48_344
MEASURED_SECONDS = {
    "annexml": 115,
    "dssm": 145,
    "glas": 171,
    "parabel": 26,
    "pfastrexml": 49,
    "sleec": 227,
    "slice": 40,
    "snrm": 246,
}


def costs(runs, folder, dataset, wish, workers):
    """A Table of the runs with their estimated times and disk; nothing is written."""
    from solar_tf.operations.estimate import estimate

    rows, total = [], 0.0
    num_rows = dataset.train.count_rows()
    for planned in runs:
        run = existing_run(folder.run(planned.name))
        tables = ", ".join(map(str, planned.tables))
        config = planned.config
        if planned.solar:
            name = f"{planned.name}: SOLAR, K={config.num_chunks}, B={config.num_buckets:,}"
            if run and solar_is_done(run, planned):
                rows.append([name, tables, "done", "-", "-"])
            else:
                say(f"measuring a few steps of {name}")
                found = estimate(dataset, config, workers)
                training = found.chunk_seconds * -(-config.num_chunks // found.trainers)
                total += found.preprocess_seconds + training
                text = f"preprocess {seconds(found.preprocess_seconds)}, train {seconds(training)}"
                rows.append([name, tables, text, size(found.disk_bytes), "measured steps"])
        for name in planned.baselines:
            spent, disk, how = _baseline(name, num_rows)
            if run and baseline_is_done(run, name):
                rows.append([f"{planned.name}: {name}", tables, "done", "-", "-"])
                continue
            total += spent or 0.0
            text = "not estimated" if spent is None else f"fit {seconds(spent)}"
            rows.append([f"{planned.name}: {name}", tables, text, disk, how])
    notes = [
        f"About {seconds(total)} in all, besides what is not estimated and the evaluations: a few "
        "milliseconds a test query for each.",
    ]
    left_out = [model for model in MODELS if model not in wish.models]
    if left_out:
        notes.append(f"Left out by --models: {', '.join(left_out)}.")
    header = ["run", "tables", "time here", "disk", "how it is known"]
    return Table(f"What a reproduction in {folder.root} takes", header, rows, notes, "costs")


def _baseline(name, num_rows):
    """seconds, disk and where they come from."""
    from solar_tf.baselines import BASELINES

    if name not in BASELINES:
        return None, "-", "not part of this version"
    if name not in MEASURED_SECONDS:
        return None, "-", "-"
    spent = MEASURED_SECONDS[name] * num_rows / MEASURED_ROWS
    return spent, "-", "rough: by the rows, from the embedded default"
