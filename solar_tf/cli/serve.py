"""Serve a trained run of titles: a search page for people at /, an API for programs.

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

import os
from pathlib import Path

from solar_tf.cli.programs import program, whole_number
from solar_tf.errors import UserError
from solar_tf.run.directory import searchable

LIMITS = (  # name, least, default, meaning
    ("rate", 0, 50, "requests a second that a client may make; 0 for no limit"),
    ("burst", 1, 100, "requests it may make at once"),
    ("body_bytes", 1, 1_000_000, "of a request"),
    ("query_length", 1, 1000, "characters of a query"),
    ("queries", 1, 64, "in one request"),
    ("results", 1, 1000, "k"),
)


def main(arguments):
    options = _parser().parse_args(arguments)
    try:
        from solar_tf.serving.limits import Limits
        from solar_tf.serving.server import serve
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] not in ("fastapi", "uvicorn", "httptools", "starlette"):
            raise
        raise UserError(f"no module {error.name}: pip install 'solar-tf[serve]'")
    if not 0 <= options.window <= 1000:
        raise UserError(f"--window {options.window:g}: give milliseconds from 0 to 1000")
    serve(
        searchable(options.run),
        options.host,
        options.port,
        Limits(**{name: getattr(options, name) for name, *_ in LIMITS}),
        token=_token(options.token_file),
        num_chunks=options.num_chunks,
        window=options.window / 1000,
        hosts=options.allowed_host,
        attributes=options.attributes,
    )


def _parser():
    parser = program("serve", __doc__)
    parser.add_argument("run", metavar="RUN", help="the run directory, a link to it, or a URL")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at [127.0.0.1]")
    parser.add_argument("--port", type=whole_number(0, 65535), default=8000, help="[8000]")
    parser.add_argument(
        "--allowed_host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name that clients may call this server by, such as a proxy's",
    )
    parser.add_argument("--num_chunks", type=whole_number(1), help="the first chunks only [all]")
    parser.add_argument(
        "--attributes",
        metavar="FILE",
        help="attributes of the labels to search by, tab-separated [RUN/attributes.tsv, or none]",
    )
    parser.add_argument(
        "--token_file", type=Path, help="file with the token for changes [$SOLAR_TOKEN, or none]"
    )
    parser.add_argument(
        "--window",
        type=float,
        default=1.0,
        metavar="MS",
        help="milliseconds to wait for more queries of a busy moment [1]",
    )
    limits = parser.add_argument_group("limits")
    for name, least, default, text in LIMITS:
        text = f"{text} [{default}]"
        limits.add_argument(f"--{name}", type=whole_number(least), default=default, help=text)
    return parser


def _token(path):
    """The token; never a flag, since everybody on the machine can read the command line."""
    token = os.environ.get("SOLAR_TOKEN", "") if path is None else path.read_text(encoding="utf-8")
    token = token.strip()
    if not token and path is None:
        return None
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise UserError("the token has to be 16 or more ASCII characters: openssl rand -hex 16")
    return token
