"""Change the catalogue of a trained run, without training it again.

    solar labels add RUN titles.txt             new labels, one title a line
    solar labels add RUN titles.txt --how hash
    solar labels remove RUN 17 42               by number, or --file numbers.txt
    solar labels list RUN
    solar labels compact RUN                    one file of all changes so far

New labels get the next numbers. Placed by content, the default, a title is run through the
chunks like a query, and the label takes, among the buckets that it makes likelier than usual in
each chunk, the one with the fewest labels. Placed by hash, it takes the bucket that it would
have had in training (§3.1), where only training could make queries find it. The changes are
small files beside the run (docs/catalogue.md); infer.py and running searchers take them up.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solar_tf.cli.programs import errors_explained, program
from solar_tf.datasets.titles import read_label_titles
from solar_tf.errors import UserError
from solar_tf.preprocessing import hashing
from solar_tf.retrieval.attributes import Attributes
from solar_tf.retrieval.label_table import read_attributes, with_changes
from solar_tf.retrieval.searcher import Searcher
from solar_tf.run.changes import (
    COMMAND,
    MOST_LABELS,
    append,
    changing,
    compact,
    one_line,
    read_delta,
)
from solar_tf.run.directory import Run, open_run
from solar_tf.runtime.compiled import compiled
from solar_tf.runtime.console import progress, say, size, table

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


# The program.


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; a UserError becomes one line and exit code 1."""
    args = _parser().parse_args(arguments)
    with errors_explained():
        args.run_command(args)


def _parser():
    parser = program("solar_tf.catalogue.labels", __doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = _command(commands, "add", _add, "add labels by their titles")
    command.add_argument("titles", help="a file of them, one a line, as of preprocess.py")
    text = "a file of theirs: a header of names, and a line of values for each, with TABs between"
    command.add_argument("--attributes", help=text)
    command.add_argument("--how", choices=WAYS, default=WAYS[0], help="to place them by [content]")
    text = f"best buckets among which the emptiest is taken [{CHOICES}]"
    command.add_argument("--choices", type=int, default=CHOICES, help=text)
    text = f"share of the best one's worth that they must have [{WITHIN}]"
    command.add_argument("--within", type=float, default=WITHIN, help=text)
    text = "0: buckets are worth their probability; 1: how often it is the usual one"
    command.add_argument("--lift", type=float, default=LIFT, help=f"{text} [{LIFT}]")
    text = f"of the chunks in which they go by content; in the others by hash [{SHARE}]"
    command.add_argument("--share", type=float, default=SHARE, help=text)
    command = _command(commands, "remove", _remove, "labels that must not be found any more")
    command.add_argument("labels", nargs="*", type=int, metavar="LABEL")
    command.add_argument("--file", help="more of them, a number a line")
    _command(commands, "list", _list, "what has changed since training")
    _command(commands, "compact", _compact, "make one file of all changes")
    return parser


def _command(commands, name, run, text):
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run_command=run)
    command.add_argument("run", metavar="RUN", help="the run directory")
    return command


def _add(args):
    titles = read_label_titles(args.titles)
    attributes = None
    if args.attributes:
        given = Attributes.read(args.attributes)
        attributes = [given.of(row) for row in range(given.num_labels)]
    how = args.how, args.choices, args.within, args.lift, args.share
    labels = add_labels(args.run, titles, *how, attributes=attributes)
    if len(labels):
        say(f"{len(labels):,} labels added: {labels[0]} to {labels[-1]}")
    _list(args)
    say(f"\nNext: infer.py --run {args.run} --query TEXT")


def _remove(args):
    labels = list(args.labels)
    if args.file:
        for line, text in enumerate(Path(args.file).read_text().split("\n"), 1):
            if text.strip():
                if not text.strip().isdecimal():
                    raise UserError(f"{args.file}:{line}: {text!r:.40} is not a label's number")
                labels.append(int(text))
    if not labels:
        raise UserError("no labels to remove: name them, or give a --file of them")
    say(f"{remove_labels(args.run, labels):,} labels removed")
    _list(args)


def _list(args):
    run = open_run(args.run)
    found = read_delta(run)
    stored = sum(facts[0] for facts in found.segments.values())
    rows = [
        ("trained with", f"{found.num_base:,}"),
        ("added", f"{found.num_added:,}"),
        ("removed", f"{len(found.removed):,}"),
        ("can be found", f"{found.num_labels - len(found.removed):,}"),
        ("files of changes", f"{len(found.segments):,} ({size(stored)})"),
        ("weights", "as trained" if found.tuned is None else f"tuned, number {found.tuned}"),
    ]
    say(table(("labels", str(args.run)), rows))


def _compact(args):
    count = compact(open_run(args.run))
    say(f"{count} files of changes are one" if count > 1 else "there is nothing to compact")
    _list(args)


if __name__ == "__main__":
    main()
