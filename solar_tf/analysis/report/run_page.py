"""The page of a run: what a run does not have yet is left out."""

from pathlib import Path

from solar_tf.analysis.report.facts import gather
from solar_tf.analysis.report.page import page
from solar_tf.analysis.report.sections import build
from solar_tf.datasets.formats import open_source
from solar_tf.errors import UserError
from solar_tf.run.files import atomic_write


def write_report(run, path=None, source=None):
    """Write the page of a run (a Run); returns its path."""
    facts = gather(run, source)
    path = Path(path or run.paths.report)
    dataset, on = facts["dataset"], facts["machine"]
    title = f"SOLAR on {dataset['name']}"
    subtitle = (
        f"{dataset['num_labels']:,} labels, {facts['num_chunks']} chunks of "
        f"{facts['num_buckets']:,} buckets. All figures measured here."
    )
    footer = f"Made by solar report on {on['date']}, commit {on['commit'] or 'unknown'}."
    with atomic_write(path, "w") as file:
        file.write(page(title, subtitle, build(facts), footer))
    return path


def open_test(run, path, format="auto"):
    """The source of the test queries' texts, in a file that must be the run's own."""
    if run.dataset["kind"] != "text":
        raise UserError(f"{path}: the run's queries have no texts: leave out --test")
    source = open_source(path, format, num_labels=run.dataset["num_labels"])
    if source.count_rows() != run.summary["test"]["rows"]:
        raise UserError(f"{path}: has other rows than the run's test file: give that one")
    return source
