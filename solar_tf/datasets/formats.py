"""Opens a file of any known format: by the format's name, or recognised by its content."""

import os
import re
from dataclasses import replace

from solar_tf.datasets.matrices import NPY, ZIP, PairSource
from solar_tf.datasets.number_text import DenseTextSource, SvmlightSource, XmlRepoSource
from solar_tf.datasets.source import fail
from solar_tf.datasets.streams import head
from solar_tf.datasets.titles import JsonContentSource, JsonTitlesSource, TitlesSource
from solar_tf.errors import UserError

FORMATS = {
    source.format: source
    for source in (
        TitlesSource,
        JsonTitlesSource,
        JsonContentSource,
        XmlRepoSource,
        DenseTextSource,
        SvmlightSource,
        PairSource,
    )
}

_HEADER = rb"[ \t]*\d+[ \t]+\d+[ \t]+\d+[ \t]*\n"
_LOOKS = {  # how a file starts; the first that matches decides
    "pair": re.escape(ZIP) + b"|" + re.escape(NPY) + rb"|[ \t]*\d+[ \t]+\d+[ \t]*(\n|$)",
    "json": rb"\s*\{",
    "dense-text": _HEADER + rb"[\d,]*[ \t]+[-+.\deE]+[ \t\n]",
    "xmlrepo": _HEADER,
    "svmlight": rb"#|[\d,]*([ \t]+\d+:[-+.\deE]+)+[ \t]*(#|\n|$)|\d+:",
    "titles": rb"[\d,]*\t",
}


def detect_format(path, start):
    """The name of the format that `start`, the first bytes of a file, looks like."""
    for name, look in _LOOKS.items():
        if re.match(look, start.replace(b"\r\n", b"\n")):
            return name
    known = ", ".join(FORMATS)
    return fail(path, 1, "the format is not recognised", f"name it: one of {known}")


def open_source(path, format="auto", *, label_path=None, num_features=None, num_labels=None):
    """Open one split of a dataset.

    `format` is one of FORMATS; "auto" goes by the content. `label_path` is the file of labels,
    if they have one of their own; under the usual names it is found. `num_features` and
    `num_labels` are expected numbers, such as the number of label titles: limits if the file
    states none; a file that states another number is refused.
    """
    if format not in ("auto", *FORMATS):
        raise UserError(f"unknown format {format!r}: choose auto or one of {', '.join(FORMATS)}")
    path = os.fspath(path)
    start = head(path)
    if format == "auto":
        format = detect_format(path, start)
    if label_path and format != PairSource.format:
        fail(path, None, f"the format {format} has its labels in the same file", "name no other")
    options = {"label_path": os.fspath(label_path)} if label_path else {}
    source = FORMATS[format].open(path, **options)
    for name, expected in (("num_features", num_features), ("num_labels", num_labels)):
        stated = getattr(source, name)
        if expected and stated and stated != expected:
            what = f"{stated} {name[4:]}, where {expected} are expected"
            fail(path, 1, what, "give files of the same dataset")
        source = replace(source, **{name: stated or expected})
    return source
