"""A run as one self-contained page.

    python -m solar_tf.analysis.report RUN                 writes RUN/report.html
    python -m solar_tf.analysis.report RUN --out page.html
    python -m solar_tf.analysis.report RUN --test test.txt.xz       queries in their own words

The page has results, precision against m and K, training curves, candidates, scores, accuracy by
label frequency, sample queries, geometry and set-up. What a run does not have yet is left out:
after infer.py there is all of it, and baselines join as they are run.
"""

from pathlib import Path

from solar_tf.analysis.report.facts import gather
from solar_tf.analysis.report.page import page
from solar_tf.analysis.report.sections import build
from solar_tf.cli.programs import errors_explained, program
from solar_tf.datasets.formats import open_source
from solar_tf.errors import UserError
from solar_tf.run.directory import open_run
from solar_tf.run.files import atomic_write
from solar_tf.runtime.console import say


def write_report(run, path=None, source=None):
    """Write the page of a run (a rundir.Run); returns its path."""
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


def main(arguments=None):
    parser = program("solar_tf.analysis.report", __doc__)
    parser.add_argument("run", metavar="RUN", help="a run directory after preprocess.py")
    parser.add_argument("--out", help="the page's path [RUN/report.html]")
    parser.add_argument("--test", help="the run's test file, for the texts of sample queries")
    parser.add_argument("--format", default="auto", help="of --test, if it is not recognised")
    args = parser.parse_args(arguments)
    with errors_explained():
        run = open_run(args.run)
        source = open_test(run, args.test, args.format) if args.test else None
        path = write_report(run, args.out, source)
        say(f"{path}: {path.stat().st_size / 1000:,.0f} kB, open it in a browser")


if __name__ == "__main__":
    main()
