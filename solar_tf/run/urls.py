"""Runs at URLs: which they are, and where this machine has their mirrors."""

import hashlib
import os
import urllib.parse
from pathlib import Path

from solar_tf.errors import UserError

VARIABLE = "SOLAR_MIRROR"  # the folder of all mirrors

_mirrors = {}  # of this process: their URLs


def url_of(root):
    """The URL of a run that is not in a folder, or None."""
    scheme, found, rest = str(root).partition("://")
    if not found:
        return None
    if scheme == "file":
        if not rest.startswith("/"):
            raise UserError(f"--run {root}: a file URL has three slashes, file:///folder")
        return None
    return str(root).rstrip("/")


def local_path(root):
    """A path as it is, or the path of a file URL."""
    text = str(root)
    return urllib.parse.unquote(text[len("file://") :]) if text.startswith("file://") else root


def mirror_of(url):
    """The folder in which this machine has what it needs of the run."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = os.environ.get(VARIABLE) or Path(cache, "solar-tf", "runs")
    mirror = Path(folder).absolute() / hashlib.sha256(url.encode()).hexdigest()[:16]
    _mirrors[mirror] = url
    return mirror


def mirrored(path):
    """The URL and the name of a file in one of this process's mirrors, or None."""
    for mirror, url in _mirrors.items():
        if path.is_relative_to(mirror):
            return url, path.relative_to(mirror).as_posix()
    return None
