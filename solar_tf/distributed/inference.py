"""Stage 3 (§3.3) on a cluster: queries are sharded for the forward pass, labels for ranking.

A forward task is one chunk and one block of queries; it leaves its top buckets, as ever, as a
file of the run. A ranking task is one block, one setting and one range of labels; the ranges'
rankings are merged here, exactly. Files that one task writes are read by others only when they
are complete: they are written in a folder of the attempt's own and renamed.
"""

import contextlib
import dataclasses
import itertools
import os
import shutil
import time

from solar_tf import inference
from solar_tf.cli import load_tensorflow
from solar_tf.console import progress
from solar_tf.ranking import Ranker, merge_shards, stack_indexes
from solar_tf.storage import TOKEN, sync
from solar_tf.workers import run_tasks

BLOCK_QUERIES = 2000  # a task's forward pass should take longer than loading its model


def infer(root, cluster, **options):
    """`inference.infer` by the cluster's workers."""
    return inference.infer(root, workers=cluster, stage=ClusterInference, **options)


class ClusterInference(inference.Inference):
    """An evaluation whose blocks go through the cluster together, as many as there is disk for."""

    most_queries = BLOCK_QUERIES

    def ranked_block(self, block):
        """Rank this block and those after it; all of them leave their files."""
        blocks = range(block, len(self.blocks))
        if self.full:
            most = max(1, self.batches_kept * inference.BATCH_SIZE // self.block_size)
            blocks = blocks[:most]
        shards = range(len(self.files.ranges))
        if not self.files.stacked("labels", shards[-1]).exists():
            list(self._run(_stack, shards))
        costs = self._forward(blocks)
        self._rank(blocks, shards, costs)
        for done in blocks:
            for path in self.files.folder.glob(f"*_{done:04d}_??.npy"):
                path.unlink()
        return self.saved_ranking(block)

    def _run(self, function, tasks, cluster=None):
        start = _start, (self, self.workers.threads if function is _forward else None)
        yield from run_tasks(function, tasks, cluster or self._rankers(), *start)

    def _rankers(self):
        """Of what is done without TensorFlow: one core each."""
        return dataclasses.replace(self.workers, cpus=1, gpus=0)

    def _forward(self, blocks):
        """The forward passes; returns the costs of every block."""
        costs = {block: {"forward": 0.0, "top_m": 0.0} for block in blocks}
        # A process that goes on with the same chunk has its model loaded.
        tasks = [(block, chunk) for chunk in self.chunks for block in blocks]
        queries = len(self.chunks) * (self.blocks[blocks[-1]][1] - self.blocks[blocks[0]][0])
        with progress(queries, "forward", "query") as bar:
            for (block, _), spent in zip(
                tasks, self._run(_forward, tasks, self.workers), strict=True
            ):
                for name, cost in spent.items():
                    costs[block][name] += cost
                bar.update(self._size(block))
        return costs

    def _rank(self, blocks, shards, costs):
        queries = len(self.settings) * len(shards) * sum(map(self._size, blocks))
        tasks = itertools.product(blocks, self.settings, shards)
        with (
            progress(queries, "ranking", "query") as bar,
            contextlib.closing(self._run(_rank, tasks)) as results,
        ):
            for block in blocks:

                def ranked(block=block):
                    for setting in self.settings:
                        parts, spent = zip(*itertools.islice(results, len(shards)), strict=True)
                        bar.update(len(shards) * self._size(block))
                        yield setting, *merge_shards(parts, self.files.ranges), sum(spent)

                self.save_ranking(block, ranked(), costs[block])

    def _size(self, block):
        start, stop = self.blocks[block]
        return stop - start


# In the cluster's processes.

_stage = None  # the ClusterInference of this process


def _start(stage, threads):
    global _stage
    _stage = stage
    if threads:
        load_tensorflow(threads)


@contextlib.contextmanager
def _own_files():
    """The stage's files in a folder of this process, from where they are renamed into place."""
    files = _stage.files
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


def _stack(shard):
    with _own_files() as files:
        stack_indexes(_stage.run, files, _stage.full, [shard])


def _forward(task):
    block, chunk = task
    with _own_files() as files:
        return _stage.forward(block, chunk, dataclasses.replace(files, block=block))


def _rank(task):
    """Ids, scores and candidates of a shard, and the seconds that they took."""
    block, setting, shard = task
    files = dataclasses.replace(_stage.files, block=block)
    ranker = Ranker(files, _stage.num_ranked, _stage.floor)
    started = time.perf_counter()
    results = ranker.rank(setting, shard, slice(None))
    return results, time.perf_counter() - started
