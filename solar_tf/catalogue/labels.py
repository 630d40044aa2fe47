"""Labels that are added to a trained run, or removed, without training it (docs/catalogue.md).

Placed by content, a title is run through the chunks like a query, and the label takes, among the
buckets that it makes likelier than usual, the one with the fewest labels. Placed by hash, it takes
the bucket that it would have had in training (§3.1). Changes are small files beside the run.
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
# Where a label goes by content, as measured in docs/catalogue.md: the emptiest of so many buckets,
CHOICES = 10
WITHIN = 0.5  # of the worth that the best has at the least, where worth is
LIFT = 1.0  # probability / usual probability ** LIFT, of the
LIKELIEST = 100  # buckets
SHARE = 0.5  # of the chunks, each label its own; in the others it goes by hash
BLOCK = 1024  # titles that are placed together


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
) -> int:
    """Choose buckets by title, for the searcher's chunks, in place of `buckets` [K, count].

    A label keeps what it has in the rest of the chunks, and everywhere if its title has no known
    word; returns how many those are. In all chunks a title would choose for itself what a trained
    label is given at random, and outdo most of them whenever a query resembles it.
    """
    loads = searcher.loads()  # [K, B]
    considered = min(max(choices, LIKELIEST), loads.shape[1])
    usual = usual_probabilities(searcher) ** np.float32(lift)
    unknown = 0
    with progress(len(titles), "placing", "label") as bar:
        for start in range(0, len(titles), BLOCK):
            part = list(titles[start : start + BLOCK])
            inputs = searcher.inputs(part)
            unknown += int(np.count_nonzero(~inputs.known))
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
    return unknown


def usual_probabilities(searcher: Searcher) -> NDArray[np.float32]:
    """How often the buckets of the searcher's chunks are on in the training rows, [K, B].

    A bucket of a label that nearly every row has is likely whatever the title is: what says where
    a title belongs is how far its buckets are above this. Labels are taken as never together.
    """
    counts = np.load(searcher.run.paths.label_counts, allow_pickle=False)
    rows, shape = searcher.run.summary["train"]["rows"], searcher.loads().shape
    usual = np.empty(shape, np.float32)
    for row, of_labels in zip(usual, searcher.labels.label_buckets, strict=True):
        row[:] = np.bincount(of_labels[: len(counts)], counts, shape[1]) / rows
    return np.clip(usual, 1 / rows, 1)


@compiled
def _take_emptiest(likeliest, near, loads, buckets):
    """One label after another, since each one is a load for the next."""
    for i in range(len(likeliest)):
        if near[i, 0]:
            buckets[i] = likeliest[i, 0]
            for j in range(1, likeliest.shape[1]):
                # Of equal loads the likelier.
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
    """Add labels to a run; returns their numbers. `attributes` are those of each, if any."""
    if how not in WAYS:
        raise UserError(f"how={how!r}: place labels by {' or by '.join(WAYS)}")
    if choices < 1:
        raise UserError(f"choices={choices}: there must be a bucket to choose")
    if not 0 <= share <= 1:
        raise UserError(f"share={share}: give a part of the chunks, from 0 to 1")
    titles = [_checked(row, title) for row, title in enumerate(titles)]
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
    """The attributes of new labels by number, as they are kept."""
    if not attributes:
        return {}
    if len(attributes) != count:
        raise UserError(f"attributes of {len(attributes)} labels, where {count} are added")
    known = searcher.labels.attributes if searcher else None
    if searcher is None:
        known = with_changes(read_attributes(run, before), before)
    known = known or Attributes.of_columns({}, before.num_labels)
    rows = map(known.row, attributes)
    return {label: row for label, row in enumerate(rows, before.num_labels) if row}


def _checked(row, title):
    if not isinstance(title, str):
        raise UserError(f"titles: {row}: a {type(title).__name__}, not a text: give texts")
    return one_line(title)


def remove_labels(root: Any, labels: Sequence[int]) -> int:
    """Take labels out of a run's answers; returns how many were there until now."""
    run = open_run(root)
    gone = np.unique(np.asarray(labels if len(labels) else [], np.int64))
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
