"""Stage 3 (§3.3): forward pass, top-m buckets, lookup and ranking, metrics.

Queries go in blocks. For each block every chunk leaves its top buckets as a file, and for
SOLAR-full all probabilities in the scratch folder, whose size limits the block. Then processes
without TensorFlow rank the block.
"""

import hashlib
import json
import math
import os
import shutil

import numpy as np

from solar_tf.errors import UserError
from solar_tf.retrieval import ranking
from solar_tf.retrieval.encoder import TensorFlowEncoder
from solar_tf.retrieval.forward import BATCH_SIZE, BlockForward
from solar_tf.retrieval.label_table import label_ranges
from solar_tf.retrieval.metrics import (
    KS,
    RECALL_AT,
    MetricSums,
    filter_pairs,
    filtered_labels,
    run_propensities,
    true_labels,
)
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.plan import plan_inference
from solar_tf.retrieval.rankers import RankFiles, rank_block, stack_indexes
from solar_tf.run.changes import read_delta
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_array, read_arrays, read_json, sweep, write_arrays, write_json
from solar_tf.run.locks import try_lock
from solar_tf.run.weights import read_state
from solar_tf.runtime.console import say, table
from solar_tf.runtime.memory import held_to
from solar_tf.runtime.ragged import slice_rows

MOST_QUERIES = 100_000  # of a block: its rankings are in memory


def infer(
    root,
    top_buckets=(100, 50, 25),
    full=True,
    scores=ranking.SCORES,
    floor=ranking.EVIDENCE_FLOOR,
    num_chunks=None,
    grouped=True,
    top_labels=100,
    workers=1,
    scratch_bytes=8e9,
    label_shards=1,
    max_memory=None,
    stage=None,
):
    """Evaluate a run on its test queries; returns the rows of the results table.

    `stage` is the class that does it; `distributed.inference` has another.
    """
    run = open_run(root, stage=True)
    chunks = run.choose_chunks(num_chunks, grouped)
    num_queries = run.summary["test"]["rows"]
    if not num_queries:
        raise UserError(f"{root}: the dataset has no test rows: ask with --query instead")
    top_buckets = sorted({min(m, run.config.num_buckets) for m in top_buckets}, reverse=True)
    delta = read_delta(run)
    top_labels = min(top_labels, delta.num_labels)
    # Enough labels are ranked that top_labels are left after the dataset's filter.
    most_filtered = int(np.diff(filtered_labels(run)[0]).max(initial=0))
    k = min(top_labels + most_filtered, delta.num_labels)
    settings = [
        SearchOptions(k, m, score, floor=floor)
        for score in scores
        for m in (*([None] if full else []), *top_buckets)
    ]
    with try_lock(run.paths.infer_lock) as free:
        if not free:
            raise UserError(f"{root}: another infer.py is at work here: wait for it to end")
        every = len(chunks) == run.config.num_chunks
        subset = (None, True) if every else (len(chunks), grouped)
        sweep(run.paths.topm_folder, run.paths.metrics(*subset), run.paths.predictions(*subset))
        stage = (stage or Inference)(run, delta, chunks, settings, top_labels, label_shards)
        stage.plan(workers, scratch_bytes, max_memory)
        run.paths.fetch(run.paths.metrics(*subset), fresh=True)
        result = read_json(run.paths.metrics(*subset))
        if result is None or result.get("key") != stage.key or not stage.predicted(subset):
            with held_to(max_memory):
                result = stage.evaluate(subset)
        stage.clear()
    _report(run, result)
    return result["rows"]


