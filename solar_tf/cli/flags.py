"""Flags that several programs have, each declared once.

The stage programs define them with absl (`stages.define`), commands with argparse (`add_flags`).
"""

import dataclasses
import os
from typing import Any, NamedTuple

from solar_tf.cli.programs import whole_number
from solar_tf.config import CHOICES, SolarConfig
from solar_tf.errors import UserError


class Flag(NamedTuple):
    """A flag of a program; `kind` is its type, or the list of its choices."""

    name: str
    kind: Any
    default: Any
    help: str


def field_flags(settings, choices=None, default=None):
    """A flag for every field of a dataclass; unset flags leave the default, named by `default`."""
    found = []
    for field in dataclasses.fields(settings):
        facts = field.metadata
        kind = facts.get("choices") or (choices or {}).get(field.name) or type(field.default)
        text = f"{facts['help']} [{facts['source']}; default: {default or field.default}]"
        found.append(Flag(field.name, kind, None, text))
    return found


# A dataset with a card, or files of one's own, and the preset for it.
DATASET = (
    Flag("dataset", str, "debian", "A dataset with a card; ignored when --train is given."),
    Flag("train", str, None, "Your own training rows, in place of --dataset."),
    Flag("test", str, None, "Your own test rows; without them nothing is evaluated."),
    Flag("preset", str, None, "Configuration to start from [default: the dataset's, or debian]."),
    Flag(
        "filter",
        str,
        None,
        "Lines `row label` of what is not evaluated [default: filter_labels_test.txt beside "
        "--test; --filter= for none].",
    ),
)
FILES = (
    Flag("labels", str, None, "Titles of your own labels, one a line."),
    *(
        Flag(
            f"{split}_labels",
            str,
            None,
            f"Labels of the {rows} rows, if in a file of their own, not found by its name.",
        )
        for split, rows in (("train", "training"), ("test", "test"))
    ),
    Flag("format", str, "auto", "Format of the rows, if not recognised (docs/data.md)."),
)
CONFIG = field_flags(SolarConfig, CHOICES, "the preset's")


def add_flags(parser, flags):
    """Give an argparse parser some flags."""
    for name, kind, default, text in flags:
        how = {"type": kind} if isinstance(kind, type) else {"choices": kind}
        if default is not None:
            text = f"{text[:-1]} [default: {default}]."
        parser.add_argument(f"--{name}", default=default, help=text.replace("%", "%%"), **how)


def given_values(options, flags):
    """The values of those flags that were given."""
    values = {flag.name: getattr(options, flag.name) for flag in flags}
    return {name: value for name, value in values.items() if value is not None}


def open_dataset(options, name=None):
    """The dataset that the flags name; `name` is what files of one's own are called."""
    from solar_tf.datasets.dataset import open_files, open_named

    if not options.train:
        return open_named(options.dataset)
    roles = {flag.name: getattr(options, flag.name) for flag in FILES}
    return open_files(options.train, options.test, filter=options.filter, **roles, name=name)


def add_files(parser, text="Training rows, then test rows."):
    """The arguments of commands that read files of rows."""
    parser.add_argument("files", nargs="*", metavar="FILE", help=text)
    add_flags(parser, FILES)
    workers = os.cpu_count()
    text = f"Processes that read [{workers}]."
    parser.add_argument("--workers", type=whole_number(1), default=workers, help=text)


def open_given_files(options):
    """The dataset of the files that `add_files` has taken."""
    from solar_tf.datasets.dataset import open_files

    if len(options.files) > 2:
        raise UserError(
            f"{len(options.files)} files: give the training rows and the test rows; other files "
            "have flags: see --help"
        )
    return open_files(*options.files, **{flag.name: getattr(options, flag.name) for flag in FILES})
