"""Add labels to a trained run, or remove them, without training it again (docs/catalogue.md).

A new label gets a bucket in every chunk. By content: its title goes through the chunk like a query,
and of the buckets that it makes likelier than usual, the label takes the one with the fewest
labels. By hash: it takes the bucket that training would have given it (§3.1).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solar_tf.errors import UserError
from solar_tf.preprocessing import hashing
from solar_tf.retrieval.attributes import Attributes
from solar_tf.retrieval.label_table import read_attributes, with_changes
from solar_tf.retrieval.searcher import Searcher
from solar_tf.run.changes import COMMAND, MOST_LABELS, append, changing, one_line
from solar_tf.run.directory import Run, open_run
from solar_tf.runtime.compiled import compiled
from solar_tf.runtime.console import progress

WAYS = ("content", "hash")
# Placing by content; docs/catalogue.md has the measurements.
CHOICES = 10  # best buckets, of which the label takes the one with the fewest labels
WITHIN = 0.5  # least worth of such a bucket, as a fraction of the best bucket's
LIFT = 1.0  # a bucket's worth is probability / usual probability ** LIFT
LIKELIEST = 100  # buckets of a chunk whose worth is computed
SHARE = 0.5  # fraction of the chunks; every label has its own, and goes by hash in the others
BLOCK = 1024  # titles that go through the chunks together


def place_by_hash(run: Run, first: int, count: int) -> NDArray[np.int32]:
    """h_k of the labels from `first` on (§3.1): [K, count]."""
    ids = np.arange(first, first + count)
    buckets = [hashing.hash_ids(ids, seed, run.config.num_buckets) for seed in run.seeds]
    return np.stack(buckets).astype(np.int32)


def place_by_content(
    searcher: Searcher,
    titles: Sequence[str],
    buckets: NDArray[np.int32],
    choices: int = CHOICES,
    within: float = WITHIN,
    lift: float = LIFT,
    share: float = SHARE,
) -> None:
    """Replace `buckets` [K, count] by those that the titles choose, in a share of the chunks.

    A label whose title has no known word keeps all of its buckets. Every label keeps some: one that
    chose its bucket in all chunks would outrank trained labels, whose buckets are random, whenever
    a query resembles its title.
    """
    loads = searcher.loads()  # [K, B]
    considered = min(max(choices, LIKELIEST), loads.shape[1])
    usual = usual_probabilities(searcher) ** np.float32(lift)
    with progress(len(titles), "placing", "label") as bar:
        for start in range(0, len(titles), BLOCK):
            part = list(titles[start : start + BLOCK])
            inputs = searcher.inputs(part)
            likeliest, values = searcher.top_buckets(inputs, considered)  # [n, K, considered]
            worth = values / usual[np.arange(len(usual))[:, None], likeliest]
            order = np.argsort(-worth, axis=2, kind="stable")[:, :, :choices]
            likeliest, worth = (np.take_along_axis(a, order, axis=2) for a in (likeliest, worth))
            near = (worth >= within * worth[:, :, :1]) & inputs.known[:, None, None]
            turns = np.add.outer(np.arange(start, start + len(part)), np.arange(len(usual)))
            near &= (turns % len(usual) < np.ceil(share * len(usual)))[:, :, None]
            for i, chunk in enumerate(searcher.chunks):
                into = buckets[chunk, start : start + len(part)]
                _take_emptiest(likeliest[:, i].copy(), near[:, i].copy(), loads[i], into)
            bar.update(len(part))


def usual_probabilities(searcher: Searcher) -> NDArray[np.float32]:
    """How often each bucket is on in the training rows, [K, B], as if rows had one label each.

    The bucket of a label that nearly every row has is likely for any title. A title belongs where
    its probability is far above this.
    """
    counts = np.load(searcher.run.paths.label_counts, allow_pickle=False)
    rows, shape = searcher.run.summary["train"]["rows"], searcher.loads().shape
    usual = np.empty(shape, np.float32)
    for row, of_labels in zip(usual, searcher.labels.label_buckets, strict=True):
        row[:] = np.bincount(of_labels[: len(counts)], counts, shape[1]) / rows
    return np.clip(usual, 1 / rows, 1)


@compiled
def _take_emptiest(likeliest, near, loads, buckets):
    """Place one label after another, since each one adds to the load that the next one sees."""
    for i in range(len(likeliest)):
        if near[i, 0]:
            buckets[i] = likeliest[i, 0]
            for j in range(1, likeliest.shape[1]):
                # Of equal loads, the first and most worthy one stays.
                if near[i, j] and loads[likeliest[i, j]] < loads[buckets[i]]:
                    buckets[i] = likeliest[i, j]
        loads[buckets[i]] += 1


def add_labels(
    root: Any,
    titles: Sequence[str],
    how: str = "content",
    choices: int = CHOICES,
    within: float = WITHIN,
    lift: float = LIFT,
    share: float = SHARE,
    searcher: Searcher | None = None,
    attributes: Sequence[Mapping[str, Any]] | None = None,
) -> NDArray[np.int64]:
    """Add labels to a run; returns their numbers. `attributes` has an entry for each label."""
    if how not in WAYS:
        raise UserError(f"how={how!r}: place labels by {' or by '.join(WAYS)}")
    if choices < 1:
        raise UserError(f"choices={choices}: there must be a bucket to choose")
    if not 0 <= share <= 1:
        raise UserError(f"share={share}: give a part of the chunks, from 0 to 1")
    for row, title in enumerate(titles):
        if not isinstance(title, str):
            raise UserError(f"titles: {row}: a {type(title).__name__}, not a text: give texts")
    titles = [one_line(title) for title in titles]
    run = searcher.run if searcher else open_run(root)
    if how == "content":
        if run.dataset["kind"] != "text":
            raise UserError(f"{root}: no run of titles: place its new labels by hash")
        if not run.trained_chunks():
            raise UserError(f"{root}: no chunk is trained: run train.py --run {root}")
    with changing(run) as before:
        first = before.num_labels
        rows = _rows(run, before, searcher, len(titles), attributes)
        if first + len(titles) > MOST_LABELS:
            raise UserError(f"{len(titles)} labels more are too many")
        buckets = place_by_hash(run, first, len(titles))
        if how == "content":
            chunks = tuple(run.trained_chunks())
            if searcher is None or searcher.chunks != chunks:
                searcher = Searcher(run, chunks)
            searcher.reload()
            place_by_content(searcher, titles, buckets, choices, within, lift, share)
        if titles:
            append(run, before, titles, buckets, attributes=rows)
    return np.arange(first, first + len(titles))


def _rows(run, before, searcher, count, attributes):
    """The attributes of new labels as they are stored: {label: row}."""
    if not attributes:
        return {}
    if len(attributes) != count:
        raise UserError(f"attributes of {len(attributes)} labels, where {count} are added")
    if searcher:
        known = searcher.labels.attributes
    else:
        known = with_changes(read_attributes(run, before), before)
    known = known or Attributes.of_columns({}, before.num_labels)
    rows = map(known.row, attributes)
    return {label: row for label, row in enumerate(rows, before.num_labels) if row}


def remove_labels(root: Any, labels: Sequence[int]) -> int:
    """Remove labels from a run's answers; returns how many were not removed before."""
    run = open_run(root)
    gone = np.unique(np.asarray(labels, np.int64))
    with changing(run) as before:
        outside = (gone < 0) | (gone >= before.num_labels)
        if outside.any():
            raise UserError(
                f"label {gone[outside][0]} is not within 0 and {before.num_labels - 1}: "
                f"see {COMMAND} list {root}"
            )
        gone = np.setdiff1d(gone, before.removed)
        if len(gone):
            append(run, before, removed=gone)
    return len(gone)
