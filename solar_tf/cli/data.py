"""Commands that look at data, check it and make it."""

import os

from solar_tf.cli.flags import FILES, WORKERS, add_flags, values_of
from solar_tf.cli.programs import program
from solar_tf.datasets import description, synthetic
from solar_tf.datasets.cards import list_cards, load_card
from solar_tf.datasets.dataset import open_files, open_named
from solar_tf.datasets.statistics import Frequencies
from solar_tf.errors import UserError
from solar_tf.runtime.console import say, table

RECIPE = (
    ("test_rows", int, -1, "test rows; -1 for a tenth of the training rows"),
    ("labels_per_row", float, synthetic.Recipe.labels_per_row, "mean"),
    ("hidden", float, synthetic.Recipe.hidden, "share of labels that a row does not show"),
    ("noise_words", int, synthetic.Recipe.noise_words, "words of a row that say nothing"),
    ("label_exponent", float, synthetic.Recipe.label_exponent, "of the frequencies' power law"),
    ("word_exponent", float, synthetic.Recipe.word_exponent, "the same for the words"),
    ("dim", int, synthetic.Recipe.dim, "values of a row of --format dense"),
    ("seed", int, synthetic.Recipe.seed, "the same seed gives the same files"),
)


def datasets(arguments):
    """List the datasets that have a card: sizes, preset, and where to get them (docs/data.md)."""
    program("datasets", datasets.__doc__).parse_args(arguments)
    rows = []
    for name in list_cards():
        card = load_card(name)
        numbers = [card.counts.get(key) for key in ("train", "test", "features", "labels")]
        shown = ["-" if number is None else f"{number:,}" for number in numbers]
        a, b = card.propensity
        rows.append((name, *shown, card.content.get("preset", "-"), f"{a}, {b}", card.source))
    header = ("dataset", "train", "test", "features", "labels", "preset", "propensity", "from")
    say(table(header, rows))


def describe(arguments):
    """Statistics and label frequencies of any data.

        solar describe train.txt test.txt --labels labels.txt --plot labels.png
        solar describe --dataset debian

    All formats of docs/data.md are recognised, compressed or not.
    """
    parser = program("describe", describe.__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="Training rows, then test rows.")
    parser.add_argument("--dataset", metavar="NAME", help="A dataset with a card, without FILEs.")
    parser.add_argument("--plot", metavar="PNG", help="Save the label frequencies as a picture.")
    add_flags(parser, [*FILES, WORKERS])
    options = parser.parse_args(arguments)
    if bool(options.files) == bool(options.dataset):
        raise UserError("give files, or a --dataset: see --help")
    dataset = open_named(options.dataset) if options.dataset else _open_files(options)
    splits = description.collect_splits(dataset, options.workers)
    say(description.describe(dataset, splits))
    if options.plot:
        num_labels = description.count_labels(dataset, splits)
        frequencies = Frequencies.of(splits["train"].label_counts, num_labels)
        description.save_plot(options.plot, dataset.name, frequencies)
        say(f"\nThe plot is in {options.plot}")


def verify(arguments):
    """Compare files with a dataset's card.

        solar verify Eurlex-4K eurlex_train.txt eurlex_test.txt
        solar verify debian                          the files in the card's folder

    All formats of docs/data.md are recognised, compressed or not. Ends with code 1 if they differ.
    """
    parser = program("verify", verify.__doc__)
    parser.add_argument("name", metavar="NAME", help="Of the card: see `solar datasets`.")
    text = "Training rows, then test rows [default: the card's own]."
    parser.add_argument("files", nargs="*", metavar="FILE", help=text)
    add_flags(parser, [*FILES, WORKERS])
    options = parser.parse_args(arguments)
    card = load_card(options.name)
    if options.files:
        dataset = _open_files(options)
    else:
        dataset = open_files(**card.paths(), format=card.content.get("format", "auto"))
    splits = description.collect_splits(dataset, options.workers)
    rows = description.compare(card, dataset, splits)
    say(table((card.name, "card", "files", "verdict"), rows))
    for note in card.content.get("notes", ()):
        say(f"\nNote: {note}")
    if differing := [row[0] for row in rows if row[3] == description.DIFFERS]:
        raise UserError(
            f"{dataset.train.path}: not as the card of {card.name} says ({', '.join(differing)}): "
            f"get the dataset from {card.source}"
        )


def synthesize(arguments):
    """Make data with a planted answer, of any size; prints the best that a learner can reach.

        solar synthesize --rows 1600000 --labels 1670000 --out planted

    The same seed gives the same files (docs/data.md).
    """
    parser = program("synthesize", synthesize.__doc__)
    parser.add_argument("--rows", type=int, required=True, help="training rows")
    parser.add_argument("--labels", type=int, required=True, help="labels (N)")
    add_flags(parser, [("out", str, "synthetic", "folder to make")])
    add_flags(parser, [("format", synthetic.FORMATS, "titles", "of the rows"), *RECIPE])
    options = parser.parse_args(arguments)
    values = values_of(options, RECIPE)
    if options.test_rows == -1:
        values["test_rows"] = options.rows // 10
    recipe = synthetic.Recipe(rows=options.rows, labels=options.labels, **values)
    card = synthetic.synthesize(options.out, recipe, options.format)
    rows = [(key.replace("_", " "), f"{value:,}") for key, value in card["counts"].items()]
    say(table((card["name"], ""), rows))
    best = ", ".join(f"{name} {value}" for name, value in card["planted"]["ceiling"].items())
    say(f"\nThe best that a learner can reach: {best}")
    files = {role: os.path.join(options.out, name) for role, name in card["files"].items()}
    flags = " ".join(f"--{role} {path}" for role, path in files.items())
    say(f"\nNext: preprocess.py {flags} --preset {card['preset']} --run my_run")


def _open_files(options):
    """The dataset of the FILE arguments."""
    if len(options.files) > 2:
        raise UserError(
            f"{len(options.files)} files: give the training rows and the test rows; other files "
            "have flags: see --help"
        )
    return open_files(*options.files, **values_of(options, FILES))
