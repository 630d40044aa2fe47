"""Labels that go together in one bucket: an option beside the paper's random buckets.

§3.1 picks a label's bucket in every chunk at random. In a grouped chunk (`grouped_share` of all)
labels are parted into B buckets of one size by the features of their training rows and titles. A
network learns such buckets far better, since a query's words say what they are about, and the
random ones tell the labels of a bucket apart (docs/paper_notes.md). Load is balanced and two labels
at random share a bucket as often as before; those that go together share it more often.
"""

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from solar_tf.datasets.vocabulary import bags
from solar_tf.preprocessing.clusters import balanced_clusters
from solar_tf.preprocessing.features import scale_rows, weigh
from solar_tf.preprocessing.scan import shard_blocks
from solar_tf.runtime.console import progress
from solar_tf.runtime.ragged import row_numbers
from solar_tf.runtime.workers import run_tasks

HEAVIEST = 16  # features of a row that count; bounds the memory of profiles


def write_grouped(job, workers):
    """The indexes of a `shards.Job`'s grouped chunks, by the rows and titles of the labels."""
    chunks = filter(job.config.is_grouped, range(job.config.num_chunks))
    missing = [chunk for chunk in chunks if not job.paths.has(job.paths.index(chunk))]
    if not missing:
        return
    source = job.sources["train"]
    with progress(source.num_rows, "reading labels' rows", "row") as bar:
        profiles = 0
        for num_rows, sums in run_tasks(
            _sum_by_label, shard_blocks(source, bar), workers, _start_worker, (job,)
        ):
            profiles = profiles + sums
            bar.update(num_rows)
    if job.kind == "text" and job.paths.label_titles.exists():
        profiles = profiles + _title_profiles(job)
    here = workers if isinstance(workers, int) else 1  # profiles are large: they stay here
    with (
        tempfile.TemporaryDirectory() as folder,
        progress(len(missing), "grouping labels", "chunk") as bar,
    ):
        path = Path(folder) / "profiles.npz"
        sp.save_npz(path, sp.csr_matrix(scale_rows(profiles)), compressed=False)
        del profiles
        for _ in run_tasks(_group_chunk, missing, here, _start_grouper, (job, path)):
            bar.update()


def group_labels(profiles, seed, num_buckets):
    """Buckets of one size for labels by their `profiles` [N, F] of unit length: int32 [N]."""
    splits, order = balanced_clusters(profiles, num_buckets, np.random.default_rng(seed))
    buckets = np.empty(profiles.shape[0], np.int32)
    buckets[order] = np.repeat(np.arange(num_buckets, dtype=np.int32), np.diff(splits))
    return buckets


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
    """What the labels' own titles say: all that there is of a label that no row has."""
    titles = job.paths.label_titles.read_text(encoding="utf-8").split("\n")[:-1]
    splits, ids, values = bags(*job.vocabulary.sequences(titles))
    values = weigh(splits, ids, values, job.config, job.weights)
    return scale_rows(heaviest(splits, ids, values, job.num_features))


def _start_grouper(job, path):
    global _job, _profiles
    _job, _profiles = job, sp.load_npz(path)


def _group_chunk(chunk):
    _job.save_index(chunk, group_labels(_profiles, _job.seeds[chunk], _job.config.num_buckets))
