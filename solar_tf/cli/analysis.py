"""Commands that explain a run, and the paper's theory."""

import json

from solar_tf.analysis import geometry as label_geometry
from solar_tf.analysis import tail as hit_tail
from solar_tf.analysis.report.run_page import open_test, write_report
from solar_tf.analysis.theory import findings
from solar_tf.cli.flags import add_flags
from solar_tf.cli.programs import program
from solar_tf.errors import UserError
from solar_tf.run.directory import open_run
from solar_tf.run.files import atomic_write
from solar_tf.runtime.console import say


def report(arguments):
    """A run as one self-contained page.

        solar report RUN                            writes RUN/report.html
        solar report RUN --out page.html
        solar report RUN --test test.txt.xz         queries in their own words

    The page has results, precision against m and K, training curves, candidates, scores, accuracy
    by label frequency, sample queries, geometry and set-up. Parts that need infer.py or a baseline
    are left out until these have run.
    """
    parser = program("report", report.__doc__)
    parser.add_argument("run", metavar="RUN", help="a run directory after preprocess.py")
    parser.add_argument("--out", help="the page's path [RUN/report.html]")
    parser.add_argument("--test", help="the run's test file, for the texts of sample queries")
    parser.add_argument("--format", default="auto", help="of --test, if it is not recognised")
    options = parser.parse_args(arguments)
    run = open_run(options.run)
    source = open_test(run, options.test, options.format) if options.test else None
    path = write_report(run, options.out, source)
    say(f"{path}: {path.stat().st_size / 1000:,.0f} kB, open it in a browser")


def geometry(arguments):
    """Load and geometry of a run's label vectors, beside what the paper derives (§3.1, §3.3).

        solar geometry RUN              a report as text
        solar geometry RUN --json       the same facts for programs

    The paper claims load-balanced indexes, near-orthogonal label vectors, a cheap search and little
    memory for labels. Each claim is shown with its measured value; the work of queries needs
    infer.py first.
    """
    parser = program("geometry", geometry.__doc__)
    parser.add_argument("run", metavar="RUN", help="a run directory after preprocess.py")
    parser.add_argument("--json", action="store_true", help="print the facts as JSON")
    pairs = ("pairs", int, label_geometry.PAIRS, "pairs of labels to sample")
    add_flags(parser, [pairs, ("seed", int, 0, "of the sample")])
    options = parser.parse_args(arguments)
    if options.pairs < 1 or options.seed < 0:
        raise UserError("--pairs must be above 0, and --seed not below")
    facts = label_geometry.measure(open_run(options.run), options.pairs, options.seed)
    say(json.dumps(facts, indent=2) if options.json else label_geometry.render(facts))


def tail(arguments):
    """Where the hits of every model on a run come from: frequent or rare labels and words.

        solar tail RUN              tables, one line for each model
        solar tail RUN --json       the same figures for programs

    By label frequency: labels that training never saw (zero-shot, which §5.1 promises and does not
    show), then tenths of the others. By word frequency: the half of the test queries with frequent
    words, and the half with infrequent ones (appendix D). Models are SOLAR's rows of
    predictions.npz and every baseline of the run.
    """
    parser = program("tail", tail.__doc__)
    parser.add_argument("run", metavar="RUN", help="a run with predictions")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    facts = hit_tail.measure(options.run)
    say(json.dumps(facts, indent=2) if options.json else hit_tail.render(facts))


def theory(arguments):
    """Check numerically what the paper derives: §3.1, §3.3, §4, §5.2 and appendix C.

        solar theory                          a page, theory.html
        solar theory --markdown theory.md     the same as Markdown, too
        solar theory --quick                  small sizes only, for a first look

    Takes a few minutes on one core and 2 GB of memory.
    """
    parser = program("theory", theory.__doc__)
    parser.add_argument("--out", default="theory.html", help="the page's path [theory.html]")
    parser.add_argument("--markdown", help="write it as Markdown as well")
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    options = parser.parse_args(arguments)
    sections = findings.measure(options.quick)
    for path, text in (
        (options.out, findings.as_page(sections)),
        (options.markdown, findings.as_markdown(sections)),
    ):
        if path:
            with atomic_write(path, "w") as file:
                file.write(text)
            say(f"wrote {path}")
