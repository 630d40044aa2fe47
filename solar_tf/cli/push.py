"""Copy what is complete of a run from a folder to a store (docs/distributed.md).

    solar push FOLDER s3://bucket/run

Killed on the way, it goes on when it is run again. A URL that holds another run is refused.
"""

from solar_tf.cli.programs import program
from solar_tf.operations.transfer import push
from solar_tf.runtime.console import say


def main(arguments):
    parser = program("push", __doc__)
    parser.add_argument("folder", metavar="FOLDER", help="the run directory")
    parser.add_argument("url", metavar="URL", help="where to copy it, such as s3://bucket/run")
    options = parser.parse_args(arguments)
    count = push(options.folder, options.url)
    say(f"{count} files and chunks of {options.folder} are at {options.url}")
