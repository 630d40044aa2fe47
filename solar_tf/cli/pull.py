"""Copy a whole run from a store to a folder, and verify it (docs/distributed.md).

    solar pull s3://bucket/run FOLDER

Killed on the way, it goes on when it is run again. A folder that holds another run is refused.
"""

from solar_tf.cli.programs import program, report_problems
from solar_tf.operations.transfer import pull
from solar_tf.runtime.console import say


def main(arguments):
    parser = program("pull", __doc__)
    parser.add_argument("url", metavar="URL", help="the run, such as s3://bucket/run")
    parser.add_argument("folder", metavar="FOLDER", help="where to copy it")
    options = parser.parse_args(arguments)
    report = pull(options.url, options.folder)
    say(f"{options.folder}: {len(report.seen)} files verified")
    return report_problems(report.problems)
