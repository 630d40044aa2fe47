"""Opening a run. Its paths are in `paths`, runs at URLs in `remote`.

The run directory is the contract between the stages (docs/run_directory.md). A file in it exists
only when it is complete, and has a checksum: `solar check RUN` verifies all.
"""

from dataclasses import dataclass, field
from pathlib import Path

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError
from solar_tf.run.checksums import incomplete, verify
from solar_tf.run.manifest import read_config, read_summary
from solar_tf.run.objects import local_path, url_of
from solar_tf.run.paths import RunDirectory
from solar_tf.run.remote import remote_run


@dataclass(frozen=True)
class Run:
    """A run whose preprocessing is complete."""

    paths: RunDirectory
    config: SolarConfig
    dataset: dict  # name, kind, num_features, num_labels, files, propensity
    seeds: tuple[int, ...]  # hash seed of each chunk
    summary: dict  # rows and shards of each split
    files: dict = field(default_factory=dict)  # the manifest: facts of preprocess.py's files

    @property
    def input_dim(self):
        if self.dataset["kind"] == "dense":
            return self.dataset["num_features"]
        return self.config.feature_dim

    def fetch(self, *paths):
        """Fetch files of the manifest, if the run is in a store."""
        self.paths.fetch(*paths, facts=self.files)

    def sources(self, split, chunk):
        """The files of a chunk's rows, as `batches.read_batches` takes them.

        Their sizes are right; their checksums are verified as they are read.
        """
        shards = range(self.summary[split]["shards"])
        sources = {"paths": [self.paths.records(split, chunk, shard) for shard in shards]}
        if self.dataset["kind"] == "dense":
            sources["dense_paths"] = [self.paths.inputs(split, shard) for shard in shards]
        paths = *sources["paths"], *sources.get("dense_paths", ())
        self.fetch(*paths)
        if self.files:  # a run of format 1 has no manifest
            nothing = -1, ""  # facts that no file has
            facts = {n: self.files.get(n, nothing) for n in map(self.paths.name_of, paths)}
            for name in incomplete(self.paths.root, facts):
                path = self.paths.root / name
                raise UserError(f"{path}: missing or cut short: run preprocess.py again")
        if self.dataset["kind"] == "dense":
            sources["dense_dim"] = self.input_dim
        return sources

    def trained_chunks(self):
        chunks = range(self.config.num_chunks)
        return [chunk for chunk in chunks if self.paths.has(self.paths.chunk(chunk))]

    def choose_chunks(self, num_chunks=None, grouped=True):
        """The trained chunks to use: all, or the first `num_chunks` that are trained.

        Without `grouped`, only the chunks whose buckets are random, as in the paper.
        """

        def usable(chunks):
            return [chunk for chunk in chunks if grouped or not self.config.is_grouped(chunk)]

        trained, most = usable(self.trained_chunks()), len(usable(range(self.config.num_chunks)))
        wanted = num_chunks or most
        if not wanted:
            raise UserError(f"{self.paths.location}: all chunks are grouped: leave out --nogrouped")
        if wanted > most:
            kind = "chunks" if grouped else "chunks that are not grouped"
            raise UserError(f"--num_chunks {wanted}: this run has {most} {kind}")
        if len(trained) < wanted:
            remedy = f"run train.py --run {self.paths.location}"
            if trained:
                remedy += f", or use those with --num_chunks {len(trained)}"
            raise UserError(
                f"{self.paths.location}: {len(trained)} of {wanted} chunks are trained: {remedy}"
            )
        return tuple(trained[:wanted])


def run_directory(root):
    """The paths of the run at a path or URL, which may not be there yet."""
    url = url_of(root)
    return remote_run(url) if url else RunDirectory(Path(local_path(root)))


def searchable(root):
    """Local folder with everything a search needs; downloaded first for URLs."""
    if url_of(root) is None:
        return local_path(root)
    run = open_run(root, stage=True)
    paths = run.paths
    run.fetch(*map(paths.index, range(run.config.num_chunks)))
    paths.fetch(*map(paths.chunk, run.trained_chunks()), *paths.stored(paths.tuned_folder))
    return paths.root


def in_a_folder(root):
    """The paths of a run that must be in a folder; UserError if it is in a store."""
    paths = run_directory(root)
    if url_of(root):
        where = paths.location
        raise UserError(f"{where}: this needs the run in a folder: solar pull {where} FOLDER")
    return paths


def open_run(root, stage=False):
    """The run at `root`, its small files verified; UserError unless preprocess.py has finished.

    A `stage` may open a run at a URL: it fetches what else it needs and publishes what it makes.
    """
    run = read_run(run_directory(root) if stage else in_a_folder(root))
    paths, files = run.paths, run.files
    used_whole = {name: files[name] for name in files if name.startswith(("labels/", "vocab/"))}
    run.fetch(paths.test_filter, *(paths.root / name for name in used_whole))
    paths.fetch(paths.attributes, *paths.stored(paths.catalogue), fresh=True)
    verify(paths.root, used_whole, "delete it and run preprocess.py again")
    return run


def read_run(paths):
    """The run of these paths; reads config.json and the summary."""
    where = paths.location
    content = read_config(paths) if paths.refresh() else None
    if content is None:
        raise UserError(f"{where}: no run here (no config.json): run preprocess.py --run {where}")
    summary = read_summary(paths, content["format"])
    if summary is None:
        raise UserError(f"{where}: preprocessing is not complete: run preprocess.py --run {where}")
    files = content.get("files", {}) | summary.pop("files")
    seeds = tuple(content["seeds"])
    return Run(paths, content["config"], content["dataset"], seeds, summary, files)
