"""The command that serves a run over HTTP."""

import os
from pathlib import Path

from solar_tf.cli.flags import add_flags, values_of
from solar_tf.cli.programs import program, whole_number
from solar_tf.errors import UserError
from solar_tf.run.directory import searchable

FLAGS = (
    ("host", str, "127.0.0.1", "address to listen at"),
    ("port", whole_number(0, 65535), 8000, "port to listen at; 0 for any that is free"),
    ("num_chunks", whole_number(1), None, "the first chunks only [all]"),
    ("attributes", str, None, "attributes of the labels, tab-separated [RUN/attributes.tsv]"),
    ("token_file", Path, None, "file with the token for changes [$SOLAR_TOKEN, or none]"),
    ("window", float, 1.0, "milliseconds to wait for more queries when busy"),
)
LIMITS = (
    ("rate", whole_number(0), 50, "requests a second that a client may make; 0 for no limit"),
    ("burst", whole_number(1), 100, "requests it may make at once"),
    ("body_bytes", whole_number(1), 1_000_000, "most bytes of a request"),
    ("query_length", whole_number(1), 1000, "most characters of a query"),
    ("queries", whole_number(1), 64, "most queries in one request"),
    ("results", whole_number(1), 1000, "largest k"),
)


def serve(arguments):
    """Serve a trained run of titles: a search page for people at /, an API for programs.

      solar serve my_run                     http://127.0.0.1:8000/
      solar serve my_run --port 0            some free port, which it prints
      curl 'http://127.0.0.1:8000/search?q=web+forms&k=5'

    A file of attributes (a header of names, then a line for each label, with TABs between) lets
    clients ask for some labels only; RUN/attributes.tsv is found by itself:

      solar serve my_run --attributes packages.tsv
      curl -G http://127.0.0.1:8000/search -d q=web --data-urlencode 'where=section=web|net size<50'

    Clients that know the token can add and remove labels; without a token nothing can be changed.
    SIGHUP opens the run again (it may be a link to a newer one). SIGTERM ends the server after the
    last answer.
    """
    options = _parser().parse_args(arguments)
    try:
        from solar_tf.serving import server
        from solar_tf.serving.limits import Limits
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] not in ("fastapi", "uvicorn", "httptools", "starlette"):
            raise
        raise UserError(f"no module {error.name}: pip install 'solar-tf[serve]'")
    if not 0 <= options.window <= 1000:
        raise UserError(f"--window {options.window:g}: give milliseconds from 0 to 1000")
    server.serve(
        searchable(options.run),
        options.host,
        options.port,
        Limits(**values_of(options, LIMITS)),
        token=_token(options.token_file),
        num_chunks=options.num_chunks,
        window=options.window / 1000,
        hosts=options.allowed_host,
        attributes=options.attributes,
    )


def _parser():
    parser = program("serve", serve.__doc__)
    parser.add_argument("run", metavar="RUN", help="the run directory, a link to it, or a URL")
    parser.add_argument(
        "--allowed_host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name that clients may call this server by, such as a proxy's",
    )
    add_flags(parser, FLAGS)
    add_flags(parser.add_argument_group("limits"), LIMITS)
    return parser


def _token(path):
    """The token. It is never a flag, since everybody on the machine can read the command line."""
    token = os.environ.get("SOLAR_TOKEN", "") if path is None else path.read_text(encoding="utf-8")
    token = token.strip()
    if not token and path is None:
        return None
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise UserError("the token has to be 16 or more ASCII characters: openssl rand -hex 16")
    return token