class Inference:
    """One evaluation: its settings, and what identifies its results."""

    most_queries = MOST_QUERIES

    def __init__(self, run, delta, chunks, settings, top_labels, label_shards):
        self.run, self.delta, self.chunks, self.settings = run, delta, chunks, settings
        self.top_labels = top_labels
        self.max_m = max((setting.m for setting in settings if setting.m is not None), default=0)
        self.full = any(setting.m is None for setting in settings)
        self.num_queries = run.summary["test"]["rows"]
        self.encoder = None  # traced when it is needed
        self.filter = filtered_labels(run)
        ranges = label_ranges(delta.num_labels, label_shards)
        self.files = RankFiles(run.paths.scratch, chunks, tuple(ranges))
        self.weights = {chunk: _weights_key(run, delta.weights(run, chunk)) for chunk in chunks}

    def plan(self, workers, scratch_bytes, max_memory):
        """Choose workers, queries of a forward pass and of a block that fit."""
        self.workers, self.batch_size = workers, BATCH_SIZE
        most = min(self.num_queries, self.most_queries)
        if self.full:
            bytes_per_batch = 4 * len(self.chunks) * self.run.config.num_buckets * BATCH_SIZE
            self.batches_kept = max(1, int(scratch_bytes // bytes_per_batch))
            most = min(most, self.batches_kept * BATCH_SIZE)
        if max_memory is not None:
            self.workers, self.batch_size, most = plan_inference(self, workers, most, max_memory)
        # Whole batches, unless one block takes all.
        batches = most / self.batch_size
        batches = math.ceil(batches) if most == self.num_queries else int(batches)
        self.block_size = max(1, batches) * self.batch_size
        self.blocks = [
            (start, min(start + self.block_size, self.num_queries))
            for start in range(0, self.num_queries, self.block_size)
        ]
        names = [setting.key for setting in self.settings]
        facts = self.weights, names, self.settings[0].floor, self.top_labels, self.block_size
        self.key = _key(*facts, *([self.delta.key] if self.delta.segments else []))

    def predicted(self, subset):
        return self.run.paths.has(self.run.paths.predictions(*subset))

    def evaluate(self, subset):
        """Do what is missing, block by block; write predictions and metrics."""
        paths = self.run.paths
        shards = range(self.run.summary["test"]["shards"])
        self.run.fetch(*(paths.rows("test", shard) for shard in shards))
        inverse = run_propensities(self.run, self.delta.num_labels)
        sums = {s.key: MetricSums(inverse) for s in self.settings}
        costs = dict.fromkeys(("forward", "top_m", *(s.key for s in self.settings)), 0.0)
        candidates = dict.fromkeys(costs, 0)
        splits, labels = true_labels(self.run)
        shutil.rmtree(paths.scratch, ignore_errors=True)
        for block, (start, stop) in enumerate(self.blocks):
            part = self.saved_ranking(block) or self.ranked_block(block)
            truth = slice_rows(splits, labels, start, stop)
            for name, cost in json.loads(str(part["costs"])).items():
                costs[name] += cost
            for setting in self.settings:
                sums[setting.key].add(part[f"{setting.key}_ids"], *truth)
                candidates[setting.key] += int(part[f"{setting.key}_candidates"].sum())
        result = {
            "key": self.key,
            "dataset": self.run.dataset["name"],
            "num_chunks": len(self.chunks),
            "num_queries": self.num_queries,
            "num_labels": self.delta.num_labels - len(self.delta.removed),
            "cores": len(os.sched_getaffinity(0)),
            "evidence_floor": self.settings[0].floor,
            "training_seconds": sum(
                read_state(paths.small_files(paths.chunk(chunk)))["seconds"]
                for chunk in self.chunks
            ),
            "rows": [
                {
                    "setting": setting.setting,
                    "score": setting.score,
                    **sums[setting.key].result(),
                    "candidates": candidates[setting.key] / self.num_queries,
                    "ms_forward": 1e3 * costs["forward"] / self.num_queries,
                    "ms_top_m": 1e3 * costs["top_m"] / self.num_queries
                    if setting.m is not None
                    else 0.0,
                    "ms_rank": 1e3 * costs[setting.key] / self.num_queries,
                }
                for setting in self.settings
            ],
        }
        self._write_predictions(subset)
        write_json(paths.metrics(*subset), result)
        paths.publish(paths.predictions(*subset), paths.metrics(*subset), replace=True)
        return result

    def clear(self):
        """Delete what only an unfinished evaluation needs."""
        shutil.rmtree(self.run.paths.scratch, ignore_errors=True)
        for block in range(len(self.blocks)):
            self.run.paths.ranking(block).unlink(missing_ok=True)

    def saved_ranking(self, block):
        """The rankings of a block as arrays, if their file is there and still right."""
        path = self.run.paths.ranking(block)
        part = read_arrays(path, "infer.py") if path.exists() else {}
        return part if str(part.get("key")) == self.key else None

    def ranked_block(self, block):
        """Rank a block of queries."""
        start, stop = self.blocks[block]
        if not self.files.stacked("labels", 0).exists():
            self.run.fetch(*map(self.run.paths.index, self.chunks))
            shards = range(len(self.files.ranges))
            stack_indexes(self.run, self.delta, self.files, self.full, shards)
        costs = {}

        def prepare():
            costs.update(self.forward(block, self.chunks, self.files))

        ranked = rank_block(self.files, self.settings, stop - start, self.workers, prepare)
        return self.save_ranking(block, ranked, costs)

    def save_ranking(self, block, ranked, costs):
        """Write the rankings of all settings, without the labels that the filter removes."""
        part = {"key": np.array(self.key)}
        filtered = slice_rows(*self.filter, *self.blocks[block])
        for setting, ids, scores, candidates, cost in ranked:
            if len(filtered[1]):
                ids, scores = filter_pairs(ids, scores, *filtered)
            part[f"{setting.key}_ids"] = ids[:, : self.top_labels]
            part[f"{setting.key}_scores"] = scores[:, : self.top_labels]
            part[f"{setting.key}_candidates"] = candidates
            costs[setting.key] = cost
        part["costs"] = np.array(json.dumps(costs))
        write_arrays(self.run.paths.ranking(block), part)
        return part

    def forward(self, block, chunks, files):
        """Some chunks' top buckets (and probabilities) of a block's queries; returns the costs."""
        queries, paths = self.blocks[block], self.run.paths
        if not self.full:  # SOLAR-full needs all probabilities, whatever was saved
            paths.fetch(*(paths.topm(block, chunk) for chunk in chunks), fresh=True)
        self.encoder = self.encoder or TensorFlowEncoder(self.run)
        sizes = self.max_m, self.full, self.batch_size
        work = BlockForward(
            self.encoder, self.run, self._fetch_weights, files, block, queries, *sizes
        )
        costs = work.do({c: _key(self.weights[c], *queries, self.max_m) for c in chunks})
        paths.publish(*(paths.topm(block, chunk) for chunk in work.missing), replace=True)
        return costs

    def _fetch_weights(self, chunk):
        folder = self.delta.weights(self.run, chunk)
        self.run.paths.fetch(folder)
        return folder

    def _write_predictions(self, subset):
        """One array at a time: all of them may be more than fits in memory."""

        def arrays():
            for setting in self.settings:
                for name in (f"{setting.key}_ids", f"{setting.key}_scores"):
                    paths = map(self.run.paths.ranking, range(len(self.blocks)))
                    yield name, np.concatenate([read_array(path, name) for path in paths])

        write_arrays(self.run.paths.predictions(*subset), arrays())


def _key(*facts):
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _weights_key(run, folder):
    return read_state(run.paths.small_files(folder))["sha256"]


def _report(run, result):
    names = [f"{name}@{k}" for name in ("P", "RP") for k in KS] + [f"R@{RECALL_AT}"]
    names += [f"{name}@{k}" for name in ("nDCG", "PSP") for k in (1, 5)]
    rows = [
        [row["setting"], row["score"]]
        + [f"{row[name]:.2f}" for name in names]
        + [f"{row['candidates']:.0f}"]
        + [f"{row[name]:.3f}" for name in ("ms_forward", "ms_top_m", "ms_rank")]
        for row in result["rows"]
    ]
    header = ["SOLAR", "score", *names, "candidates", "forward ms", "top-m ms", "rank ms"]
    say(
        f"{result['dataset']}: {result['num_queries']:,} queries, {result['num_labels']:,} labels, "
        f"{result['num_chunks']} chunks of {run.config.num_buckets:,} buckets, "
        f"trained for {result['training_seconds']:.0f} s, summed over the chunks\n"
    )
    say(table(header, rows))
    say(
        "\nP@k divides by k; RP@k divides by min(k, true labels). Milliseconds are per query: the "
        "forward pass\nof all chunks on all cores, top-m and lookup + rank on one core."
    )
    if run.dataset["kind"] == "text":
        say(f'\nNext: infer.py --run {run.paths.location} --query "your own words"')
