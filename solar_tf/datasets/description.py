"""Statistics for people: a table of a dataset, its label frequencies as a plot, a card verified."""

import os

import numpy as np

from solar_tf.datasets.cards import sha256
from solar_tf.datasets.statistics import Frequencies, collect, mean, percentile
from solar_tf.errors import UserError
from solar_tf.runtime.console import table

WIDTH, HEIGHT = 64, 14  # of the plot in the terminal, in characters
ROUNDING = 0.0051  # cards give means with two decimals
OK, DIFFERS = "ok", "DIFFERS"


def collect_splits(dataset, workers=1):
    """The Statistics of each split of a Dataset: {"train": ..., "test": ...}."""
    sources = {"train": dataset.train, "test": dataset.test}
    return {split: collect(source, workers) for split, source in sources.items() if source}


def count_labels(dataset, splits):
    """N: what the dataset states, or the largest label of any split."""
    return dataset.num_labels or max(len(part.label_counts) for part in splits.values())


def count_features(dataset, splits):
    """F: what the dataset states, or the words and features that its training rows have."""
    return dataset.num_features or splits["train"].num_features_used


def describe(dataset, splits):
    """The facts of a dataset as text: tables of its splits and of its label frequencies."""
    frequencies = Frequencies.of(splits["train"].label_counts, count_labels(dataset, splits))
    return "\n\n".join(
        [
            f"{dataset.name}: {dataset.kind} rows, format {dataset.train.format}",
            table(("", *splits), _split_rows(dataset, splits)),
            table(("labels in training", ""), _frequency_rows(frequencies, splits)),
            "how often a label occurs in training, by its rank (both logarithmic):",
            text_plot(frequencies),
        ]
    )


def _split_rows(dataset, splits):
    parts = splits.values()
    things = "words" if dataset.kind == "text" else "features"
    rows = [
        ("rows", *(f"{part.num_rows:,}" for part in parts)),
        ("without labels", *(f"{part.num_unlabelled:,}" for part in parts)),
        ("distinct labels", *(f"{part.num_labels_used:,}" for part in parts)),
        ("labels a row: mean", *(f"{mean(part.labels_per_row):.2f}" for part in parts)),
        ("... p50 / p99 / max", *(_spread(part.labels_per_row) for part in parts)),
        ("... named twice", *(f"{part.num_duplicate_labels:,}" for part in parts)),
    ]
    if dataset.kind == "dense":
        return [*rows, ("values a row", *(f"{dataset.num_features:,}" for _ in parts))]
    return [
        *rows,
        (f"without {things}", *(f"{part.num_featureless:,}" for part in parts)),
        (f"distinct {things}", *(f"{part.num_features_used:,}" for part in parts)),
        (f"{things} a row: mean", *(f"{mean(part.features_per_row):.2f}" for part in parts)),
        ("... p50 / p99 / max", *(_spread(part.features_per_row) for part in parts)),
    ]


def _spread(histogram):
    largest = int(np.flatnonzero(histogram)[-1])
    return f"{percentile(histogram, 50)} / {percentile(histogram, 99)} / {largest}"


def _frequency_rows(frequencies, splits):
    counts = frequencies.counts[frequencies.counts > 0]
    rows = [
        ("labels (N)", f"{frequencies.num_labels:,}"),
        ("unseen in training", f"{frequencies.unseen:.2%}"),
        ("rows of a seen label: mean", f"{counts.mean():.2f}" if len(counts) else "-"),
    ]
    if len(counts):
        spread = np.percentile(counts, (1, 10, 50, 90, 99, 100), method="inverted_cdf")
        rows.append(("... p1 / p10 / p50 / p90 / p99 / max", " / ".join(f"{x:,}" for x in spread)))
    rows += [
        ("head: occurrences of the top 1% of labels", f"{frequencies.head(0.01):.1%}"),
        ("labels that have 80% of the occurrences", f"{frequencies.covering(0.8):.1%}"),
        ("tail: labels with at most 5 rows", f"{frequencies.tail(5):.1%}"),
    ]
    if "test" in splits:
        test, train = splits["test"].label_counts, splits["train"].label_counts
        unknown = np.pad(train, (0, max(len(test) - len(train), 0)))[: len(test)] == 0
        share = test[unknown].sum() / max(test.sum(), 1)
        rows.append(("occurrences in test of labels unseen in training", f"{share:.2%}"))
    return rows


def text_plot(frequencies):
    """Rank against frequency of the labels that occur, on logarithmic axes, as lines of text."""
    counts = frequencies.counts[frequencies.counts > 0]
    if not len(counts):
        return "(no label occurs)"
    columns = np.linspace(0, 1, WIDTH)
    ranks = np.clip(np.round(len(counts) ** columns), 1, len(counts)).astype(int)
    top = max(np.log(counts[0]), 1e-9)
    heights = np.round(np.log(counts[ranks - 1]) / top * (HEIGHT - 1)).astype(int)
    lines = []
    for height in range(HEIGHT - 1, -1, -1):
        mark = f"{np.exp(top * height / (HEIGHT - 1)):,.0f}" if height % 3 == 1 else ""
        dots = "".join("*" if place == height else " " for place in heights).rstrip()
        lines.append(f"{mark:>10} |{dots}")
    lines.append(f"{'':>10} +{'-' * WIDTH}")
    lines.append(f"{'rank':>10}  {'1':<{WIDTH - 12}}{len(counts):>12,}")
    return "\n".join(lines)


def save_plot(path, name, frequencies):
    """The same as a picture, in the format that the path's ending names."""
    from matplotlib.figure import Figure

    counts = frequencies.counts[frequencies.counts > 0]
    figure = Figure((6, 4), layout="constrained")
    axes = figure.subplots()
    axes.loglog(np.arange(1, len(counts) + 1), counts)
    axes.set(xlabel="rank of the label", ylabel="training rows with it", title=name)
    axes.grid(True, alpha=0.3)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be written ({error}): choose another --plot")


def compare(card, dataset, splits):
    """A dataset beside its card: rows (what, card, files, verdict).

    The verdict is OK, DIFFERS, or "-" where the card does not say.
    """
    rows = []
    for name, path in dataset.paths.items():
        expected = card.content.get("sha256", {}).get(os.path.basename(path))
        if expected:
            found = sha256(path)
            rows.append((f"sha256 of {name}", expected[:12], found[:12], expected == found))
    counts = card.counts
    for name, found in _found(dataset, splits).items():
        shown = f"{found:,}" if isinstance(found, int) else f"{found:,.2f}"
        # A card counts the features of a bag of words, which titles need not have.
        comparable = name in counts and not (name == "features" and dataset.kind == "text")
        fits = abs(counts[name] - found) <= ROUNDING if comparable else None
        rows.append((name.replace("_", " "), _number(counts.get(name)), shown, fits))
    verdicts = {True: OK, False: DIFFERS, None: "-"}
    return [(*row[:3], verdicts[row[3]]) for row in rows]


def _found(dataset, splits):
    """The counts of a card, as found in the files."""
    parts = splits.values()
    num_rows = sum(part.num_rows for part in parts)
    found = {
        **{split: part.num_rows for split, part in splits.items()},
        "features": count_features(dataset, splits),
        "labels": count_labels(dataset, splits),
        "labels_per_train_query": mean(splits["train"].labels_per_row),
    }
    if "test" in splits:
        found["labels_per_query"] = sum(int(part.label_counts.sum()) for part in parts) / num_rows
    found["features_per_train_query"] = mean(splits["train"].features_per_row)
    return found


def _number(value):
    return "-" if value is None else f"{value:,}"
