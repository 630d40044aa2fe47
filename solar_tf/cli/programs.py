"""What all programs share: a help that is the module's own text, and errors that are one line."""

import argparse
import contextlib
import os
import signal
import sys

from solar_tf.errors import UserError


def program(name, text):
    """The parser of `python -m NAME`, whose --help is `text` as it stands."""
    return argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


@contextlib.contextmanager
def errors_explained():
    """End the program with one line of text where the user, not the program, can mend it."""
    try:
        yield
        sys.stdout.flush()
    except UserError as error:
        stop(error)
    except KeyboardInterrupt:
        stop("interrupted: run the same command again to go on", 130)
    except MemoryError:
        stop("not enough memory: preprocess.py --estimate says what a run takes")
    except BrokenPipeError:  # whoever read the output, `head` say, has seen enough
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
