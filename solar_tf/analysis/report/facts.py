"""Everything that a report shows of a run, as plain numbers; None for what is not there yet."""

import math

import numpy as np

from solar_tf.analysis import geometry
from solar_tf.analysis.report import curves, samples
from solar_tf.analysis.results import (
    baseline_results,
    best_shortlist,
    predictions,
    solar_results,
)
from solar_tf.analysis.tail import by_labels
from solar_tf.retrieval import metrics
from solar_tf.retrieval.metrics import true_labels
from solar_tf.retrieval.ranking import SCORES
from solar_tf.run.files import read_json
from solar_tf.run.manifest import read_config
from solar_tf.run.weights import read_state
from solar_tf.runtime.console import progress
from solar_tf.runtime.provenance import machine

PAIRS = 200_000  # pairs of labels whose vectors are compared
SHOWN_RANKS = 10  # predictions whose scores are looked at
FOUND_AT = 10  # k of the accuracy by label frequency
FREQUENCY_EDGES = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, math.inf)
SCORE_BINS = 30
EACH_HALF = 3  # sample queries of each half


def gather(run, source=None):
    """The facts of a run (a run.directory.Run); `source` has the texts of its test queries."""
    with progress(5, "report", "part") as bar:
        results = solar_results(run)
        rows = [*results, *baseline_results(run)]
        facts = {
            "root": str(run.paths.root),
            "dataset": run.dataset,
            "rows": {split: counts["rows"] for split, counts in run.summary.items()},
            "config": run.config,
            "num_chunks": run.config.num_chunks,
            "num_buckets": run.config.num_buckets,
            "trained": run.trained_chunks(),
            "results": rows,
            "history": training_history(run),
            "made_with": _made_with(run),
            "provenance": (read_json(run.paths.provenance) or {}).get("parts", {}),
            "machine": machine(),
        }
        bar.update()
        facts["geometry"] = geometry.measure(run, PAIRS)
        bar.update()
        facts |= _curves(run)
        bar.update()
        compared = _compared(rows)
        ids = {result.name: predictions(run, result)[0] for result in compared}
        facts["frequency"] = accuracy_by_frequency(run, ids) if ids else None
        facts["scores"] = _scores(run, results)
        bar.update()
        facts["samples"] = samples.draw(run, ids, EACH_HALF, source, top=5)
        bar.update()
    return facts


def training_history(run):
    """Epochs of every trained chunk, by chunk."""
    paths = {chunk: run.paths.chunk(chunk) / "history.json" for chunk in run.trained_chunks()}
    return {chunk: read_json(path) for chunk, path in paths.items() if path.exists()}


def _made_with(run):
    content = read_config(run.paths)
    states = (read_state(run.paths.chunk(chunk)) for chunk in run.trained_chunks())
    products = {state.get("products", "float32") for state in states}
    made = {"solar_tf": content.get("solar_tf"), **content.get("versions", {})}
    return made | ({"matrix products": " and ".join(sorted(products))} if products else {})


def _compared(rows):
    """The models whose predictions are examined: SOLAR with its largest m, and the baselines."""
    shortlists = [best_shortlist(rows, score) for score in SCORES]
    return [*filter(None, shortlists), *(row for row in rows if not row.is_solar)]


def _curves(run):
    top = curves.load_top_buckets(run)
    if top is None:
        return {"curves": None, "candidates": None, "curve_queries": 0}
    rows, counts = curves.measure(top)
    shown = {m: counts[m] for m in counts if m in (25, 50, 100)} or {
        max(counts): counts[max(counts)]
    }
    candidates = []
    for m, values in shown.items():
        heights, edges = np.histogram(values, bins=min(30, max(1, int(np.ptp(values)) + 1)))
        candidates.append({"m": m, "edges": edges.tolist(), "share": _shares(heights),
                           "mean": float(values.mean()), "min": int(values.min()),
                           "max": int(values.max())})  # fmt: skip
    return {"curves": rows, "candidates": candidates, "curve_queries": len(top.queries)}


def _shares(counts):
    return (100 * counts / max(counts.sum(), 1)).tolist()


def accuracy_by_frequency(run, ids_by_model, k=FOUND_AT):
    """The share of true labels among the first k predictions, by their number of training rows."""
    counts = np.load(run.paths.label_counts, allow_pickle=False)
    truth = true_labels(run)
    groups = np.searchsorted(FREQUENCY_EDGES, counts, side="right") - 1
    pairs = np.bincount(groups[truth[1]])
    used = np.flatnonzero(pairs)
    shares = {}
    for model, ids in ids_by_model.items():
        rows = by_labels(ids, *truth, groups, recall_at=k)
        shares[model] = [rows[group][f"R@{k}"] for group in used]
    return {
        "k": k,
        "bins": [geometry.span(*FREQUENCY_EDGES[i : i + 2]) for i in used],
        "pairs": pairs[used].tolist(),
        "shares": shares,
    }


def _scores(run, results):
    """Scores of right and wrong predictions among the first ones, for both ways of scoring."""
    splits, labels = true_labels(run)
    found = {}
    for score in SCORES:
        result = best_shortlist(results, score)
        if result is None:
            continue
        ids, scores = (array[:, :SHOWN_RANKS] for array in predictions(run, result))
        right = metrics.hits(ids, splits, labels)
        wrong = ~right & (ids != metrics.PADDING)
        edges = np.linspace(0, max(float(scores.max(initial=0)), 1e-6), SCORE_BINS + 1)
        hits, misses = (np.histogram(scores[kind], edges)[0] for kind in (right, wrong))
        totals = hits + misses
        found[score] = {
            "setting": result.setting,
            "edges": edges.tolist(),
            "hits": _shares(hits),
            "misses": _shares(misses),
            "right": [float(100 * h / n) if n >= 20 else None
                      for h, n in zip(hits, totals, strict=True)],
        }  # fmt: skip
    return found
