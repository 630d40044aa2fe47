"""Rows of an earlier reproduction, perhaps on another machine, instead of rows not run here."""

import dataclasses
import json

from solar_tf.errors import UserError
from solar_tf.reproduce.plan import TABLES, table_file

MARK = "earlier: "  # before the run and commit of such a row
NOTE = (
    'Rows marked "earlier" were measured by another reproduction on this dataset; their times are '
    "of the machine that they name."
)


def read_earlier(tables, dataset):
    """{number of a table: its content} of a folder of tables of the same dataset."""
    found = {}
    for number in TABLES:
        path = table_file(tables, number, "json")
        if not path.exists():
            continue
        try:
            content = json.loads(path.read_text())
            of = content["dataset"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: not a table of a reproduction ({error}): give its tables/")
        if of != dataset:
            raise UserError(
                f"{path}: a table of {of}, not of {dataset}: give tables of the same dataset, or "
                f"--name {of} if it is the same"
            )
        found[number] = content
    if not found:
        raise UserError(f"{tables}: no table_1.json, ..., here: give the tables/ of a reproduction")
    return found


def fill_in(rows, content):
    """Replace rows that were not run here by an earlier table's; returns a note about them."""
    measured = {row["model"]: row for row in content["rows"] if row["values"]}
    on = "{cpu}, {cores} cores".format(**content["machine"])
    taken = False
    for i, row in enumerate(rows):
        if row.values or row.model not in measured:
            continue
        source, values = (measured[row.model][name] for name in ("source", "values"))
        if not source.startswith(MARK):  # else that table had it from another one
            source = f"{MARK}{source} ({on})"
        rows[i] = dataclasses.replace(row, status="measured earlier", source=source, values=values)
        taken = True
    return [NOTE] if taken else []
