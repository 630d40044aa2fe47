"""List the datasets that have a card: sizes, preset, and where to get them (docs/data.md).

solar datasets
"""

from solar_tf.cli.programs import program
from solar_tf.datasets.cards import list_cards, load_card
from solar_tf.runtime.console import say, table


def main(arguments):
    program("datasets", __doc__).parse_args(arguments)
    rows = []
    for name in list_cards():
        card = load_card(name)
        numbers = [card.counts.get(key) for key in ("train", "test", "features", "labels")]
        shown = ["-" if number is None else f"{number:,}" for number in numbers]
        a, b = card.propensity
        rows.append((name, *shown, card.content.get("preset", "-"), f"{a}, {b}", card.source))
    header = ("dataset", "train", "test", "features", "labels", "preset", "propensity", "from")
    say(table(header, rows))
