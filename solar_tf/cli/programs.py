"""Parsers whose help is a docstring, and errors of one line, for all commands."""

import argparse
import contextlib
import inspect
import os
import signal
import sys

from solar_tf.errors import UserError


def program(name, text):
    """The parser of `solar NAME`, whose --help shows the docstring `text`."""
    return argparse.ArgumentParser(
        prog=f"solar {name}",
        description=inspect.cleandoc(text),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_command(commands, name, text):
    """The parser of one of a command's own commands, such as `solar labels add`."""
    return commands.add_parser(name, help=text, description=text, allow_abbrev=False)


def whole_number(least, most=10**9):
    """The type of a flag that takes whole numbers from `least` to `most`."""

    def number(text):
        if not text.isascii() or not text.isdigit() or not least <= int(text[:12]) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        return int(text)

    return number


@contextlib.contextmanager
def errors_explained():
    """End the program with one line if the user can fix the error; show other errors whole."""
    try:
        yield
        sys.stdout.flush()
    except UserError as error:
        stop(error)
    except KeyboardInterrupt:
        stop("interrupted: run the same command again to go on", 130)
    except MemoryError:
        stop("not enough memory: preprocess.py --estimate says what a run takes")
    except BrokenPipeError:  # the reader of the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        where = f"{error.filename}: " if error.filename else ""
        stop(f"{where}{error.strerror}: make room or give access, then run it again")


def stop(message, code=1):
    """End the program with one line."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def report_problems(problems):
    """Print one line for each problem; returns the exit code."""
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0
