"""The sections of a run's page, each from the facts of `facts.gather`."""

import dataclasses
import html

from solar_tf.analysis import geometry as measured
from solar_tf.analysis.charts import number
from solar_tf.analysis.report import figures
from solar_tf.analysis.report.page import cards, figure, grid, paragraph, titled
from solar_tf.analysis.results import best_shortlist
from solar_tf.analysis.tables import Table
from solar_tf.analysis.tail import halves_table
from solar_tf.runtime import console

COLUMNS = ("P@1", "P@3", "P@5", "P@10", "RP@5", "RP@10", "R@100", "nDCG@5", "PSP@5")
NOTE = (
    "P@k divides by k; RP@k divides by min(k, true labels), as the evaluators of the paper's "
    "authors do. Probability is the paper's score, evidence this project's. ms a query is with "
    "all cores: SOLAR's forward pass, plus selection and ranking of one core divided by the cores."
)


def build(facts):
    """(anchor, name, html) of every section that the run has facts for."""
    sections = [
        ("overview", "Overview", overview(facts)),
        ("results", "Results", results(facts)),
        ("precision", "Precision", precision(facts)),
        ("training", "Training", training(facts)),
        ("retrieval", "Retrieval", retrieval(facts)),
        ("labels", "Labels", labels(facts)),
        ("queries", "Sample queries", queries(facts)),
        ("geometry", "Geometry", geometry(facts)),
        ("setup", "Set-up", setup(facts)),
    ]
    return [section for section in sections if section[2]]


def overview(facts):
    dataset, shown = facts["dataset"], facts["results"]
    best = best_shortlist(shown, "evidence") or best_shortlist(shown)
    pairs = [
        ("training queries", f"{facts['rows'].get('train', 0):,}"),
        ("test queries", f"{facts['rows'].get('test', 0):,}"),
        ("labels", f"{dataset['num_labels']:,}"),
        ("chunks × buckets", f"{facts['num_chunks']} × {facts['num_buckets']:,}"),
    ]
    if best:
        pairs += [
            (f"P@1, {best.setting}, {best.score}", f"{best.metrics['P@1']:.1f}"),
            (f"R@100, {best.setting}, {best.score}", f"{best.metrics['R@100']:.1f}"),
            ("training, all chunks", console.seconds(best.training_seconds)),
            (f"a query, {best.setting}", f"{best.ms_query:.2g} ms"),
        ]
    text = ""
    if len(facts["trained"]) < facts["num_chunks"]:
        text = f"{len(facts['trained'])} of {facts['num_chunks']} chunks are trained so far."
    elif not shown:
        text = "Not evaluated yet: run infer.py, then make this page again."
    return cards(pairs) + (paragraph(text) if text else "")


def results(facts):
    if not facts["results"]:
        return ""
    return results_table(facts["results"]).html() + grid(
        figure(
            "Time against precision",
            "Every method of this run; up and to the left is better. SOLAR's points are full, "
            "then its values of m.",
            figures.time_against_precision(facts["results"]),
        ),
        figure(
            "Training against precision",
            "Seconds of training on this machine, all chunks together.",
            figures.training_against_precision(facts["results"]),
        ),
    )


def results_table(rows):
    cells = [
        [row.name]
        + [f"{row.metrics[name]:.2f}" if name in row.metrics else "-" for name in COLUMNS]
        + [f"{row.metrics['candidates']:,.0f}" if "candidates" in row.metrics else "-"]
        + [console.seconds(row.training_seconds), f"{row.ms_query:.3f}"]
        for row in rows
    ]
    header = ["model", *COLUMNS, "candidates", "training", "ms a query"]
    return Table("Results", header, cells, [NOTE], "results")


def precision(facts):
    if not facts["curves"]:
        return ""
    parts = []
    for metric in ("P@1", "P@5", "R@100"):
        for axis, text in (
            ("m", "Buckets kept of each chunk (§3.3), all chunks."),
            ("K", "The first chunks only; nothing is retrained."),
        ):
            chart = figures.curve(facts["curves"], axis, metric)
            parts.append(figure(f"{metric} against {axis}", text, chart, chart.numbers()))
    return paragraph(
        f"{facts['curve_queries']:,} test queries, ranked anew from the top buckets that infer.py "
        "left. With one chunk, all labels of a bucket have the same score."
    ) + grid(*parts)


def training(facts):
    if not facts["history"]:
        return ""
    loss = figures.by_epoch(facts["history"], "loss", "loss")
    speed = figures.by_epoch(facts["history"], "rows_per_second", "rows a second")
    return grid(
        figure(
            "Loss of every chunk",
            "Binary cross entropy, summed over the buckets, mean of an epoch (§3.2). Chunks never "
            "communicate: that their curves lie together is the balance of the hashes.",
            loss,
            loss.numbers(),
        ),
        figure(
            "Speed", "Training rows a second, by epoch.", speed, speed.numbers("{:,.0f}".format)
        ),
    )


