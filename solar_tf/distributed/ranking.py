"""Ranking tasks on a cluster (§3.3): one range of labels and one block of queries each.

Their processes have no TensorFlow. Tasks read one another's files only when they are complete:
each attempt writes in a folder of its own, renames the files, and puts them into the store if
the run is in one.
"""

import contextlib
import dataclasses
import os
import re
import shutil
import time

from solar_tf.retrieval.rankers import Ranker, stack_indexes
from solar_tf.run.files import TOKEN, sync
from solar_tf.run.remote import RemoteRun


@contextlib.contextmanager
def own_files(paths, files):
    """The files in a folder of this process, from where they are renamed into place."""
    own = dataclasses.replace(files, folder=files.folder / f"{os.getpid()}_{TOKEN}")
    shutil.rmtree(own.folder, ignore_errors=True)
    own.folder.mkdir(parents=True)
    try:
        yield own
        for path in own.folder.iterdir():
            sync(path)
            os.replace(path, files.folder / path.name)
            paths.publish(files.folder / path.name)
    finally:
        shutil.rmtree(own.folder, ignore_errors=True)


def stack_shard(run, delta, files, full, shard):
    """Lay out the indexes of a range of labels, for all nodes to map."""
    run.fetch(*map(run.paths.index, files.chunks))
    with own_files(run.paths, files) as own:
        stack_indexes(run, delta, own, full, [shard])


def block_of(path):
    """The block of queries that a file belongs to, or None."""
    match = re.fullmatch(r"[a-z]+_(\d{4,})_\d\d\.npy", path.name)
    return int(match[1]) if match else None


def clear_mirror(paths, files, first):
    """Delete what other evaluations, and the blocks before `first`, have left on this node."""
    if not isinstance(paths, RemoteRun):
        return
    for folder in paths.scratch.glob("*"):
        if folder != files.folder:
            shutil.rmtree(folder, ignore_errors=True)
    for path in files.folder.glob("*.npy"):
        if (block := block_of(path)) is not None and block < first:
            path.unlink(missing_ok=True)


def rank_shard(paths, files, task):
    """Ids, scores and candidates of a block's queries in a shard, and the seconds it took."""
    block, setting, shard = task
    ranker = Ranker(dataclasses.replace(files, block=block))
    paths.fetch(*ranker.files_of(setting, shard))
    started = time.perf_counter()
    results = ranker.rank(setting, shard, slice(None))
    return results, time.perf_counter() - started
