"""Frequent and rare: where the hits of any model on a run come from."""

import numpy as np

from solar_tf.baselines.inputs import load_data
from solar_tf.errors import UserError
from solar_tf.retrieval.metrics import evaluate, hits, without_pairs
from solar_tf.run.directory import open_run, read_arrays
from solar_tf.runtime.console import table
from solar_tf.runtime.ragged import row_splits

KS = (1, 5, 10)
RECALL_AT = 100
TENTHS = 10
HALVES = ("infrequent", "frequent")


def label_groups(counts):
    """The group of each label by its training count [N]: 0 is unseen, 1 to 10 rare to frequent.

    Labels of equal counts share a group, so that groups are tenths about, and some may be empty.
    """
    groups = np.zeros(len(counts), np.int64)
    seen = np.sort(counts[counts > 0])
    below = np.searchsorted(seen, counts[counts > 0])  # labels that are rarer
    groups[counts > 0] = 1 + TENTHS * below // max(len(seen), 1)
    return groups


def query_halves(inputs, train_inputs):
    """0 for the infrequent half of the test queries, 1 for the frequent one: int64 [Q].

    Queries are sorted by the sum of their words' frequencies, words of a query counting once, and
    frequencies being training rows that have the word.
    """
    frequencies = np.bincount(train_inputs.indices, minlength=train_inputs.shape[1])
    rows = np.repeat(np.arange(inputs.shape[0]), np.diff(inputs.indptr))
    sums = np.bincount(rows, frequencies[inputs.indices], inputs.shape[0])
    halves = np.zeros(len(sums), np.int64)
    halves[np.argsort(sums, kind="stable")[len(sums) // 2 :]] = 1
    return halves


def by_labels(ids, splits, labels, groups):
    """For each group of labels, in percent: its share of P@k, and the recall of its labels.

    Shares of P@k add up to P@k over all groups. Recall is over the group's true labels of all
    queries, not a mean over queries, as most queries have none of a group.
    """
    found = hits(ids, splits, labels)
    num_groups = groups.max(initial=0) + 1
    true = np.bincount(groups[labels], minlength=num_groups)
    result = []
    for group in range(num_groups):
        own = found & (groups[ids] == group)
        row = {f"P@{k}": 100 * float(own[:, :k].sum()) / (k * len(ids)) for k in KS}
        row[f"R@{RECALL_AT}"] = 100 * float(own[:, :RECALL_AT].sum()) / max(1, true[group])
        result.append(row)
    return result


def by_queries(ids, splits, labels, halves):
    """Metrics of each half of the queries."""
    result = []
    for half in range(len(HALVES)):
        rows = np.flatnonzero(halves == half)
        counts = np.diff(splits)[rows]
        places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        own = labels[np.repeat(splits[rows], counts) + places]
        own_splits = row_splits(counts)
        found = evaluate(ids[rows], own_splits, own, ks=KS, recall_at=RECALL_AT)
        result.append({name: found[name] for name in (*(f"P@{k}" for k in KS), f"R@{RECALL_AT}")})
    return result


def rankings(run):
    """(model, ids [Q, width]) of all that has predicted the test queries of a run."""
    for num_chunks in (None, *range(1, run.config.num_chunks + 1)):
        path = run.paths.predictions(num_chunks)
        if not path.exists():
            continue
        suffix = f", {num_chunks} chunks" if num_chunks else ""
        for name, ids in read_arrays(path, "infer.py").items():
            if name.endswith("_ids"):
                yield f"SOLAR {name.removesuffix('_ids').replace('_', ' ')}{suffix}", ids
    for path in sorted(run.paths.baseline("NAME").parent.glob("*/predictions.npz")):
        yield path.parent.name, read_arrays(path, "solar baseline")["ids"]


def measure(root):
    """All figures of a run as plain numbers, for `render` and for reports."""
    run = open_run(root)
    data = load_data(root, "counts")
    splits, labels = data.test.labels.indptr.astype(np.int64), data.test.labels.indices
    if data.test_filter:
        splits, labels = without_pairs(splits, labels, *data.test_filter)
    counts = data.label_counts
    groups = label_groups(counts)
    true = np.bincount(groups[labels], minlength=groups.max() + 1)
    kept = [group for group in range(len(true)) if np.any(groups == group)]
    halves = None
    if data.kind != "dense":
        halves = query_halves(data.test.inputs, data.train.inputs)
    models = {}
    for name, ids in rankings(run):
        found = by_labels(ids, splits, labels, groups)
        models[name] = {"labels": [found[group] for group in kept]}
        if halves is not None:
            models[name]["queries"] = by_queries(ids, splits, labels, halves)
    if not models:
        raise UserError(f"{root}: nothing has been predicted: run infer.py, or a baseline")
    return {
        "dataset": data.name,
        "num_queries": len(data.test),
        "groups": [
            {
                "group": group,
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

    names = ["unseen" if not group["group"] else span(group) for group in groups]
    header = ["training rows of a label", *names]
    parts = [f"{facts['dataset']}: {facts['num_queries']:,} test queries\n"]
    rows = [
        ["labels", *(f"{group['labels']:,}" for group in groups)],
        ["true labels of test queries", *(f"{group['true']:,}" for group in groups)],
    ]
    parts.append(table(header, rows))
    for metric, meaning in (
        (f"R@{RECALL_AT}", "share of these true labels that is found, by model"),
        ("P@1", "points of P@1 that these labels give, which add up to it"),
        ("P@5", "points of P@5"),
    ):
        rows = [
            [name, *(f"{row[metric]:.2f}" for row in model["labels"])]
            for name, model in models.items()
        ]
        parts.append(f"\n{metric}: {meaning}\n\n{table(header, rows)}")
    if all("queries" in model for model in models.values()):
        metrics = [*(f"P@{k}" for k in KS), f"R@{RECALL_AT}"]
        header = ["half of the queries", *(f"{half} {m}" for half in HALVES for m in metrics)]
        rows = [
            [name, *(f"{half[m]:.2f}" for half in model["queries"] for m in metrics)]
            for name, model in models.items()
        ]
        parts.append(f"\nBy the frequency of the query's words\n\n{table(header, rows)}")
    return "\n".join(parts)
