"""Stage 3 (§3.3) on a cluster: queries are sharded for the forward pass, labels for ranking.

A forward task is one chunk and one block of queries; it leaves its top buckets, as ever, as a
file of the run. A ranking task is one block, one setting and one range of labels; the rankings
of the ranges are merged here, exactly.
"""

import contextlib
import dataclasses
import itertools
from functools import partial

from solar_tf.distributed.ranking import (
    block_of,
    clear_mirror,
    own_files,
    rank_shard,
    stack_shard,
)
from solar_tf.retrieval import evaluation
from solar_tf.retrieval.ranking import merge_shards
from solar_tf.runtime.console import progress
from solar_tf.runtime.devices import load_tensorflow
from solar_tf.runtime.workers import run_tasks

BLOCK_QUERIES = 2000  # a task's forward pass should take longer than loading its model


def infer(root, cluster, **options):
    """`evaluation.infer` by the cluster's workers."""
    return evaluation.infer(root, workers=cluster, stage=ClusterInference, **options)


class ClusterInference(evaluation.Inference):
    """An evaluation whose blocks go through the cluster together, as many as there is disk for."""

    most_queries = BLOCK_QUERIES

    def plan(self, *limits):
        """Nodes may have files of other evaluations in their mirrors: each has its own folder."""
        super().plan(*limits)
        folder = self.run.paths.evaluation(f"{self.key[:16]}_{len(self.files.ranges)}")
        self.files = dataclasses.replace(self.files, folder=folder)

    def clear(self):
        super().clear()
        self.run.paths.drop(self.run.paths.scratch)

    def ranked_block(self, block):
        """Rank this block and those after it; all of them leave their files."""
        blocks = range(block, len(self.blocks))
        if self.full:
            most = max(1, self.batches_kept * evaluation.BATCH_SIZE // self.block_size)
            blocks = blocks[:most]
        shards = range(len(self.files.ranges))
        if not self.run.paths.has(self.files.stacked("labels", shards[-1])):
            stack = partial(stack_shard, self.run, self.delta, self.files, self.full)
            list(run_tasks(stack, shards, self._rankers()))
        costs = self._forward(blocks)
        self._rank(blocks, shards, costs)
        there = [*self.files.folder.glob("*"), *self.run.paths.stored(self.files.folder)]
        done = {path for path in there if block_of(path) in blocks}
        self.run.paths.drop(*done)
        return self.saved_ranking(block)

    def _rankers(self):
        """Workers for tasks without TensorFlow: one core each."""
        return dataclasses.replace(self.workers, cpus=1, gpus=0)

    def _forward(self, blocks):
        """The forward passes; returns the costs of every block."""
        costs = {block: {"forward": 0.0, "top_m": 0.0} for block in blocks}
        # A process that goes on with the same chunk has its weights in memory.
        tasks = [(block, chunk) for chunk in self.chunks for block in blocks]
        start = load_tensorflow, (self.workers.threads,)
        forward = partial(_forward, self, blocks[0])
        spent = run_tasks(forward, tasks, self.workers, *start)
        queries = len(self.chunks) * sum(map(self._size, blocks))
        with progress(queries, "forward", "query") as bar:
            for (block, _), parts in zip(tasks, spent, strict=True):
                for name, cost in parts.items():
                    costs[block][name] += cost
                bar.update(self._size(block))
        return costs

    def _rank(self, blocks, shards, costs):
        rank = partial(rank_shard, self.run.paths, self.files)
        tasks = itertools.product(blocks, self.settings, shards)
        queries = len(self.settings) * len(shards) * sum(map(self._size, blocks))
        with (
            progress(queries, "ranking", "query") as bar,
            contextlib.closing(run_tasks(rank, tasks, self._rankers())) as results,
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


def _forward(stage, first, task):
    """In one of the cluster's processes: the costs of one chunk's pass over a block."""
    block, chunk = task
    clear_mirror(stage.run.paths, stage.files, first)
    with own_files(stage.run.paths, stage.files) as files:
        return stage.forward(block, [chunk], dataclasses.replace(files, block=block))