def retrieval(facts):
    parts = []
    if facts["candidates"]:
        chart = figures.candidates(facts["candidates"])
        cells = [
            [f"m={row['m']}", *(number(row[name]) for name in ("min", "mean", "max"))]
            for row in facts["candidates"]
        ]
        numbers = Table("candidates", ["", "fewest", "mean", "most"], cells)
        text = (
            "Distinct labels that a query looks up and scores (§3.3). The narrower, the more alike "
            f"the times of queries are. {facts['curve_queries']:,} test queries."
        )
        parts.append(figure("Candidates per query", text, chart, numbers))
    for score, found in (facts["scores"] or {}).items():
        chart = figures.scores(found)
        text = (
            f"The first ten predictions of every test query at {found['setting']}: scores of those "
            "that are true labels and of those that are not."
        )
        title = f"Scores of hits and misses: {score}"
        parts.append(figure(title, text, chart, chart.numbers()))
    if facts["scores"]:
        chart = figures.trust(facts["scores"])
        text = "Share of correct ones among predictions with such a score, from zero to the best."
        parts.append(figure("What a score is worth", text, chart, chart.numbers()))
    return grid(*parts) if parts else ""


def labels(facts):
    if not facts["frequency"]:
        return ""
    found = figures.frequency(facts["frequency"])
    volume = figures.frequency_volume(facts["frequency"])
    k = facts["frequency"]["k"]
    return grid(
        figure(
            "Accuracy by label frequency",
            f"Share of true labels among the first {k} predictions, by the label's number of "
            "training queries.",
            found,
            found.numbers(),
        ),
        figure(
            "How many there are",
            "True labels of test queries, by frequency.",
            volume,
            volume.numbers("{:,}".format),
        ),
    )


def queries(facts):
    drawn = facts["samples"]
    if not drawn:
        return ""
    intro = (
        "Drawn at random, with a fixed seed, from the frequent and from the infrequent half of the "
        "test queries: by the summed frequency of their words, as in appendix D of the paper."
    )
    if not drawn.have_texts:
        intro += " Their texts are not at hand: shown are their known words, the rarest first."
    halves = halves_table("All test queries, by half", drawn.halves).html()
    return paragraph(intro) + halves + grid(*map(sample, drawn.queries))


def sample(query):
    """A query with the predictions of every model; hits are marked by colour and by a sign."""
    parts = [
        f"<div class=sample><span class=tag>{query.half}</span><q>{html.escape(query.text)}</q>",
    ]
    for model, predictions in query.predictions.items():
        hits = sum(correct for _, correct in predictions)
        items = "".join(
            f'<li class="{"right" if correct else "wrong"}">{html.escape(title)}'
            f"{' ✓' if correct else ''}</li>"
            for title, correct in predictions
        )
        parts.append(f"<h3>{html.escape(model)}: {hits} correct</h3><ol>{items}</ol>")
    truth = ", ".join(map(html.escape, query.truth))
    count = f"{query.num_true} true label{'s' * (query.num_true != 1)}"
    parts.append(f"<details><summary>{count}</summary>{truth}</details></div>")
    return "".join(parts)


def geometry(facts):
    chart = figures.load(facts["geometry"]["load"]["histogram"])
    text = (
        "Labels get a random bucket in each chunk (§3.1): the load of the buckets is binomial, "
        "nearly equal but not equal."
    )
    *tables, work = measured.tables(facts["geometry"])
    shown = figure("Load of the buckets, all chunks", text, chart, chart.numbers(number))
    return grid(shown, f"<div>{titled(*tables)}</div>") + titled(work)


def setup(facts):
    config = [
        [field.name, str(getattr(facts["config"], field.name)), str(field.default),
         field.metadata["source"], field.metadata["help"]]
        for field in dataclasses.fields(facts["config"])
    ]  # fmt: skip
    header = ["hyper-parameter", "value", "paper's books, or default", "source", "meaning"]
    on = facts["machine"]
    places = [
        ("run", facts["root"]),
        ("dataset", facts["dataset"]["name"]),
        *((f"file: {role}", f"{file['name']}, {console.size(file['bytes'])}, sha256 "
           f"{file['sha256'][:12]}…") for role, file in facts["dataset"]["files"].items()),
        ("run made with", ", ".join(f"{k} {v}" for k, v in facts["made_with"].items())),
        *((f"measured: {part}", _measured(visits)) for part, visits in facts["provenance"].items()),
        ("this page", f"{on['date']}, commit {on['commit'] or '-'}, {on['cpu']}, {on['cores']} "
         f"cores, {on['memory_gb']} GB, Python {on['python']}, "
         + ", ".join(f"{k} {v}" for k, v in on["versions"].items())),
    ]  # fmt: skip
    return (
        Table("Configuration", header, config).html()
        + Table("Environment", ["", ""], [list(pair) for pair in places]).html()
    )


def _measured(visits):
    return "; ".join(
        f"{v['date']}, commit {v['commit'] or '-'}, {v['cores']} cores, load {v['load']}"
        for v in visits
    )
