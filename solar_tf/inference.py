"""Stage 3 (§3.3): forward pass, top-m buckets, lookup and ranking, metrics.

Queries go in blocks. For each block every chunk's model is loaded in turn, so that one
is in memory at a time, and leaves its top buckets as a file; for SOLAR-full it leaves
all probabilities in the scratch folder, whose size bounds the block. Then processes
without TensorFlow rank the block.
"""

import hashlib
import json
import math
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from solar_tf import retrieval
from solar_tf.batches import damage_explained, read_batches
from solar_tf.console import progress, say, table
from solar_tf.delta import read_delta
from solar_tf.errors import UserError
from solar_tf.metrics import MetricSums, filter_pairs, inverse_propensity, without_pairs
from solar_tf.model import ChunkModel, inputs_of
from solar_tf.ranking import FULL, RankFiles, Setting, rank_block, stack_indexes
from solar_tf.rundir import (
    claim,
    open_run,
    read_array,
    read_arrays,
    read_json,
    sweep,
    write_arrays,
    write_json,
)
from solar_tf.storage import new_map
from solar_tf.weights import load_weights, read_state, weight_shapes

BATCH_SIZE = 1000  # queries of a forward pass
MOST_QUERIES = 100_000  # of a block: its rankings are in memory
KS, RECALL_AT = (1, 3, 5, 10), 100


def infer(
    root,
    top_buckets=(100, 50, 25),
    full=True,
    scores=retrieval.SCORES,
    floor=retrieval.EVIDENCE_FLOOR,
    num_chunks=None,
    top_labels=100,
    workers=1,
    scratch_bytes=8e9,
):
    """Evaluate a run on its test queries; returns the rows of the results table."""
    run = open_run(root)
    chunks = run.choose_chunks(num_chunks)
    num_queries = run.summary["test"]["rows"]
    if not num_queries:
        raise UserError(f"{root}: the dataset has no test rows: ask with --query instead")
    top_buckets = sorted({min(m, run.config.num_buckets) for m in top_buckets}, reverse=True)
    delta = read_delta(run)
    top_labels = min(top_labels, delta.num_labels)
    settings = [
        Setting(m, score) for score in scores for m in (*([FULL] if full else []), *top_buckets)
    ]
    with claim(run.paths.infer_claim) as free:
        if not free:
            raise UserError(f"{root}: another infer.py is at work here: wait for it to end")
        subset = None if len(chunks) == run.config.num_chunks else len(chunks)
        sweep(run.paths.topm_folder, run.paths.metrics(subset), run.paths.predictions(subset))
        stage = _Inference(run, delta, chunks, settings, floor, top_labels, workers, scratch_bytes)
        result = read_json(run.paths.metrics(subset))
        if result is None or result.get("key") != stage.key or not stage.predicted(subset):
            result = stage.evaluate(subset)
        stage.clear()
    _report(run, result)
    return result["rows"]


