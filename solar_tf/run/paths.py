"""Every path of a run (docs/run_directory.md lists them)."""

from dataclasses import dataclass
from pathlib import Path

from solar_tf.run.checksums import incomplete
from solar_tf.run.files import delete_folder


def _at(name):
    """The property of a RunDirectory that is the path of this name."""
    return property(lambda paths: paths.root / name)


@dataclass(frozen=True)
class RunDirectory:
    """Every path of a run; no other module joins path names of its own.

    The run is in a folder, where `fetch` and `publish` have nothing to do; `remote.RemoteRun` is
    one in an object store.
    """

    root: Path

    @property
    def location(self):
        """What the user writes after --run."""
        return str(self.root)

    def name_of(self, path):
        """A path of the run by its name in the manifest."""
        return path.relative_to(self.root).as_posix()

    # Stage 1, preprocess.py.
    config = _at("config.json")
    preprocess_lock = _at("preprocess.lock")
    cluster_mark = _at("cluster.lock")  # tells the machines of a cluster that they see the same run
    summary = _at("records/summary.json")  # rows, shards, the manifest; last: stage 1 is complete
    label_titles = _at("labels/titles.txt")
    label_counts = _at("labels/counts.npy")  # how often each label occurs in training, [N]
    vocabulary = _at("vocab/words.txt")
    token_weights = _at("vocab/weights.npy")
    test_filter = _at("rows/test_filter.npz")  # labels not evaluated, per test row (CSR); optional

    @property
    def preprocess_outputs(self):
        """Everything that stage 1 writes."""
        folders = ("labels", "vocab", "rows", "records", "index")
        return self.config, *(self.root / folder for folder in folders)

    def rows(self, split, shard):
        """True labels and weighted, unhashed features of a shard's rows (CSR arrays)."""
        return self.root / "rows" / split / f"shard_{shard:05d}.npz"

    def records(self, split, chunk, shard):
        return self.root / "records" / split / f"chunk_{chunk:02d}" / f"shard_{shard:05d}.tfrecord"

    def inputs(self, split, shard):
        """Dense inputs, which all chunks share."""
        return self.root / "records" / split / "inputs" / f"shard_{shard:05d}.tfrecord"

    def index(self, chunk):
        return self.root / "index" / f"chunk_{chunk:02d}.pkl"

    # Stage 2, train.py.
    chunks = _at("chunks")

    def chunk(self, chunk):
        """A trained chunk: exists only when its training is complete."""
        return self.chunks / f"chunk_{chunk:02d}"

    def training(self, chunk):
        """The checkpoints of a chunk in training."""
        return self.chunks / f"chunk_{chunk:02d}.training"

    def checkpoint(self, chunk, step):
        return self.training(chunk) / f"step_{step:09d}"

    def chunk_lock(self, chunk):
        return self.chunks / f"chunk_{chunk:02d}.lock"

    def tensorboard(self, chunk):
        return self.root / "tensorboard" / f"chunk_{chunk:02d}"

    # Stage 3, infer.py.
    infer_lock = _at("infer.lock")
    topm_folder = _at("topm")
    scratch = _at("scratch")  # deleted at the end of the stage
    report = _at("report.html")
    provenance = _at("provenance.json")  # machines and commits of a reproduction's parts

    def topm(self, block, chunk):
        """Top buckets of a block of test queries in one chunk."""
        return self.topm_folder / f"block_{block:04d}_chunk_{chunk:02d}.npz"

    def ranking(self, block):
        """Rankings of a block of test queries, until predictions.npz holds them."""
        return self.topm_folder / f"block_{block:04d}_ranking.npz"

    def evaluation(self, key):
        """Files of one evaluation that the nodes of a cluster share."""
        return self.scratch / key

    def predictions(self, num_chunks=None, grouped=True):
        """Rankings by all chunks, or by a subset: the first ones, or only those not grouped."""
        return self.root / f"predictions{_subset(num_chunks, grouped)}.npz"

    def metrics(self, num_chunks=None, grouped=True):
        return self.root / f"metrics{_subset(num_chunks, grouped)}.json"

    # Changes of the catalogue, solar_tf.run.changes.
    catalogue = _at("catalogue")
    catalogue_manifest = _at("catalogue/catalogue.json")  # the segments that count
    catalogue_lock = _at("catalogue.lock")
    attributes = _at("attributes.tsv")  # of the labels, if the user has put them there
    tuned_folder = _at("tuned")

    def catalogue_segment(self, number):
        """Labels added or removed by one change."""
        return self.catalogue / f"segment_{number:06d}.npz"

    def tuned(self, number):
        """Weights of all chunks after fine-tuning."""
        return self.tuned_folder / f"tuning_{number:06d}"

    def tuned_chunk(self, number, chunk):
        return self.tuned(number) / f"chunk_{chunk:02d}"

    # The paper's competitors, solar_tf.baselines.
    def baseline(self, name):
        """settings.json, model/, predictions.npz, metrics.json; training/ until it is fitted."""
        return self.root / "baselines" / name

    def baseline_lock(self, name):
        return self.root / "baselines" / f"{name}.lock"

    # Between this machine and the store.

    def has(self, path):
        """Whether all machines have a file or folder; what only this one has is published."""
        return path.exists()

    def incomplete(self, files):
        """The names of files that are missing or of another size than their facts say."""
        return incomplete(self.root, files)

    def stored(self, folder=None):
        """What the store has in a folder, sorted paths; nothing for a run in a folder."""
        return []

    def count_bytes(self):
        """The size of the run."""
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())

    def fetch(self, *paths, facts=None, fresh=False):
        """Copy files and folders from the store that are not here yet, as far as it has them.

        Files are compared with their `facts` (by name) before they appear. `fresh` copies again
        what is here: files that can change.
        """

    def small_files(self, folder):
        """A folder with all files of a chunk's folder but its arrays."""
        return folder

    def publish(self, *paths, replace=False):
        """Copy complete files and folders to the store, in this order.

        What is there already stays, it is the same or as good; results `replace` what is there.
        """

    def drop(self, *paths):
        """Delete files and folders, here and in the store."""
        for path in paths:
            if path.is_dir():
                delete_folder(path)
            else:
                path.unlink(missing_ok=True)

    def refresh(self):
        """Bring config.json and the summary up to date; returns whether there is a run.

        If another run is at the URL now, its mirror is emptied first.
        """
        return self.config.exists()

    def start(self):
        """The same before a run is made; a mirror of a run that is gone is emptied, too."""

    def require_same(self):
        """UserError if the store has another config.json than this run's."""


def _subset(num_chunks, grouped):
    count = "" if num_chunks is None else f"_{num_chunks}"
    if not grouped:
        return f"{count}_random_chunks"
    return f"{count}_chunks" if count else ""
