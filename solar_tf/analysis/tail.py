"""Frequent and rare: where the hits of any model on a run come from."""

import numpy as np

from solar_tf.analysis.results import all_results, predictions
from solar_tf.analysis.tables import Table
from solar_tf.errors import UserError
from solar_tf.retrieval.metrics import KS, RECALL_AT, evaluate, hits, true_labels
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_arrays
from solar_tf.runtime.ragged import row_numbers, row_splits, take_rows

TENTHS = 10
METRICS = (*(f"P@{k}" for k in KS), f"R@{RECALL_AT}")


def label_groups(counts):
    """The group of each label by its training count [N]: 0 is unseen, 1 to 10 rare to frequent.

    Labels of equal counts share a group: groups are only about tenths, and some may be empty.
    """
    groups = np.zeros(len(counts), np.int64)
    seen = np.sort(counts[counts > 0])
    rarer = np.searchsorted(seen, counts[counts > 0])  # how many labels are rarer
    groups[counts > 0] = 1 + TENTHS * rarer // max(len(seen), 1)
    return groups


def row_features(run, split):
    """The words or features of a split's rows: splits [n + 1], ids."""
    shards = range(run.summary[split]["shards"])
    pieces = [read_arrays(run.paths.rows(split, shard), "preprocess.py") for shard in shards]
    counts = np.concatenate([np.diff(piece["feature_splits"]) for piece in pieces])
    return row_splits(counts), np.concatenate([piece["features"] for piece in pieces])


def query_halves(run):
    """The rows of the frequent and of the infrequent test queries; None for dense inputs.

    Queries are sorted by the sum of their words' frequencies (appendix D). A word counts once in
    a query, and its frequency is the number of training rows that have it.
    """
    if run.dataset["kind"] == "dense":
        return None
    splits, words = row_features(run, "test")
    _, trained = row_features(run, "train")
    frequencies = np.bincount(trained, minlength=run.dataset["num_features"])
    sums = np.bincount(row_numbers(splits), frequencies[words], len(splits) - 1)
    order = np.argsort(sums, kind="stable")
    middle = len(order) // 2
    return {"frequent": np.sort(order[middle:]), "infrequent": np.sort(order[:middle])}


def by_labels(ids, splits, labels, groups, recall_at=RECALL_AT):
    """For each group of labels, in percent: its share of P@k, and the recall of its labels.

    Shares of P@k add up to P@k over all groups. Recall is over the group's true labels of all
    queries, not a mean over queries, as most queries have none of a group.
    """
    found = hits(ids, splits, labels)
    result = []
    for group, true in enumerate(np.bincount(groups[labels], minlength=groups.max() + 1)):
        own = found & (groups[ids] == group)
        row = {f"P@{k}": 100 * float(own[:, :k].sum()) / (k * len(ids)) for k in KS}
        row[f"R@{recall_at}"] = 100 * float(own[:, :recall_at].sum()) / max(1, true)
        result.append(row)
    return result


def by_half(ids, splits, labels, halves, ks=KS):
    """Metrics of each half of the queries, in percent."""
    result = {}
    for half, rows in halves.items():
        own_splits, places = take_rows(splits, rows)
        result[half] = evaluate(ids[rows], own_splits, labels[places], ks=ks)
    return result


def measure(root):
    """All figures of a run as plain numbers, for `render`."""
    run = open_run(root)
    results = all_results(run)
    if not results:
        raise UserError(f"{root}: nothing has been predicted: run infer.py, or a baseline")
    truth = true_labels(run)
    counts = np.load(run.paths.label_counts, allow_pickle=False)
    groups = label_groups(counts)
    true = np.bincount(groups[truth[1]], minlength=groups.max() + 1)
    kept = np.unique(groups)
    halves = query_halves(run)
    models = {}
    for result in results:
        ids = predictions(run, result)[0]
        found = by_labels(ids, *truth, groups)
        models[result.name] = model = {"labels": [found[group] for group in kept]}
        if halves:
            model["queries"] = {
                half: {metric: row[metric] for metric in METRICS}
                for half, row in by_half(ids, *truth, halves).items()
            }
    return {
        "dataset": run.dataset["name"],
        "num_queries": run.summary["test"]["rows"],
        "groups": [
            {
                "group": int(group),
                "labels": int(np.sum(groups == group)),
                "least": int(counts[groups == group].min()),
                "most": int(counts[groups == group].max()),
                "true": int(true[group]),
            }
            for group in kept
        ],
        "models": models,
    }


def render(facts):
    """The figures as Markdown tables."""
    groups, models = facts["groups"], facts["models"]

    def span(group):
        least, most = group["least"], group["most"]
        return f"{least:,}" if least == most else f"{least:,} to {most:,}"

    names = [span(group) if group["group"] else "unseen" for group in groups]
    header = ["training rows of a label", *names]
    rows = [
        ["labels", *(f"{group['labels']:,}" for group in groups)],
        ["true labels of test queries", *(f"{group['true']:,}" for group in groups)],
    ]
    title = f"{facts['dataset']}: {facts['num_queries']:,} test queries"
    tables = [Table(title, header, rows)]
    for metric, meaning in (
        (f"R@{RECALL_AT}", "share of these true labels that is found, by model"),
        ("P@1", "points of P@1 that these labels give, which add up to it"),
        ("P@5", "points of P@5"),
    ):
        rows = [
            [name, *(f"{row[metric]:.2f}" for row in model["labels"])]
            for name, model in models.items()
        ]
        tables.append(Table(f"{metric}: {meaning}", header, rows))
    halves = {name: model["queries"] for name, model in models.items() if "queries" in model}
    if halves:
        tables.append(halves_table("By the frequency of the query's words", halves))
    return "\n\n".join(table.text() for table in tables)


def halves_table(title, models, notes=(), key=""):
    """A Table of metrics by model and half: {model: {half: {metric: value}}}."""
    (first, *_) = models.values()
    header = ["model", *(f"{half}: {metric}" for half in first for metric in first[half])]
    rows = [
        [name, *(f"{value:.2f}" for row in halves.values() for value in row.values())]
        for name, halves in models.items()
    ]
    return Table(title, header, rows, list(notes), key)
