"""Flags as tables of (name, kind, default, help); a kind is a type, or the list of the choices.

Stage programs define a table with absl (`stages.define`), commands with argparse (`add_flags`).
"""

import dataclasses
import os

from solar_tf.cli.programs import whole_number
from solar_tf.config import CHOICES, SolarConfig


def field_flags(settings, choices=None, default=None):
    """A flag for every field of a dataclass. Unset flags leave the default, which help shows."""
    found = []
    for field in dataclasses.fields(settings):
        facts = field.metadata
        kind = facts.get("choices") or (choices or {}).get(field.name) or type(field.default)
        text = f"{facts['help']} [{facts['source']}; default: {default or field.default}]"
        found.append((field.name, kind, None, text))
    return found


# A dataset with a card, or files of one's own, and the preset for it.
DATASET = (
    ("dataset", str, "debian", "A dataset with a card; ignored when --train is given."),
    ("train", str, None, "Your own training rows, in place of --dataset."),
    ("test", str, None, "Your own test rows; without them nothing is evaluated."),
    ("preset", str, None, "Configuration to start from [default: the dataset's, or debian]."),
    (
        "filter",
        str,
        None,
        "Lines `row label` of what is not evaluated [default: filter_labels_test.txt beside "
        "--test; --filter= for none].",
    ),
)
FILES = (
    ("labels", str, None, "Titles of your own labels, one a line."),
    ("train_labels", str, None, "Labels of the training rows, if in a file not found by its name."),
    ("test_labels", str, None, "Labels of the test rows, if in a file not found by its name."),
    ("format", str, "auto", "Format of the rows, if not recognised (docs/data.md)."),
)
WORKERS = ("workers", whole_number(1), os.cpu_count(), "Processes that read, write and rank.")
CONFIG = field_flags(SolarConfig, CHOICES, "the preset's")


def add_flags(parser, table):
    """Give an argparse parser the flags of a table; their help ends with the default."""
    for name, kind, default, text in table:
        how = {"type": kind} if callable(kind) else {"choices": kind}
        text = text if default is None else f"{text} [{default}]"
        parser.add_argument(f"--{name}", default=default, help=text.replace("%", "%%"), **how)


def values_of(options, table):
    """The values of a table's flags by name, None where a flag was not given."""
    return {name: getattr(options, name) for name, *_ in table}


def given_values(options, table):
    """The values of those flags of a table that were given."""
    return {name: value for name, value in values_of(options, table).items() if value is not None}


def open_dataset(options, name=None):
    """The dataset of the flags; `name` is its name if it is files of the user's own."""
    from solar_tf.datasets.dataset import open_files, open_named

    if not options.train:
        return open_named(options.dataset)
    files = values_of(options, FILES) | {"filter": options.filter, "name": name}
    return open_files(options.train, options.test, **files)
