"""The charts of a run's page."""

import itertools

from solar_tf.analysis import geometry
from solar_tf.analysis.charts import Chart

SCORE_COLOURS = {"probability": 0, "evidence": 1}  # the same on the whole page
LEAST = 4.0  # points that an axis of percentages spans


def model_colours(names):
    """A colour for every model: SOLAR's two scores have theirs."""
    others = (name for name in names if not name.startswith("SOLAR"))
    colours = {name: 2 + i for i, name in enumerate(others)}
    return {name: colours.get(name, int("evidence" in name)) for name in names}


def _against_precision(results, value, label, metric, settings=True):
    chart = Chart(label, metric, x_log=True, y_least=LEAST)
    colours = model_colours([result.name for result in results])
    for score, colour in SCORE_COLOURS.items():
        rows = sorted((r for r in results if r.is_solar and r.score == score), key=value)
        labels = [f"{r.setting}, {score}" if settings else f"SOLAR, {score}" for r in rows]
        xs, ys = [value(r) for r in rows], [r.metrics[metric] for r in rows]
        chart.line("", xs, ys, colour, dots=False)
        chart.points(f"SOLAR, {score}", xs, ys, colour, labels)
    for r in results:
        if not r.is_solar:
            chart.points(r.name, [value(r)], [r.metrics[metric]], colours[r.name], [r.name])
    return chart


def time_against_precision(results, metric="P@5"):
    return _against_precision(results, lambda r: r.ms_query, "ms a query", metric)


def training_against_precision(results, metric="P@5"):
    """SOLAR's settings share one training: the best of each score stands for them."""
    by_precision = sorted(results, key=lambda r: r.metrics[metric])
    best = {(r.method, r.score): r for r in by_precision}
    rows = [r for r in results if r in best.values()]
    label = "seconds of training"
    return _against_precision(rows, lambda r: r.training_seconds, label, metric, settings=False)


def curve(rows, axis, metric):
    """A metric against m or K, for both scores."""
    column = {"m": "m", "K": "num_chunks"}[axis]
    rows = [row for row in rows if row["axis"] == axis]
    ticks = [(value, f"{value:,}") for value in sorted({row[column] for row in rows})]
    chart = Chart(axis, metric, x_log=True, y_least=LEAST, x_ticks=ticks)
    for score, colour in SCORE_COLOURS.items():
        found = sorted((row[column], row[metric]) for row in rows if row["score"] == score)
        chart.line(score, *zip(*found, strict=True), colour)
    return chart


def by_epoch(history, field, label):
    """A line for every chunk."""
    chart = Chart("epoch", label)
    for i, (chunk, epochs) in enumerate(history.items()):
        xs, ys = [e["epoch"] + 1 for e in epochs], [e[field] for e in epochs]
        chart.line(f"chunk {chunk}", xs, ys, i, dots=len(history) <= 8 and len(epochs) < 20)
    return chart


def _middles(edges):
    return [(a + b) / 2 for a, b in itertools.pairwise(edges)]


def candidates(found):
    chart = Chart("candidates", "% of queries")
    for i, row in enumerate(found):
        width = row["edges"][1] - row["edges"][0]
        chart.bars(f"m={row['m']}", _middles(row["edges"]), row["share"], (0, 2, 3)[i % 3], width)
    return chart


def scores(found):
    chart = Chart("score", "% of each kind")
    xs = _middles(found["edges"])
    chart.area("misses", xs, found["misses"], 7)
    chart.area("hits", xs, found["hits"], 2)
    return chart


def trust(found):
    chart = Chart("score, % of the best", "% correct")
    for score, row in found.items():
        bins = len(row["right"])
        xs = [100 * (i + 0.5) / bins for i in range(bins)]
        chart.line(score, xs, row["right"], SCORE_COLOURS[score])
    return chart


def frequency(found):
    chart = _by_frequency(found, f"% found at {found['k']}")
    colours = model_colours(found["shares"])
    for model, shares in found["shares"].items():
        chart.line(model, range(len(shares)), shares, colours[model])
    return chart


def frequency_volume(found):
    chart = _by_frequency(found, "true labels")
    chart.bars("true labels", range(len(found["pairs"])), found["pairs"], 7)
    return chart


def _by_frequency(found, label):
    return Chart("training queries of the label", label, x_ticks=list(enumerate(found["bins"])))


def load(histogram):
    names, measured, binomial = zip(*geometry.bins(histogram), strict=True)
    edges = histogram["edges"]
    middles = [x - 0.5 for x in _middles(edges)]
    ticks = list(zip(middles, names, strict=True))
    chart = Chart("labels in a bucket", "buckets", x_ticks=ticks)
    chart.bars("measured", middles, measured, 0, edges[1] - edges[0])
    chart.line("binomial", middles, binomial, 1)
    return chart