class _Inference:
    """One evaluation: its settings, and what identifies its results."""

    def __init__(self, run, delta, chunks, settings, floor, top_labels, workers, scratch_bytes):
        self.run, self.delta, self.chunks, self.settings = run, delta, chunks, settings
        self.floor, self.top_labels, self.workers = floor, top_labels, workers
        self.max_m = max((setting.m for setting in settings), default=0)
        self.full = any(setting.m == FULL for setting in settings)
        self.num_queries = run.summary["test"]["rows"]
        self.model = None  # of the chunk in work
        self.filter = _test_filter(run, self.num_queries)
        # So many labels are left when those of the filter have gone.
        most_filtered = int(np.diff(self.filter[0]).max(initial=0))
        self.num_ranked = min(top_labels + most_filtered, delta.num_labels)
        batches = math.ceil(min(self.num_queries, MOST_QUERIES) / BATCH_SIZE)
        if self.full:
            bytes_per_batch = 4 * len(chunks) * run.config.num_buckets * BATCH_SIZE
            batches = min(batches, max(1, int(scratch_bytes // bytes_per_batch)))
        self.block_size = batches * BATCH_SIZE
        self.weights = {chunk: _weights_key(delta.weights(run, chunk)) for chunk in chunks}
        facts = self.weights, [s.key for s in settings], floor, top_labels, self.block_size
        self.key = _key(*facts, *([delta.key] if delta.segments else []))

    def predicted(self, subset):
        return self.run.paths.predictions(subset).exists()

    def evaluate(self, subset):
        """Do what is missing, block by block; write predictions and metrics."""
        paths = self.run.paths
        counts = np.load(paths.label_counts, allow_pickle=False)
        counts = np.pad(counts, (0, self.delta.num_added))
        rows = self.run.summary["train"]["rows"]
        inverse = inverse_propensity(counts, rows, *self.run.dataset["propensity"])
        sums = {s.key: MetricSums(inverse, KS, RECALL_AT) for s in self.settings}
        costs = dict.fromkeys(("forward", "top_m", *(s.key for s in self.settings)), 0.0)
        candidates = dict.fromkeys(costs, 0)
        files = RankFiles(paths.scratch, self.chunks)
        splits, labels = self._truth()
        blocks = range(0, self.num_queries, self.block_size)
        shutil.rmtree(paths.scratch, ignore_errors=True)
        for block, start in enumerate(blocks):
            stop = min(start + self.block_size, self.num_queries)
            part = self._ranked_block(block, start, stop, files)
            truth = _csr_part(splits, labels, start, stop)
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
            "evidence_floor": self.floor,
            "training_seconds": sum(
                read_state(paths.chunk(chunk))["seconds"] for chunk in self.chunks
            ),
            "rows": [
                {
                    "setting": setting.name,
                    "score": setting.score,
                    **sums[setting.key].result(),
                    "candidates": candidates[setting.key] / self.num_queries,
                    "ms_forward": 1e3 * costs["forward"] / self.num_queries,
                    "ms_top_m": 1e3 * costs["top_m"] / self.num_queries if setting.m else 0.0,
                    "ms_rank": 1e3 * costs[setting.key] / self.num_queries,
                }
                for setting in self.settings
            ],
        }
        self._write_predictions(subset, len(blocks))
        write_json(paths.metrics(subset), result)
        return result

    def clear(self):
        """Delete what only an unfinished evaluation needs."""
        shutil.rmtree(self.run.paths.scratch, ignore_errors=True)
        for block in range(math.ceil(self.num_queries / self.block_size)):
            self.run.paths.ranking(block).unlink(missing_ok=True)

    def _truth(self):
        """The true labels of all test queries that count: splits [Q + 1], labels."""
        pieces = [
            read_arrays(self.run.paths.rows("test", shard), "preprocess.py")
            for shard in range(self.run.summary["test"]["shards"])
        ]
        counts = np.concatenate([np.diff(piece["label_splits"]) for piece in pieces])
        labels = np.concatenate([piece["labels"] for piece in pieces])
        return without_pairs(np.concatenate([[0], np.cumsum(counts)]), labels, *self.filter)

    def _ranked_block(self, block, start, stop, files):
        """The rankings of a block as arrays, from its file if that is still right."""
        path = self.run.paths.ranking(block)
        if path.exists():
            part = read_arrays(path, "infer.py")
            if str(part["key"]) == self.key:
                return part
        if not files.stacked("labels").exists():
            stack_indexes(self.run, self.delta, files, self.full)
        costs = {"forward": 0.0, "top_m": 0.0}

        def prepare():
            for chunk in self.chunks:
                for name, cost in self._forward(block, chunk, start, stop, files).items():
                    costs[name] += cost

        part = {"key": np.array(self.key)}
        ranked = rank_block(
            files, self.settings, stop - start, self.num_ranked, self.floor, self.workers, prepare
        )
        filtered = _csr_part(*self.filter, start, stop)
        for setting, ids, scores, candidates, cost in ranked:
            if len(filtered[1]):
                ids, scores = filter_pairs(ids, scores, *filtered)
            ids, scores = ids[:, : self.top_labels], scores[:, : self.top_labels]
            part[f"{setting.key}_ids"] = ids
            part[f"{setting.key}_scores"] = scores
            part[f"{setting.key}_candidates"] = candidates
            costs[setting.key] = cost
        part["costs"] = np.array(json.dumps(costs))
        write_arrays(path, part)
        return part

    def _forward(self, block, chunk, start, stop, files):
        """One chunk's top buckets (and probabilities) of the queries start to stop."""
        path = self.run.paths.topm(block, chunk)
        key = _key(self.weights[chunk], start, stop, self.max_m)
        if path.exists() and not self.full:
            saved = read_arrays(path, "infer.py")
            if str(saved["key"]) == key:
                for name in ("buckets", "values"):
                    array = saved[name]
                    new_map(files.queries(name, chunk), array.dtype, array.shape)[:] = array
                return json.loads(str(saved["costs"]))
        num_queries = stop - start
        shape = num_queries, self.max_m
        buckets = new_map(files.queries("buckets", chunk), np.int32, shape)
        values = new_map(files.queries("values", chunk), np.float32, shape)
        kept = None
        if self.full:
            shape = num_queries, self.run.config.num_buckets
            kept = new_map(files.queries("probabilities", chunk), np.float32, shape)

        def keep(rows, probabilities):
            """Top m of a batch, beside the forward pass of the next; returns the core's seconds."""
            began = time.thread_time()
            if self.max_m:
                buckets[rows], values[rows] = retrieval.top_buckets(probabilities, self.max_m)
            spent = time.thread_time() - began
            if kept is not None:
                kept[rows] = probabilities
            return spent

        if self.max_m:  # compiles, or loads what was compiled before
            retrieval.top_buckets(np.zeros((1, self.max_m), np.float32), self.max_m)
        folder = self.delta.weights(self.run, chunk)
        self.model = load_model(self.run, chunk, self.model, folder)
        forward, pending, done = 0.0, [], 0
        with (
            progress(num_queries, f"chunk {chunk}: forward", "query") as bar,
            ThreadPoolExecutor(1) as thread,
        ):
            for batch in query_batches(self.run, chunk, start, stop):
                began = time.perf_counter()
                probabilities = self.model.probabilities(inputs_of(batch)).numpy()
                forward += time.perf_counter() - began
                rows = slice(done, done + len(probabilities))
                if len(pending) > 1:
                    pending[-2].result()  # at most two batches wait in memory
                pending.append(thread.submit(keep, rows, probabilities))
                done = rows.stop
                bar.update(len(probabilities))
        if done != num_queries:
            raise UserError(
                f"{self.run.paths.root}: the test records of chunk {chunk} hold other rows than "
                "the summary says: delete them and run preprocess.py again"
            )
        costs = {"forward": forward, "top_m": sum(future.result() for future in pending)}
        saved = {"buckets": buckets, "values": values, "costs": np.array(json.dumps(costs))}
        write_arrays(path, {"key": np.array(key), **saved})
        return costs

    def _write_predictions(self, subset, num_blocks):
        """One array at a time: all of them may be more than fits in memory."""

        def arrays():
            for setting in self.settings:
                for name in (f"{setting.key}_ids", f"{setting.key}_scores"):
                    parts = [read_array(self.run.paths.ranking(b), name) for b in range(num_blocks)]
                    yield name, np.concatenate(parts)

        write_arrays(self.run.paths.predictions(subset), arrays())


def _test_filter(run, num_queries):
    """Labels that are not evaluated, of a query: splits [Q + 1], labels. Most runs have none."""
    if not run.paths.test_filter.exists():
        return np.zeros(num_queries + 1, np.int64), np.zeros(0, np.int32)
    stored = read_arrays(run.paths.test_filter, "preprocess.py")
    return stored["splits"], stored["labels"]


def _csr_part(splits, values, start, stop):
    """The rows start to stop of CSR arrays."""
    return splits[start : stop + 1] - splits[start], values[splits[start] : splits[stop]]


def _key(*facts):
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _weights_key(folder):
    return read_state(folder)["sha256"]


def load_model(run, chunk, model=None, folder=None):
    """A trained chunk; in the place of another, whose traced function it takes over.

    Its weights are those in `folder`, if they are not as they were trained.
    """
    shapes = weight_shapes(run.config, run.input_dim)
    weights = load_weights(folder or run.paths.chunk(chunk), shapes, mapped=True)
    if model is None:
        dense = run.dataset["kind"] == "dense"
        return ChunkModel(run.config, run.input_dim, chunk, dense=dense, weights=weights)
    for name, variable in model.weights_by_name().items():
        variable.assign(weights[name])
    return model


def query_batches(run, chunk, start, stop):
    """The test queries start to stop in batches, in order; start is a multiple of BATCH_SIZE."""
    sources = run.sources("test", chunk)
    with damage_explained(*sources["paths"], *sources.get("dense_paths", ())):
        batches = read_batches(batch_size=BATCH_SIZE, skip=start // BATCH_SIZE, **sources)
        yield from batches.take(math.ceil((stop - start) / BATCH_SIZE))


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
        say(f'\nNext: infer.py --run {run.paths.root} --query "your own words"')
