"""Tables 1 to 4: what was measured here, with the paper's cells beside it."""

from dataclasses import dataclass, field

from solar_tf.analysis.results import baseline_results, solar_results
from solar_tf.analysis.tables import Table
from solar_tf.reproduce import paper
from solar_tf.reproduce.execution import SOLAR, commits
from solar_tf.reproduce.paper import EVAL_MS, TRAIN_HOURS
from solar_tf.reproduce.plan import BASELINE_ROWS, SOLAR_ROWS
from solar_tf.runtime.console import seconds

# The paper's name of a metric, and ours of each that it may mean.
P_AT_3_AND_5 = {"P@1": ("P@1",), "P@3": ("P@3", "RP@3"), "P@5": ("P@5", "RP@5")}
METRICS = {
    1: {"P@1": ("P@1",), "P@5": ("P@5", "RP@5"), "P@10": ("P@10", "RP@10"), "Rec@100": ("R@100",)},
    2: P_AT_3_AND_5,
    3: {},
    4: P_AT_3_AND_5,
}
TIMES = {1: (TRAIN_HOURS, EVAL_MS), 2: (), 3: (TRAIN_HOURS, EVAL_MS), 4: (EVAL_MS,)}
QUOTED_DATASETS = {
    table: tuple(dict.fromkeys(cell.dataset for cell in paper.cells(table))) for table in METRICS
}


@dataclass
class Row:
    """A line of a table: measured values by our names and the paper's cells by its names."""

    model: str
    status: str  # measured here, measured earlier, or not run
    source: str  # run and commit, or why it was not run
    values: dict = field(default_factory=dict)
    paper: dict = field(default_factory=dict)  # dataset: {metric: value}
    verdicts: dict = field(default_factory=dict)  # metric of ours: (word, difference)


def main_rows(table, run, failed):
    """The rows of Table 1, 2 or 3 from the main run; `failed` says why baselines are missing."""
    results = solar_results(run) if run else []
    num_buckets = run.config.num_buckets if run else 0
    by_row = {(r.setting, r.score): r for r in results}
    rows = []
    for setting in SOLAR_ROWS[table]:
        # Where there are fewer than m buckets, infer.py keeps all, and names the setting so.
        kept = f"m={min(int(setting[2:]), num_buckets)}" if setting != "full" else setting
        name = f"SOLAR ({setting})"
        rows.append(_row(name, _cells(table, name), by_row.get((kept, "probability")), run, SOLAR))
        if METRICS[table]:  # evidence is not the paper's, and differs in no time
            found = by_row.get((kept, "evidence"))
            rows.append(_row(f"{name}, evidence", _cells(table, None), found, run, SOLAR))
    found = {r.method: r for r in baseline_results(run)} if run else {}
    for name, title in BASELINE_ROWS[table].items():
        reason = failed.get(name)
        rows.append(_row(title, _cells(table, title), found.get(name), run, name, reason))
    return rows


def _row(title, cells, result, run, part, reason=None):
    if result is None:
        return Row(title, "not run", reason or "not asked for", paper=cells)
    times = {TRAIN_HOURS: result.training_seconds / 3600, EVAL_MS: result.ms_query}
    values = result.metrics | times | {"epochs": result.epochs}
    source = f"{run.paths.root.name} @ {commits(run, part)}"
    return Row(title, "measured here", source, values, cells)


def _cells(table, model):
    return {dataset: quoted_cells(table, dataset, model) for dataset in QUOTED_DATASETS[table]}


def quoted_cells(table, dataset, model):
    """The paper's cells of a model by metric; Table 1 adds dimensions to the names."""
    return {
        cell.metric: cell.value
        for cell in paper.cells(table)
        if cell.dataset == dataset and cell.row.split(" (d=")[0] == model
    }


def ablation_rows(runs, counts):
    """The rows of Table 4; runs in the order of the paper's B, None where one is missing.

    Our largest, middle and smallest B stand beside the paper's, which has other data; K beside
    the same K, and other K beside nothing.
    """
    rows = []
    for (num_buckets, run), paper_buckets in zip(runs, (30_000, 20_000, 10_000), strict=True):
        for k in counts:
            subset = None if k == max(counts) else k
            found = {r.score: r for r in solar_results(run, subset)} if run else {}
            for score, model in (("probability", f"B={paper_buckets}, K={k}"), ("evidence", None)):
                title = f"B={num_buckets:,}, K={k}" + ", evidence" * (score == "evidence")
                rows.append(_row(title, _cells(4, model), found.get(score), run, SOLAR))
    return rows


