"""Verify a whole run: every file that carries a checksum, whatever was verified before.

    solar check RUN

Prints one line for each damaged file, with the stage that rebuilds it, and ends with code 1 if
there is any.
"""

from solar_tf.cli.programs import program, report_problems
from solar_tf.operations.check import STAGES, check
from solar_tf.runtime.console import say, size, table


def main(arguments):
    parser = program("check", __doc__)
    parser.add_argument("run", metavar="RUN", help="the run directory")
    report = check(parser.parse_args(arguments).run)
    rows = []
    for stage in STAGES:
        files = [path for path, of in report.seen.items() if of == stage and path.is_file()]
        if files:
            rows.append((stage, len(files), size(sum(path.stat().st_size for path in files))))
    say(table(("stage", "files", str(report.root)), rows))
    others, leftovers = report.others()
    if others:
        say(f"\n{len(others)} files without a checksum, such as {others[0]}")
    if leftovers:
        say(f"\n{len(leftovers)} temporary files of processes at work, or killed")
    say(f"\n{len(report.problems) or 'nothing'} damaged")
    return report_problems(report.problems)
