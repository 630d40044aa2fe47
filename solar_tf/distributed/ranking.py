"""Ranking tasks on a cluster (§3.3): one range of labels and one block of queries each.

Their processes have no TensorFlow. Files that one task writes are read by others only when they
are complete: they are written in a folder of the attempt's own and renamed.
"""

import contextlib
import dataclasses
import os
import shutil
import time

from solar_tf.ranking import Ranker, stack_indexes
from solar_tf.storage import TOKEN, sync


@contextlib.contextmanager
def own_files(files):
    """The files in a folder of this process, from where they are renamed into place."""
    own = dataclasses.replace(files, folder=files.folder / f"{os.getpid()}_{TOKEN}")
    shutil.rmtree(own.folder, ignore_errors=True)
    own.folder.mkdir(parents=True)
    try:
        yield own
        for path in own.folder.iterdir():
            sync(path)
            os.replace(path, files.folder / path.name)
    finally:
        shutil.rmtree(own.folder, ignore_errors=True)


def stack_shard(run, delta, files, full, shard):
    """Lay out the indexes of a range of labels, for all nodes to map."""
    with own_files(files) as own:
        stack_indexes(run, delta, own, full, [shard])


def rank_shard(files, k, floor, task):
    """Ids, scores and candidates of a block's queries in a shard, and the seconds it took."""
    block, setting, shard = task
    ranker = Ranker(dataclasses.replace(files, block=block), k, floor)
    started = time.perf_counter()
    results = ranker.rank(setting, shard, slice(None))
    return results, time.perf_counter() - started
