"""Copy a whole run between a folder and a store (docs/distributed.md).

A killed copy goes on when it is started again. A folder or a URL that holds another run is refused.
"""

import itertools
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.operations.check import check
from solar_tf.run.checksums import VERIFIED
from solar_tf.run.directory import open_run
from solar_tf.run.files import TEMPORARY
from solar_tf.run.objects import Objects, url_of
from solar_tf.run.remote import ONE_OBJECT, RemoteRun
from solar_tf.runtime.console import progress

LEFT_OUT = ("scratch", "small_files", "tensorboard")  # of one machine only
# Written once, by preprocess.py, train.py and tuning. All other files can be replaced.
FIXED = ("labels/", "vocab/", "rows/", "records/", "index/", "chunks/", "tuned/")


def pull(url, folder):
    """Copy the run at a URL; returns the Report of its verification."""
    paths = _remote(url, folder)
    there = paths.stored()
    if paths.config not in there:
        raise UserError(f"{paths.location}: no run here (no config.json)")
    _require_same(paths)
    for group, can_change in _in_order(paths, there):
        paths.fetch(*group, fresh=can_change)
    return check(folder)


def push(folder, url):
    """Copy what is complete of the run in a folder to a URL; returns how many files it has."""
    paths = _remote(url, open_run(folder).paths.root)
    here = set()
    for path in paths.root.rglob("*"):
        whole = ONE_OBJECT.match(paths.name_of(path))
        if path.is_file() and path.suffix != ".lock":
            here.add(paths.root / whole[0] if whole else path)
    if paths.objects.has(paths.name_of(paths.config)):
        _require_same(paths)
    groups = _in_order(paths, here)
    count = sum(len(group) for group, _ in groups)
    with progress(count, "pushing", "file") as bar:
        for group, can_change in groups:
            for path in group:
                paths.publish(path, replace=can_change)
                bar.update()
    return count


def _remote(url, folder):
    """The run at a URL, with the folder in place of its mirror."""
    if url_of(url) is None:
        raise UserError(f"{url}: not a URL such as s3://bucket/run")
    return RemoteRun(Path(folder), Objects(url_of(url)))


def _require_same(paths):
    if paths.config.exists() and paths.config.read_bytes() != paths.read_config():
        raise UserError(f"{paths.root}: another run than that at {paths.location}: choose another")


def _in_order(paths, files):
    """Files and folders in groups, each with whether it can change.

    A killed copy never looks more complete than it is: what lists other files comes after them.
    """
    markers = paths.config, paths.summary

    def place(path):
        if path in markers:
            return 1 + markers.index(path)
        if paths.is_one_object(path):
            return 3
        if paths.name_of(path).startswith(FIXED):
            return 0
        return 5 if path.suffix == ".json" else 4

    kept = [path for path in files if not _is_left_out(path.relative_to(paths.root))]
    groups = itertools.groupby(sorted(kept, key=lambda path: (place(path), path)), place)
    return [([*group], number > 3) for number, group in groups]


def _is_left_out(name):
    return (
        name.parts[0] in LEFT_OUT
        or name.name == VERIFIED
        or any(part.endswith((TEMPORARY, ".training")) for part in name.parts)
    )
