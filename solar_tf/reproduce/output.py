"""The tables of a reproduction as files: JSON, Markdown, LaTeX, and one page of all."""

import dataclasses
import os

from solar_tf.analysis.charts import Chart
from solar_tf.analysis.report import figures
from solar_tf.analysis.report.page import figure, grid, page, paragraph, titled
from solar_tf.analysis.results import baseline_results, solar_results
from solar_tf.analysis.tables import Table
from solar_tf.baselines import baseline_class
from solar_tf.config import load_preset
from solar_tf.reproduce import compare, paper, samples
from solar_tf.reproduce.earlier import fill_in
from solar_tf.reproduce.execution import existing_run, main_run
from solar_tf.reproduce.plan import BASELINE_ROWS, MAIN, ablation, ablation_counts
from solar_tf.run.files import atomic_write, write_json
from solar_tf.runtime.provenance import machine


@dataclasses.dataclass
class Outcome:
    """A reproduced table: what to print, and the same as plain values."""

    number: int
    tables: list  # of tables.Table, the first of which is the paper's with ours beside it
    content: dict


def collect(folder, wish, config, dataset, paper_dataset, failed):
    """The Outcomes of the tables that were asked for, from the runs that there are."""
    run = main_run(folder)
    reasons = {model: reason for (name, model), reason in failed.items() if name == MAIN}
    return [
        _table_5(run, dataset, reasons)
        if table == 5
        else _compared(table, run, folder, wish, config, dataset, paper_dataset, reasons)
        for table in wish.tables
    ]


def _compared(table, run, folder, wish, config, dataset, paper_dataset, reasons):
    if table == 4:
        counts = ablation_counts(wish.ablation_chunks)
        planned = list(ablation(config, wish.ablation_chunks))
        runs = [(p.config.num_buckets, existing_run(folder.run(p.name))) for p in planned]
        rows = compare.ablation_rows(runs, counts)
        quoted = "amazon670k"
    else:
        rows = compare.main_rows(table, run, reasons)
        quoted = paper_dataset if paper_dataset in compare.QUOTED_DATASETS[table] else None
    if table == 4 and (paper_dataset != quoted or counts != [8, 16, 32]):
        quoted = None
    notes = fill_in(rows, wish.earlier[table]) if table in wish.earlier else []
    if quoted:
        compare.judge(table, rows, quoted)
    notes += _solar_notes(wish, config) + _preset_notes(table, wish)
    shown = compare.render(table, rows, dataset.name, quoted, notes)
    content = {
        "table": table,
        "dataset": dataset.name,
        "settings": config.to_dict(),  # of SOLAR; Table 4 varies two of them
        "labels_of_cells": {"values": "measured here", "paper": "quoted"},
        "machine": machine(),
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    return Outcome(table, [shown], content)


def _solar_notes(wish, config):
    """SOLAR's settings that differ from its preset."""
    if wish.preset is None:
        return []
    usual, ours = load_preset(wish.preset).to_dict(), config.to_dict()
    changed = [f"{name}={ours[name]}" for name in ours if ours[name] != usual[name]]
    return [f"SOLAR with preset {wish.preset}, but {', '.join(changed)}."] if changed else []


def _preset_notes(table, wish):
    """The baselines that ran with a preset, not with their own paper's settings."""
    titles = [
        title
        for name, title in BASELINE_ROWS.get(table, {}).items()
        if name in wish.models and wish.preset in baseline_class(name).presets
    ]
    if not titles:
        return []
    return [
        f"{', '.join(titles)} with the settings of their preset {wish.preset}, for data of this "
        "size (docs/title_baselines.md)."
    ]


def _table_5(run, dataset, reasons):
    found = samples.make(run, dataset.test) if run else None
    reason = "the queries have no words" if dataset.kind != "text" else "SOLAR is not evaluated"
    if missing := reasons.get("glas"):
        reason += f"; GLaS: {missing}"
    content = {"table": 5, "dataset": dataset.name, "machine": machine(),
               "measured": samples.as_json(found)}  # fmt: skip
    return Outcome(5, samples.render(found, dataset.name, reason), content)


def write(outcomes, folder, dataset):
    """Write every table in all its forms, and the page."""
    for outcome in outcomes:
        write_json(folder.table(outcome.number, "json"), outcome.content)
        for form in ("markdown", "latex"):
            text = "\n".join(getattr(table, form)() for table in outcome.tables)
            suffix = {"markdown": "md", "latex": "tex"}[form]
            with atomic_write(folder.table(outcome.number, suffix), "w") as file:
                file.write(text)
    with atomic_write(folder.report, "w") as file:
        file.write(render_page(outcomes, folder, dataset))


def render_page(outcomes, folder, dataset):
    """All tables on one page, with charts of what they say."""
    on = machine()
    sections = [("about", "About", _about(folder))]
    for outcome in outcomes:
        first, *others = outcome.tables
        body = paragraph(first.title) + first.html() + titled(*others)
        if outcome.number == 4:
            body += _ablation_figures(outcome.content["rows"])
        sections.append((f"table{outcome.number}", f"Table {outcome.number}", body))
    run = main_run(folder)
    results = [*solar_results(run), *baseline_results(run)] if run else []
    if results:
        title, text = "Time against precision", "Every method of the main run, measured here."
        chart = figures.time_against_precision(results)
        training = figures.training_against_precision(results)
        shown = grid(
            figure(title, text, chart), figure("Training against precision", text, training)
        )
        sections.append(("methods", "Methods", shown))
    sections.append(("machine", "Machine", _machine(on)))
    footer = f"Made by solar reproduce on {on['date']}, commit {on['commit'] or 'unknown'}."
    title = f"SOLAR's tables on {dataset.name}"
    return page(title, "The paper's tables with ours beside them.", sections, footer)


def _about(folder):
    links = ", ".join(
        f'<a href="{os.path.relpath(path, folder.root)}">{path.parent.name}</a>'
        for path in sorted(folder.root.glob("*/report.html"))
    )
    text = (
        "Every cell is measured here, with its run and commit, or quoted from the paper. "
        + paper.PRECISION_NOTE
    )
    return paragraph(text) + (f"<p>Pages of the runs: {links}.</p>" if links else "")


def _machine(on):
    cells = [[name, str(value)] for name, value in on.items() if name != "versions"]
    cells += [[name, str(version)] for name, version in on["versions"].items()]
    return Table("Machine", ["this page was made on", ""], cells).html()


def _ablation_figures(rows):
    """P@1 and time against K, one line for each B: the trade-off that Table 4 is about."""
    charts = []
    for metric, name in (("P@1", "P@1"), ("P@5", "P@5"), (paper.EVAL_MS, "ms a query")):
        series = {}
        for row in rows:
            size, k, *evidence = row["model"].split(", ")
            if row["values"] and not evidence:
                series.setdefault(size, []).append((int(k[2:]), row["values"][metric]))
        ticks = sorted({k for points in series.values() for k, _ in points})
        chart = Chart("K", name, x_log=True, x_ticks=[(k, str(k)) for k in ticks])
        for i, (size, points) in enumerate(series.items()):
            chart.line(size, *zip(*points, strict=True), i)
        charts.append(figure(f"{name} against K", "m=25, probability; measured here.", chart))
    return grid(*charts)
