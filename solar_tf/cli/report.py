"""A run as one self-contained page.

    solar report RUN                            writes RUN/report.html
    solar report RUN --out page.html
    solar report RUN --test test.txt.xz         queries in their own words

The page has results, precision against m and K, training curves, candidates, scores, accuracy by
label frequency, sample queries, geometry and set-up. What a run does not have yet is left out:
after infer.py there is all of it, and baselines join as they are run.
"""

from solar_tf.analysis.report.run_page import open_test, write_report
from solar_tf.cli.programs import program
from solar_tf.run.directory import open_run
from solar_tf.runtime.console import say


def main(arguments):
    parser = program("report", __doc__)
    parser.add_argument("run", metavar="RUN", help="a run directory after preprocess.py")
    parser.add_argument("--out", help="the page's path [RUN/report.html]")
    parser.add_argument("--test", help="the run's test file, for the texts of sample queries")
    parser.add_argument("--format", default="auto", help="of --test, if it is not recognised")
    options = parser.parse_args(arguments)
    run = open_run(options.run)
    source = open_test(run, options.test, options.format) if options.test else None
    path = write_report(run, options.out, source)
    say(f"{path}: {path.stat().st_size / 1000:,.0f} kB, open it in a browser")
