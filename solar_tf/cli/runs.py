"""Commands that look after runs."""

from solar_tf.cli.programs import program, report_problems
from solar_tf.operations import transfer
from solar_tf.operations.check import STAGES
from solar_tf.operations.check import check as check_run
from solar_tf.runtime.console import say, size, table


def check(arguments):
    """Verify a whole run: every file that carries a checksum, whatever was verified before.

        solar check RUN

    Prints one line for each damaged file, with the stage that rebuilds it, and ends with code 1 if
    there is any.
    """
    parser = program("check", check.__doc__)
    parser.add_argument("run", metavar="RUN", help="the run directory")
    report = check_run(parser.parse_args(arguments).run)
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


def pull(arguments):
    """Copy a whole run from a store to a folder, and verify it (docs/distributed.md).

        solar pull s3://bucket/run FOLDER

    Killed on the way, it goes on when it is run again. A folder that holds another run is refused.
    """
    parser = program("pull", pull.__doc__)
    parser.add_argument("url", metavar="URL", help="the run, such as s3://bucket/run")
    parser.add_argument("folder", metavar="FOLDER", help="where to copy it")
    options = parser.parse_args(arguments)
    report = transfer.pull(options.url, options.folder)
    say(f"{options.folder}: {len(report.seen)} files verified")
    return report_problems(report.problems)


def push(arguments):
    """Copy what is complete of a run from a folder to a store (docs/distributed.md).

        solar push FOLDER s3://bucket/run

    Killed on the way, it goes on when it is run again. A URL that holds another run is refused.
    """
    parser = program("push", push.__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="the run directory")
    parser.add_argument("url", metavar="URL", help="where to copy it, such as s3://bucket/run")
    options = parser.parse_args(arguments)
    count = transfer.push(options.folder, options.url)
    say(f"{count} files and chunks of {options.folder} are at {options.url}")
