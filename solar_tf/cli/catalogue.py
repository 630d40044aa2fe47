"""Commands that change a trained run: its labels, and its weights."""

from pathlib import Path

from solar_tf.catalogue import labels as catalogue
from solar_tf.catalogue import tuning
from solar_tf.cli.flags import add_flags, values_of
from solar_tf.cli.programs import add_command, program
from solar_tf.datasets.titles import read_label_titles
from solar_tf.errors import UserError
from solar_tf.retrieval.attributes import Attributes
from solar_tf.run.changes import compact, read_delta
from solar_tf.run.directory import open_run
from solar_tf.runtime.console import say, size, table
from solar_tf.runtime.devices import load_tensorflow

PLACING = (
    ("how", catalogue.WAYS, catalogue.WAYS[0], "how to choose their buckets"),
    ("choices", int, catalogue.CHOICES, "best buckets, of which the emptiest is taken"),
    ("within", float, catalogue.WITHIN, "least worth of those, as a fraction of the best one's"),
    ("lift", float, catalogue.LIFT, "a bucket's worth is probability / usual probability ** lift"),
    ("share", float, catalogue.SHARE, "fraction of the chunks by content; the others are by hash"),
)
TUNING = (
    ("epochs", int, tuning.EPOCHS, "passes over the rows"),
    ("replay", float, tuning.REPLAY, "training rows learned from again, for each new one"),
    ("learning_rate", float, tuning.LEARNING_RATE, "at the start; falls to zero"),
)


def labels(arguments):
    """Change the catalogue of a trained run, without training it again.

        solar labels add RUN titles.txt             new labels, one title a line
        solar labels add RUN titles.txt --how hash
        solar labels remove RUN 17 42               by number, or --file numbers.txt
        solar labels list RUN
        solar labels compact RUN                    one file of all changes so far

    New labels get the next numbers. By content, the default, a title goes through the chunks like a
    query; of the buckets that it makes likelier than usual in a chunk, the label takes the one with
    the fewest labels. By hash, it takes the bucket that training would have given it (§3.1), where
    queries find it only after `solar tune`. Changes are small files beside the run
    (docs/catalogue.md); infer.py and running searchers use them.
    """
    options = _parser().parse_args(arguments)
    {"add": _add, "remove": _remove, "list": _list, "compact": _compact}[options.command](options)


def _parser():
    parser = program("labels", labels.__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add = add_command(commands, "add", "add labels by their titles")
    remove = add_command(commands, "remove", "remove labels from all answers")
    others = (
        add_command(commands, "list", "what has changed since training"),
        add_command(commands, "compact", "make one file of all changes"),
    )
    for command in (add, remove, *others):
        command.add_argument("run", metavar="RUN", help="the run directory")
    add.add_argument("titles", help="a file of titles, one a line, as for preprocess.py")
    text = "attributes of the labels: a header of names, then a line for each label, with TABs"
    add.add_argument("--attributes", metavar="FILE", help=text)
    add_flags(add, PLACING)
    remove.add_argument("labels", nargs="*", type=int, metavar="LABEL")
    remove.add_argument("--file", help="a file of more labels, one number a line")
    return parser


def _add(options):
    titles = read_label_titles(options.titles)
    attributes = None
    if options.attributes:
        given = Attributes.read(options.attributes)
        attributes = [given.of(row) for row in range(given.num_labels)]
    how = values_of(options, PLACING)
    labels = catalogue.add_labels(options.run, titles, attributes=attributes, **how)
    if len(labels):
        say(f"{len(labels):,} labels added: {labels[0]} to {labels[-1]}")
    _list(options)
    say(f"\nNext: infer.py --run {options.run} --query TEXT")


def _remove(options):
    labels = list(options.labels)
    if options.file:
        for line, text in enumerate(Path(options.file).read_text().split("\n"), 1):
            if text.strip():
                if not text.strip().isdecimal():
                    raise UserError(f"{options.file}:{line}: {text!r:.40} is not a label's number")
                labels.append(int(text))
    if not labels:
        raise UserError("no labels to remove: name them, or give a --file of them")
    say(f"{catalogue.remove_labels(options.run, labels):,} labels removed")
    _list(options)


def _list(options):
    found = read_delta(open_run(options.run))
    stored = sum(facts[0] for facts in found.segments.values())
    rows = [
        ("trained with", f"{found.num_base:,}"),
        ("added", f"{found.num_added:,}"),
        ("removed", f"{len(found.removed):,}"),
        ("can be found", f"{found.num_labels - len(found.removed):,}"),
        ("files of changes", f"{len(found.segments):,} ({size(stored)})"),
        ("weights", "as trained" if found.tuned is None else f"tuned, number {found.tuned}"),
    ]
    say(table(("labels", str(options.run)), rows))


def _compact(options):
    count = compact(open_run(options.run))
    say(f"{count} files of changes are one" if count > 1 else "there is nothing to compact")
    _list(options)


def tune(arguments):
    """Fine-tune the chunks on new rows, with some of the old ones so that nothing is forgotten.

        solar tune RUN rows.txt --epochs 3 --replay 4

    Rows are `label,label<TAB>text`, as for training, or any format of docs/data.md. They may have
    labels that were added to the catalogue. Each chunk trains on from its weights (§3.2) with a
    small learning rate. The tuned weights are stored beside the trained ones, which stay as they
    are; searches and infer.py use them as soon as all chunks have them.
    """
    parser = program("tune", tune.__doc__)
    parser.add_argument("run", metavar="RUN", help="a trained run")
    parser.add_argument("rows", metavar="ROWS", help="a file of new rows")
    add_flags(parser, TUNING)
    options = parser.parse_args(arguments)
    X, Y = tuning.read_rows(options.run, options.rows)
    load_tensorflow()
    count = tuning.tune(options.run, X, Y, **values_of(options, TUNING))
    new = len(Y[0]) - 1
    say(table(("tuned", options.run), [("new rows", new), ("old rows", count - new)]))
    say(f"\nNext: infer.py --run {options.run}")