def judge(table, rows, dataset):
    """Give every row its verdicts, where `dataset` is one of the paper's."""
    for row in rows:
        quoted = row.paper.get(dataset, {})
        names = METRICS[table] | {name: (name,) for name in TIMES[table]}
        for metric, ours in names.items():
            for name in ours:
                found = paper.verdict(metric, row.values.get(name), quoted.get(metric))
                if found:
                    row.verdicts[name] = found


def render(table, rows, dataset_title, dataset=None, notes=()):
    """The Table of measured and quoted cells; `dataset` is the paper's, if it is one of them."""
    ours = [name for names in METRICS[table].values() for name in names]
    header = ["model", *(["epochs"] if table == 1 else []), *ours]
    header += [{TRAIN_HOURS: "training", EVAL_MS: "ms a query"}[name] for name in TIMES[table]]
    header += ["measured here: run @ commit"]
    shown = [dataset] if dataset else QUOTED_DATASETS[table]
    header += [f"quoted: {paper.DATASETS[name].title} {_quoted_head(table)}" for name in shown]
    header += ["verdict"] if dataset else []
    cells = []
    for row in rows:
        line = [row.model]
        line += [str(row.values.get("epochs") or "-")] if table == 1 else []
        line += [_percent(row.values.get(name)) for name in ours]
        line += [_time(name, row.values.get(name)) for name in TIMES[table]]
        line += [row.source if row.values else f"not run: {row.source}"]
        line += [_quoted(table, row.paper.get(name, {})) for name in shown]
        line += [_verdict(row)] if dataset else []
        cells.append(line)
    title = f"Table {table} ({paper.SECTIONS[table]}) on {dataset_title}: {paper.TITLES[table]}"
    return Table(title, header, cells, [*_notes(table, dataset, dataset_title), *notes],
                 f"table_{table}")  # fmt: skip


def _notes(table, dataset, title):
    notes = []
    if METRICS[table]:
        notes.append(paper.PRECISION_NOTE)
        notes.append("Evidence is this project's score and has no cell in the paper.")
    if dataset is None:
        notes.append(
            f"{title} is not a dataset of the paper's: quoted cells are of other data, on 8 V100 "
            "GPUs and 48 processes, and there is no verdict."
        )
    else:
        notes.append(
            f"Verdicts: *matches* within {paper.POINTS} points, times within a factor of "
            f"{paper.RATIO}; better than the paper *differs*, too."
        )
    if TIMES[table]:
        notes.append(
            "ms a query: all cores, queries in batches; SOLAR's is the forward pass plus selection "
            "and ranking of one core divided by the cores."
        )
    if TRAIN_HOURS in TIMES[table]:
        notes.append(
            "Training is by the clock, on all cores; of a SOLAR run that was interrupted, the sum "
            "over its chunks, which train side by side."
        )
    return notes


def _quoted_head(table):
    names = [name.removeprefix("P@") for name in METRICS[table] if name.startswith("P@")]
    parts = [f"P@{'/'.join(names)}"] if names else []
    parts += ["R@100"] if "Rec@100" in METRICS[table] else []
    parts += [{TRAIN_HOURS: "h", EVAL_MS: "ms"}[name] for name in TIMES[table]]
    return ", ".join(parts)


def _quoted(table, cells):
    if not any(value is not None for value in cells.values()):
        return "-"
    precision = "/".join(_percent(cells[m]) for m in METRICS[table] if m.startswith("P@"))
    parts = [precision] if precision else []
    parts += [_percent(cells["Rec@100"])] if "Rec@100" in METRICS[table] else []
    parts += [f"{cells[m]:g}" if cells[m] is not None else "-" for m in TIMES[table]]
    return ", ".join(parts)


def _percent(value):
    return "-" if value is None else f"{value:.2f}"


def _time(name, value):
    if value is None:
        return "-"
    return seconds(3600 * value) if name == TRAIN_HOURS else f"{value:.3f}"


def _verdict(row):
    parts = []
    for name, (word, difference) in row.verdicts.items():
        short = {TRAIN_HOURS: "training", EVAL_MS: "ms"}.get(name, name)
        if difference is None:
            amount = ""
        elif name in (TRAIN_HOURS, EVAL_MS):
            amount = f" ×{difference:.2f}"
        else:
            amount = f" {difference:+.2f}"
        parts.append(f"{short} {word}{amount}")
    if parts and all(word == "not run" for word, _ in row.verdicts.values()):
        return "not run"
    return "; ".join(parts) or "-"
