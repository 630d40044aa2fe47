"""The `solar` command. Its subcommands are imported when they are called."""

import argparse
import os
import sys
from pathlib import Path

from solar_tf import __version__
from solar_tf.cli.programs import errors_explained
from solar_tf.errors import UserError
from solar_tf.run.directory import searchable

SERVE = """Serve a trained run of titles: a search page for people at /, an API for programs.

  solar serve my_run                     http://127.0.0.1:8000/
  solar serve my_run --port 0            some free port, which it prints
  curl 'http://127.0.0.1:8000/search?q=web+forms&k=5'

A file of attributes (a header of names, then a line for each label, with TABs between) lets clients
ask for some labels only; RUN/attributes.tsv is found by itself:

  solar serve my_run --attributes packages.tsv
  curl -G http://127.0.0.1:8000/search -d q=forms --data-urlencode 'where=section=web|net size<5000'

Labels can be added and removed by clients that know the token; without one nothing can be changed.
SIGHUP opens the run again (it may be a link to a newer one), SIGTERM ends after the last answer.
"""


def main(arguments=None):
    """The entry point: returns when the subcommand has done its work."""
    options = _parser().parse_args(arguments)
    with errors_explained():
        options.run_command(options)


def _parser():
    parser = argparse.ArgumentParser("solar", description="SOLAR, a search engine over labels.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands)
    return parser


def _add_serve(commands):
    serve = commands.add_parser(
        "serve",
        help="serve a trained run over HTTP",
        description=SERVE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.set_defaults(run_command=_serve)
    serve.add_argument("run", metavar="RUN", help="the run directory, a link to it, or a URL")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen at [127.0.0.1]")
    serve.add_argument("--port", type=_number(0, 65535), default=8000, help="[8000]")
    serve.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name that clients may call this server by, such as that of a proxy",
    )
    serve.add_argument("--num-chunks", type=_number(1), help="use only so many chunks [all]")
    serve.add_argument(
        "--attributes",
        metavar="FILE",
        help="attributes of the labels to search by, tab-separated [RUN/attributes.tsv, or none]",
    )
    serve.add_argument(
        "--token-file", type=Path, help="file with the token for changes [$SOLAR_TOKEN, or none]"
    )
    serve.add_argument(
        "--window",
        type=float,
        default=1.0,
        metavar="MS",
        help="milliseconds to wait for more queries of a busy moment [1]",
    )
    limits = serve.add_argument_group("limits")
    for flag, default, text in (
        ("rate", 50, "requests a second that a client may make; 0 for no limit"),
        ("burst", 100, "requests it may make at once"),
        ("body-bytes", 1_000_000, "of a request"),
        ("query-length", 1000, "characters of a query"),
        ("queries", 64, "in one request"),
        ("results", 1000, "k"),
    ):
        least = 0 if flag == "rate" else 1
        limits.add_argument(
            f"--{flag}", type=_number(least), default=default, help=f"{text} [{default}]"
        )


def _number(least, most=10**9):
    def number(text):
        if not text.isascii() or not text.isdigit() or not least <= int(text[:12]) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        return int(text)

    return number


def _serve(options):
    try:
        from solar_tf.serving.limits import Limits
        from solar_tf.serving.server import serve
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] not in ("fastapi", "uvicorn", "httptools", "starlette"):
            raise
        raise UserError(f"no module {error.name}: pip install 'solar-tf[serve]'")
    if not 0 <= options.window <= 1000:
        raise UserError(f"--window {options.window:g}: give milliseconds from 0 to 1000")
    names = ("rate", "burst", "body_bytes", "query_length", "queries", "results")
    serve(
        searchable(options.run),
        options.host,
        options.port,
        Limits(**{name: getattr(options, name) for name in names}),
        token=_token(options.token_file),
        num_chunks=options.num_chunks,
        window=options.window / 1000,
        hosts=options.allowed_host,
        attributes=options.attributes,
    )


def _token(path):
    """The token, never from the command line: everybody on the machine can read that."""
    token = os.environ.get("SOLAR_TOKEN", "") if path is None else path.read_text(encoding="utf-8")
    token = token.strip()
    if not token and path is None:
        return None
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise UserError("the token has to be 16 or more ASCII characters: openssl rand -hex 16")
    return token


if __name__ == "__main__":
    sys.exit(main())
