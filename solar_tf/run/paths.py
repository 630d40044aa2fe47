"""Every path of a run (docs/run_directory.md has them as a list)."""

from dataclasses import dataclass

from solar_tf.run.mirror import Mirror


@dataclass(frozen=True)
class RunDirectory(Mirror):
    """Every path of a run; no other module joins path names of its own."""

    # Stage 1, preprocess.py.
    @property
    def config(self):
        return self.root / "config.json"

    @property
    def preprocess_claim(self):
        return self.root / "preprocess.lock"

    @property
    def cluster_mark(self):
        """What tells the machines of a cluster that they see the same run."""
        return self.root / "cluster.lock"

    @property
    def preprocess_outputs(self):
        """All that stage 1 writes."""
        folders = ("labels", "vocab", "rows", "records", "index")
        return self.config, *(self.root / folder for folder in folders)

    @property
    def summary(self):
        """Counts of rows and shards; written last, so that it marks the stage as complete."""
        return self.root / "records" / "summary.json"

    @property
    def label_titles(self):
        return self.root / "labels" / "titles.txt"

    @property
    def label_counts(self):
        """How often each label occurs in training, [N]."""
        return self.root / "labels" / "counts.npy"

    @property
    def vocabulary(self):
        return self.root / "vocab" / "words.txt"

    @property
    def token_weights(self):
        return self.root / "vocab" / "weights.npy"

    def rows(self, split, shard):
        """True labels and weighted, unhashed features of a shard's rows (CSR arrays)."""
        return self.root / "rows" / split / f"shard_{shard:05d}.npz"

    @property
    def test_filter(self):
        """Labels that are not evaluated, per test row (CSR arrays); not all datasets have them."""
        return self.root / "rows" / "test_filter.npz"

    def records(self, split, chunk, shard):
        return self.root / "records" / split / f"chunk_{chunk:02d}" / f"shard_{shard:05d}.tfrecord"

    def inputs(self, split, shard):
        """Dense inputs, which all chunks share."""
        return self.root / "records" / split / "inputs" / f"shard_{shard:05d}.tfrecord"

    def index(self, chunk):
        return self.root / "index" / f"chunk_{chunk:02d}.pkl"

    # Stage 2, train.py.
    @property
    def chunks(self):
        return self.root / "chunks"

    def chunk(self, chunk):
        """A trained chunk: exists only when its training is complete."""
        return self.chunks / f"chunk_{chunk:02d}"

    def training(self, chunk):
        """What a chunk in training leaves: its checkpoints."""
        return self.chunks / f"chunk_{chunk:02d}.training"

    def checkpoint(self, chunk, step):
        return self.training(chunk) / f"step_{step:09d}"

    def chunk_claim(self, chunk):
        return self.chunks / f"chunk_{chunk:02d}.lock"

    def tensorboard(self, chunk):
        return self.root / "tensorboard" / f"chunk_{chunk:02d}"

    # Stage 3, infer.py.
    @property
    def infer_claim(self):
        return self.root / "infer.lock"

    @property
    def topm_folder(self):
        return self.root / "topm"

    def topm(self, block, chunk):
        """Top buckets of a block of test queries in one chunk."""
        return self.topm_folder / f"block_{block:04d}_chunk_{chunk:02d}.npz"

    def ranking(self, block):
        """Rankings of a block of test queries, until predictions.npz holds them."""
        return self.topm_folder / f"block_{block:04d}_ranking.npz"

    @property
    def scratch(self):
        """Deleted at the end of the stage."""
        return self.root / "scratch"

    def evaluation(self, key):
        """What the nodes of a cluster share of one evaluation."""
        return self.scratch / key

    def predictions(self, num_chunks=None, grouped=True):
        """Of all chunks, or of a subset of them: the first ones, or only those not grouped."""
        return self.root / f"predictions{_subset(num_chunks, grouped)}.npz"

    def metrics(self, num_chunks=None, grouped=True):
        return self.root / f"metrics{_subset(num_chunks, grouped)}.json"

    @property
    def report(self):
        return self.root / "report.html"

    @property
    def provenance(self):
        """Machines and commits that a reproduction did its parts on."""
        return self.root / "provenance.json"

    # The catalogue since then, solar_tf.catalogue.labels.
    @property
    def catalogue(self):
        return self.root / "catalogue"

    @property
    def catalogue_manifest(self):
        """The segments that count; replaced at every change."""
        return self.catalogue / "catalogue.json"

    def catalogue_segment(self, number):
        """Labels added or removed by one change."""
        return self.catalogue / f"segment_{number:06d}.npz"

    @property
    def attributes(self):
        """Attributes of the labels, if somebody has put them there."""
        return self.root / "attributes.tsv"

    @property
    def catalogue_claim(self):
        return self.root / "catalogue.lock"

    @property
    def tuned_folder(self):
        return self.root / "tuned"

    def tuned(self, number):
        """Weights of all chunks after fine-tuning."""
        return self.tuned_folder / f"tuning_{number:06d}"

    def tuned_chunk(self, number, chunk):
        return self.tuned(number) / f"chunk_{chunk:02d}"

    # The paper's competitors, solar_tf.baselines.
    def baseline(self, name):
        """settings.json, model/, predictions.npz, metrics.json; training/ until it is fitted."""
        return self.root / "baselines" / name

    def baseline_claim(self, name):
        return self.root / "baselines" / f"{name}.lock"


def _subset(num_chunks, grouped):
    count = "" if num_chunks is None else f"_{num_chunks}"
    if not grouped:
        return f"{count}_random_chunks"
    return f"{count}_chunks" if count else ""
