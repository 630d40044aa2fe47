"""Compare files with a dataset's card.

    solar verify Eurlex-4K eurlex_train.txt eurlex_test.txt
    solar verify debian                          the files in the card's folder

All formats of docs/data.md are recognised, compressed or not. Ends with code 1 if they differ.
"""

from solar_tf.cli.flags import add_files, open_given_files
from solar_tf.cli.programs import program
from solar_tf.datasets import description
from solar_tf.datasets.cards import load_card
from solar_tf.datasets.dataset import open_files
from solar_tf.errors import UserError
from solar_tf.runtime.console import say, table


def main(arguments):
    parser = program("verify", __doc__)
    parser.add_argument("name", metavar="NAME", help="Of the card: see `solar datasets`.")
    add_files(parser, "Training rows, then test rows [default: the files in the card's folder].")
    options = parser.parse_args(arguments)
    card = load_card(options.name)
    if options.files:
        dataset = open_given_files(options)
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
