"""The run directory: opening a run, its config and its manifest; its paths are in `paths`.

The run directory is the contract between the stages (docs/run_directory.md). A
file in it exists only when it is complete, and has a checksum: `solar check RUN` verifies all.
"""

from dataclasses import dataclass, field
from pathlib import Path

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError
from solar_tf.run.checksums import lost, verify
from solar_tf.run.files import (
    TEMPORARY,
    atomic_folder,
    atomic_write,
    read_array,
    read_arrays,
    read_json,
    sweep,
    write_arrays,
    write_json,
)
from solar_tf.run.locks import claim
from solar_tf.run.manifest import FORMAT, read_config, read_summary
from solar_tf.run.paths import RunDirectory
from solar_tf.run.store import Store
from solar_tf.run.urls import local_path, url_of

__all__ = [  # with what most users of a run need beside it
    "FORMAT",
    "TEMPORARY",
    "Run",
    "RunDirectory",
    "atomic_folder",
    "atomic_write",
    "claim",
    "open_run",
    "read_array",
    "read_arrays",
    "read_config",
    "read_json",
    "read_summary",
    "run_directory",
    "searchable",
    "sweep",
    "write_arrays",
    "write_json",
]

UNKNOWN = -1, ""  # facts that no file has


@dataclass(frozen=True)
class Run:
    """A run whose preprocessing is complete."""

    paths: RunDirectory
    config: SolarConfig
    dataset: dict  # name, kind, num_features, num_labels, files, propensity
    seeds: tuple[int, ...]  # hash seed of each chunk
    summary: dict  # per split: rows and shards
    files: dict = field(default_factory=dict)  # facts of what preprocess.py wrote, by name

    @property
    def input_dim(self):
        if self.dataset["kind"] == "dense":
            return self.dataset["num_features"]
        return self.config.feature_dim

    def fetch(self, *paths):
        """Have files of the manifest here, where the run is in a store."""
        self.paths.fetch(*paths, facts=self.files)

    def sources(self, split, chunk):
        """The files of a chunk's rows, whole by their sizes, as `batches.read_batches` takes them.

        Their content has checksums of its own, which are verified as it is read.
        """
        shards = range(self.summary[split]["shards"])
        sources = {"paths": [self.paths.records(split, chunk, shard) for shard in shards]}
        if self.dataset["kind"] == "dense":
            sources["dense_paths"] = [self.paths.inputs(split, shard) for shard in shards]
        paths = *sources["paths"], *sources.get("dense_paths", ())
        self.fetch(*paths)
        if self.files:  # a run of format 1 has no manifest
            names = map(self.paths.name_of, paths)
            for name in lost(self.paths.root, {n: self.files.get(n, UNKNOWN) for n in names}):
                path = self.paths.root / name
                raise UserError(f"{path}: missing or cut short: run preprocess.py again")
        if self.dataset["kind"] == "dense":
            sources["dense_dim"] = self.input_dim
        return sources

    def trained_chunks(self):
        chunks = range(self.config.num_chunks)
        return [chunk for chunk in chunks if self.paths.has(self.paths.chunk(chunk))]

    def choose_chunks(self, num_chunks=None, grouped=True):
        """The trained chunks to use: all, or the first `num_chunks` of those there are.

        Without the `grouped` ones, those that are as in the paper.
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
    """The paths of the run at a path or at a URL, which may not be there yet."""
    if url := url_of(root):
        store = Store(url)
        return RunDirectory(store.mirror, store)
    return RunDirectory(Path(local_path(root)))


def searchable(root):
    """The folder of a run for who only searches it; of a run in a store, a mirror with all that."""
    if url_of(root) is None:
        return local_path(root)
    run = open_run(root, stage=True)
    paths = run.paths
    run.fetch(*map(paths.index, range(run.config.num_chunks)))
    paths.fetch(*map(paths.chunk, run.trained_chunks()), *paths.stored(paths.tuned_folder))
    paths.fetch(paths.attributes, *paths.stored(paths.catalogue), fresh=True)
    return paths.root


def in_a_folder(root):
    """The paths of a run that must be in a folder; UserError if it is in a store."""
    if url := url_of(root):
        raise UserError(f"{url}: this needs the run in a folder: solar pull {url} FOLDER")
    return run_directory(root)


def open_run(root, stage=False):
    """The run at `root`, its small files verified; UserError unless preprocess.py has finished.

    A `stage` fetches what else it needs, and publishes what it makes; others need a folder.
    """
    paths = run_directory(root) if stage else in_a_folder(root)
    content = read_config(paths) if paths.refresh() else None
    if content is None:
        where = paths.location
        raise UserError(f"{where}: no run here (no config.json): run preprocess.py --run {where}")
    paths.fetch(paths.summary)
    summary = read_summary(paths, content["format"])
    if summary is None:
        where = paths.location
        raise UserError(f"{where}: preprocessing is not complete: run preprocess.py --run {where}")
    files = content.get("files", {}) | summary.pop("files")
    used_whole = {name: files[name] for name in files if name.startswith(("labels/", "vocab/"))}
    paths.fetch(*(paths.root / name for name in used_whole), facts=used_whole)
    verify(paths.root, used_whole, "delete it and run preprocess.py again")
    seeds = tuple(content["seeds"])
    return Run(paths, content["config"], content["dataset"], seeds, summary, files)
