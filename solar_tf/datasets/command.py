"""The program `python -m solar_tf.datasets`: look at data, check it, make it.

    python -m solar_tf.datasets list
    python -m solar_tf.datasets describe train.txt test.txt --labels labels.txt --plot labels.png
    python -m solar_tf.datasets describe --dataset debian
    python -m solar_tf.datasets verify Eurlex-4K eurlex_train.txt eurlex_test.txt
    python -m solar_tf.datasets synthesize --rows 1600000 --labels 1670000 --out /tmp/planted

All formats of docs/data.md are recognised, compressed or not.
"""

import os
import sys

from solar_tf.cli.programs import errors_explained, program
from solar_tf.datasets import description, synthetic
from solar_tf.datasets.cards import list_cards, load_card
from solar_tf.datasets.dataset import open_files, open_named
from solar_tf.datasets.formats import FORMATS
from solar_tf.datasets.statistics import Frequencies
from solar_tf.errors import UserError
from solar_tf.runtime.console import say, table


def main(arguments=None):
    """Run the program; a UserError becomes one line and exit code 1."""
    args = _parser().parse_args(arguments)
    with errors_explained():
        code = args.run(args)
    sys.exit(code)


def _parser():
    parser = program("solar_tf.datasets", __doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = _add(commands, "list", _list, "the datasets that have a card")

    command = _add(commands, "describe", _describe, "statistics and label frequencies of any data")
    command.add_argument("files", nargs="*", metavar="FILE", help="training rows, then test rows")
    command.add_argument("--dataset", metavar="NAME", help="a dataset with a card, without FILEs")
    command.add_argument("--plot", metavar="PNG", help="save the label frequencies as a picture")
    _add_file_flags(command)

    command = _add(commands, "verify", _verify, "compare files with a dataset's card")
    command.add_argument("name", metavar="NAME", help="of the card: see `list`")
    command.add_argument(
        "files", nargs="*", metavar="FILE",
        help="training rows, then test rows [default: those in the card's folder]",
    )  # fmt: skip
    _add_file_flags(command)

    command = _add(commands, "synthesize", _synthesize, "make data with a planted answer")
    command.add_argument("--out", default="synthetic", help="folder to make [synthetic]")
    command.add_argument("--format", choices=synthetic.FORMATS, default="titles")
    for name, kind, default, text in _RECIPE:
        needed = {"required": True} if default is None else {"default": default}
        default = "" if default is None else f" [{default}]"
        command.add_argument(f"--{name}", type=kind, help=text + default, **needed)
    return parser


def _add(commands, name, run, text):
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=run)
    return command


def _add_file_flags(command):
    command.add_argument("--labels", metavar="FILE", help="titles of the labels, one a line")
    for split in ("train", "test"):
        command.add_argument(
            f"--{split}_labels", metavar="FILE",
            help=f"labels of the {split} rows, if in a file that is not found by its name",
        )  # fmt: skip
    command.add_argument(
        "--format", default="auto", help=f"of the rows, if not recognised: {', '.join(FORMATS)}"
    )
    command.add_argument("--workers", type=int, default=os.cpu_count(), help="processes that read")


_RECIPE = (
    ("rows", int, None, "training rows"),
    ("labels", int, None, "labels (N)"),
    ("test_rows", int, -1, "test rows; -1 for a tenth of the training rows"),
    ("labels_per_row", float, synthetic.Recipe.labels_per_row, "mean"),
    ("hidden", float, synthetic.Recipe.hidden, "share of labels that a row does not show"),
    ("noise_words", int, synthetic.Recipe.noise_words, "words of a row that say nothing"),
    ("label_exponent", float, synthetic.Recipe.label_exponent, "of the frequencies' power law"),
    ("word_exponent", float, synthetic.Recipe.word_exponent, "the same of the words"),
    ("dim", int, synthetic.Recipe.dim, "values of a row of --format dense"),
    ("seed", int, synthetic.Recipe.seed, "the same seed gives the same files"),
)


def _list(args):
    rows = []
    for name in list_cards():
        card = load_card(name)
        numbers = [card.counts.get(key) for key in ("train", "test", "features", "labels")]
        shown = ["-" if number is None else f"{number:,}" for number in numbers]
        a, b = card.propensity
        rows.append((name, *shown, card.content.get("preset", "-"), f"{a}, {b}", card.source))
    header = ("dataset", "train", "test", "features", "labels", "preset", "propensity", "from")
    say(table(header, rows))


def _open(args):
    if len(args.files) > 2:
        raise UserError(
            f"{len(args.files)} files: give the training rows and the test rows; other files "
            "have flags: see --help"
        )
    roles = ("labels", "train_labels", "test_labels", "format")
    return open_files(*args.files, **{role: getattr(args, role) for role in roles})


def _describe(args):
    if bool(args.files) == bool(args.dataset):
        raise UserError("give files, or a --dataset: see --help")
    dataset = open_named(args.dataset) if args.dataset else _open(args)
    splits = description.collect_splits(dataset, args.workers)
    say(description.describe(dataset, splits))
    if args.plot:
        num_labels = description.count_labels(dataset, splits)
        frequencies = Frequencies.of(splits["train"].label_counts, num_labels)
        description.save_plot(args.plot, dataset.name, frequencies)
        say(f"\nThe plot is in {args.plot}")


def _verify(args):
    card = load_card(args.name)
    if args.files:
        dataset = _open(args)
    else:
        dataset = open_files(**card.paths(), format=card.content.get("format", "auto"))
    splits = description.collect_splits(dataset, args.workers)
    rows = description.compare(card, dataset, splits)
    say(table((card.name, "card", "files", "verdict"), rows))
    for note in card.content.get("notes", ()):
        say(f"\nNote: {note}")
    if differing := [row[0] for row in rows if row[3] == description.DIFFERS]:
        raise UserError(
            f"{dataset.train.path}: not as the card of {card.name} says ({', '.join(differing)}): "
            f"get the dataset from {card.source}"
        )


def _synthesize(args):
    names = [name for name, *_ in _RECIPE]
    values = {name: getattr(args, name) for name in names}
    if args.test_rows == -1:
        values["test_rows"] = args.rows // 10
    card = synthetic.synthesize(args.out, synthetic.Recipe(**values), args.format)
    files = {role: os.path.join(args.out, name) for role, name in card["files"].items()}
    say(table((card["name"], ""), [(key.replace("_", " "), f"{value:,}")
                                   for key, value in card["counts"].items()]))  # fmt: skip
    best = ", ".join(f"{name} {value}" for name, value in card["planted"]["ceiling"].items())
    say(f"\nThe best to be expected of a learner: {best}")
    flags = " ".join(f"--{role} {path}" for role, path in files.items())
    say(f"\nNext: preprocess.py {flags} --preset {card['preset']} --run my_run")
