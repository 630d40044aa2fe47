"""Similar labels in one bucket: an option beside the paper's random buckets.

§3.1 picks a label's bucket at random in every chunk. A grouped chunk (`grouped_share` of all)
splits the labels into B buckets of equal size by the features of their training rows and titles. A
network learns such buckets far better, since a query's words say what they are about; the random
chunks tell the labels of a bucket apart (docs/paper_notes.md). Load is balanced, and two random
labels share a bucket as often as before; similar labels share one more often.
"""

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from solar_tf.datasets.source import map_blocks
from solar_tf.datasets.vocabulary import bags
from solar_tf.preprocessing.features import scale_rows, weigh
from solar_tf.runtime.console import progress
from solar_tf.runtime.ragged import row_numbers
from solar_tf.runtime.workers import run_tasks

HEAVIEST = 16  # features of a row that count; bounds the memory of profiles
PASSES = 10  # of 2-means


def write_grouped(job, workers):
    """The indexes of a `shards.Job`'s grouped chunks, by the rows and titles of the labels."""
    chunks = filter(job.config.is_grouped, range(job.config.num_chunks))
    missing = [chunk for chunk in chunks if not job.paths.has(job.paths.index(chunk))]
    if not missing:
        return
    source, start = job.sources["train"], (_start_worker, (job,))
    profiles = 0
    for sums in map_blocks(_sum_by_label, source, workers, "reading labels' rows", start):
        profiles = profiles + sums
    if job.kind == "text" and job.paths.label_titles.exists():
        profiles = profiles + _title_profiles(job)
    here = workers if isinstance(workers, int) else 1  # profiles are too large to send
    bar = progress(len(missing), "grouping labels", "chunk")
    with tempfile.TemporaryDirectory() as folder, bar:
        path = Path(folder) / "profiles.npz"
        sp.save_npz(path, sp.csr_matrix(scale_rows(profiles)), compressed=False)
        del profiles
        for _ in run_tasks(_group_chunk, missing, here, _start_grouper, (job, path)):
            bar.update()


def group_labels(profiles, seed, num_buckets):
    """Buckets of equal size for labels by their `profiles` [N, F] of unit length: int32 [N]."""
    splits, order = balanced_clusters(profiles, num_buckets, np.random.default_rng(seed))
    buckets = np.empty(profiles.shape[0], np.int32)
    buckets[order] = np.repeat(np.arange(num_buckets, dtype=np.int32), np.diff(splits))
    return buckets


def balanced_clusters(rows, count, generator):
    """Split unit rows [n, F], CSR or dense, into `count` clusters of equal size up to rounding.

    Spherical 2-means, again and again: O(nnz) for each of the log2(count) levels, times the
    passes. Returns splits [count + 1] and the row numbers in cluster order: cluster c has the
    rows order[splits[c]:splits[c + 1]].
    """
    num_rows = rows.shape[0]
    order = np.arange(num_rows)
    splits = np.zeros(count + 1, np.int64)
    splits[count] = num_rows
    stack = [(0, count, 0, num_rows)]  # clusters first to last take order[start:stop]
    while stack:
        first, last, start, stop = stack.pop()
        if last - first == 1:
            continue
        middle = (first + last) // 2
        border = start + round((stop - start) * (middle - first) / (last - first))
        part = order[start:stop]
        order[start:stop] = part[_halve(rows[part], border - start, generator)]
        splits[middle] = border
        stack += [(first, middle, start, border), (middle, last, border, stop)]
    return splits, order


def _halve(rows, size, generator):
    """An order of the rows that puts the `size` rows of one cluster first."""
    num_rows = rows.shape[0]
    if size in (0, num_rows):
        return np.arange(num_rows)
    centres = rows[generator.choice(num_rows, 2, replace=False)]
    centres = centres.toarray() if sp.issparse(centres) else np.asarray(centres)
    order = None
    for _ in range(PASSES):
        lean = np.asarray(rows @ (centres[0] - centres[1])).ravel()
        before, order = order, np.argpartition(-lean, size - 1)
        if before is not None and np.array_equal(np.sort(before[:size]), np.sort(order[:size])):
            break
        side = np.zeros(num_rows, np.float32)
        side[order[:size]] = 1
        first = np.asarray(rows.T @ side).ravel()
        second = np.asarray(rows.T @ (1 - side)).ravel()
        centres = np.stack([c / max(np.linalg.norm(c), 1e-9) for c in (first, second)])
    return order


def sum_by_label(inputs, label_splits, labels, num_labels):
    """The sums of the rows of each label: [N, F], of `inputs` [n, F], CSR or dense."""
    shape = len(label_splits) - 1, num_labels
    owners = sp.csr_matrix((np.ones(len(labels), np.float32), labels, label_splits), shape)
    return owners.T.tocsr() @ inputs


def heaviest(splits, ids, values, num_features):
    """The CSR matrix [n, F] of rows, each with at most HEAVIEST of its features."""
    rows = row_numbers(splits)
    order = np.lexsort((-values, rows))
    places = np.arange(len(rows)) - splits[:-1][rows]  # in the row, by weight
    kept = order[places < HEAVIEST]
    shape = len(splits) - 1, num_features
    return sp.csr_matrix((values[kept], (rows[kept], ids[kept])), shape, dtype=np.float32)


_job = _profiles = None  # of this worker process


def _start_worker(job):
    global _job
    _job = job
    job.fetch_inputs()


def _sum_by_label(block):
    """The number of rows of a block, and the sums of those of each label."""
    rows = _job.parse("train", block)
    if _job.kind == "dense":
        inputs = rows.dense
    else:
        inputs = heaviest(*_job.inputs(rows)[:3], _job.num_features)
    inputs = scale_rows(inputs)
    return len(rows), sum_by_label(inputs, rows.label_splits, rows.labels, _job.num_labels)


def _title_profiles(job):
    """Profiles by the labels' own titles: the only ones of labels that no row has."""
    titles = job.paths.label_titles.read_text(encoding="utf-8").split("\n")[:-1]
    splits, ids, values = bags(*job.vocabulary.sequences(titles))
    values = weigh(splits, ids, values, job.config, job.weights)
    return scale_rows(heaviest(splits, ids, values, job.num_features))


def _start_grouper(job, path):
    global _job, _profiles
    _job, _profiles = job, sp.load_npz(path)


def _group_chunk(chunk):
    _job.save_index(chunk, group_labels(_profiles, _job.seeds[chunk], _job.config.num_buckets))
