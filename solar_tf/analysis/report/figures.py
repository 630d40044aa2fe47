"""The charts of a run's page, and the tables of their numbers."""

import itertools

from solar_tf.analysis import geometry
from solar_tf.analysis.charts import Chart, number
from solar_tf.analysis.tables import Table

PROBABILITY, EVIDENCE = 0, 1  # colours, the same on the whole page
LEAST = 4.0  # points that an axis of percentages spans
SCORE_COLOURS = {"probability": PROBABILITY, "evidence": EVIDENCE}


def model_colours(names):
    """A colour for every model: SOLAR's two scores have theirs."""
    others = [name for name in names if not name.startswith("SOLAR")]
    colours = {name: 2 + i for i, name in enumerate(others)}
    return {name: colours.get(name, EVIDENCE if "evidence" in name else PROBABILITY)
            for name in names}  # fmt: skip


def _against_precision(results, value, label, metric, settings=True):
    chart = Chart(label, metric, x_log=True, y_least=LEAST)
    colours = model_colours([result.name for result in results])
    for score in SCORE_COLOURS:
        rows = sorted((r for r in results if r.is_solar and r.score == score), key=value)
        labels = [f"{r.setting}, {score}" if settings else f"SOLAR, {score}" for r in rows]
        xs, ys = [value(r) for r in rows], [r.metrics[metric] for r in rows]
        chart.line("", xs, ys, SCORE_COLOURS[score], dots=False)
        chart.points(f"SOLAR, {score}", xs, ys, SCORE_COLOURS[score], labels)
    for r in results:
        if not r.is_solar:
            chart.points(r.name, [value(r)], [r.metrics[metric]], colours[r.name], [r.name])
    return chart


def time_against_precision(results, metric="P@5"):
    return _against_precision(results, lambda r: r.ms_query, "ms a query", metric)


def training_against_precision(results, metric="P@5"):
    """SOLAR's settings share one training: the best of each score stands for them."""
    best = {}
    for r in results:
        key = (r.method, r.score)
        if key not in best or r.metrics[metric] > best[key].metrics[metric]:
            best[key] = r
    rows = list(best.values())
    label = "seconds of training"
    return _against_precision(rows, lambda r: r.training_seconds, label, metric, settings=False)


def curve(rows, axis, metric):
    """A metric against m or K, for both scores."""
    column, label = {"m": ("m", "m"), "K": ("num_chunks", "K")}[axis]
    rows = [row for row in rows if row["axis"] == axis]
    values = sorted({row[column] for row in rows})
    ticks = [(v, f"{v:,}") for v in values]
    chart = Chart(label, metric, x_log=True, y_least=LEAST, x_ticks=ticks)
    cells = [[f"{v:,}"] for v in values]
    for score, colour in SCORE_COLOURS.items():
        found = {row[column]: row[metric] for row in rows if row["score"] == score}
        chart.line(score, values, [found[v] for v in values], colour)
        for cell, v in zip(cells, values, strict=True):
            cell.append(f"{found[v]:.2f}")
    return chart, Table(metric, [label, *SCORE_COLOURS], cells)


def training_curves(history):
    return _by_epoch(history, "loss", "loss", "{:.2f}")


def training_speed(history):
    return _by_epoch(history, "rows_per_second", "rows a second", "{:,.0f}")


def _by_epoch(history, field, label, form):
    chart = Chart("epoch", label)
    few = len(history) <= 8
    for i, (chunk, epochs) in enumerate(history.items()):
        xs, ys = [e["epoch"] + 1 for e in epochs], [e[field] for e in epochs]
        chart.line(f"chunk {chunk}" if few else "", xs, ys, i, dots=few and len(epochs) < 20)
    longest = max(history.values(), key=len)
    cells = [
        [str(i + 1), *(form.format(epochs[i][field]) if i < len(epochs) else "-"
                       for epochs in history.values())]
        for i in range(len(longest))
    ]  # fmt: skip
    return chart, Table(label, ["epoch", *(f"chunk {c}" for c in history)], cells)


def _middles(edges):
    return [(a + b) / 2 for a, b in itertools.pairwise(edges)]


def candidates(found):
    chart = Chart("candidates", "% of queries")
    for i, row in enumerate(found):
        width = row["edges"][1] - row["edges"][0]
        chart.bars(f"m={row['m']}", _middles(row["edges"]), row["share"], (0, 2, 3)[i % 3], width)
    cells = [[f"m={r['m']}", number(r["min"]), number(r["mean"]), number(r["max"])] for r in found]
    return chart, Table("candidates", ["", "fewest", "mean", "most"], cells)


def scores(found):
    chart = Chart("score", "% of each kind")
    xs = _middles(found["edges"])
    chart.area("misses", xs, found["misses"], 7)
    chart.area("hits", xs, found["hits"], 2)
    cells = [
        [number(x), *(f"{value:.2f}" for value in pair)]
        for x, *pair in zip(xs, found["hits"], found["misses"], strict=True)
    ]
    return chart, Table("scores", ["score", "% of hits", "% of misses"], cells)


def trust(found):
    chart = Chart("score, % of the best", "% correct")
    for score, row in found.items():
        xs = [100 * x / row["edges"][-1] for x in _middles(row["edges"])]
        chart.line(score, xs, row["right"], SCORE_COLOURS[score])
    return chart


def frequency(found):
    places = list(range(len(found["bins"])))
    chart = Chart(
        "training queries of the label",
        f"% found at {found['k']}",
        x_ticks=list(zip(places, found["bins"], strict=True)),
    )
    colours = model_colours(found["shares"])
    for model, shares in found["shares"].items():
        chart.line(model, places, shares, colours[model])
    cells = [
        [name, f"{pairs:,}", *(f"{shares[i]:.2f}" for shares in found["shares"].values())]
        for i, (name, pairs) in enumerate(zip(found["bins"], found["pairs"], strict=True))
    ]
    return chart, Table("by frequency", ["training queries", "pairs", *found["shares"]], cells)


def frequency_volume(found):
    places = list(range(len(found["bins"])))
    ticks = list(zip(places, found["bins"], strict=True))
    chart = Chart("training queries of the label", "true labels", x_ticks=ticks)
    chart.bars("", places, found["pairs"], 7)
    return chart


def load(histogram):
    edges = histogram["edges"]
    middles = [x - 0.5 for x in _middles(edges)]
    chart = Chart("labels in a bucket", "buckets")
    chart.bars("measured", middles, histogram["measured"], 0, edges[1] - edges[0])
    chart.line("binomial", middles, histogram["binomial"], 1)
    cells = [[sizes, f"{a:,}", f"{b:,.1f}"] for sizes, a, b in geometry.bins(histogram)]
    return chart, Table("load", ["labels", "buckets", "binomial"], cells)
