"""Paths that mean the same file on every machine.

Machines may mount the shared file system in different places. Paths below SOLAR_SHARED are sent
relative to it; paths in the mirror of a run in a store are sent relative to the folder of each
machine's mirrors. A machine may have another directory under the run's name, such as one on its
own disk. It must not write there, so the machines compare a mark in the run.
"""

import io
import os
import pickle
import secrets
import socket
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.run.files import atomic_write
from solar_tf.run.objects import url_of
from solar_tf.run.paths import RunDirectory
from solar_tf.run.remote import mirrors, name_in_mirrors

VARIABLE = "SOLAR_SHARED"


class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if not isinstance(value, Path):
            return NotImplemented
        path, root = value.absolute(), os.environ.get(VARIABLE)
        if name := name_in_mirrors(path):
            return _in_mirrors, (name,)
        if root and path.is_relative_to(root):
            return _below_root, (root, str(path.relative_to(root)))
        return Path, (str(path),)


def _below_root(root, name):
    """A path below this machine's shared root, by default the sender's."""
    return Path(os.environ.get(VARIABLE, root), name)


def _in_mirrors(name):
    return mirrors() / name


def dumps(value):
    """Pickle a value for another machine, whose `pickle.loads` finds the same paths."""
    file = io.BytesIO()
    _Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def mark(root):
    """Path and content of the mark of a run, which is written if it is not there yet.

    A machine that reads the same content sees the same directory. A store needs no mark: None.
    """
    if url_of(root):
        return None
    path = RunDirectory(Path(root)).cluster_mark
    if not path.exists():
        with atomic_write(path, "w") as file:
            file.write(secrets.token_hex(16))
    return path, path.read_text()


def require_mark(path, content):
    """UserError unless this machine sees the marked run."""
    try:
        if path.read_text() == content:
            return
        what = "another directory of this name"
    except OSError as error:
        what = error.strerror
    raise UserError(
        f"{path.parent}: node {socket.gethostname()} does not see the run there ({what}): put it "
        f"on a file system that all nodes mount, and set {VARIABLE} on nodes that mount it "
        "elsewhere"
    )
