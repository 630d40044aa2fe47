"""The run directory: every path of a run, atomic writes, claims on its parts.

The run directory is the contract between the stages (docs/run_directory.md). A
file in it exists only when it is complete: it is written under a temporary name,
synced and renamed.
"""

import contextlib
import fcntl
import glob
import json
import os
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError

FORMAT = 1  # of the run directory as a whole
TEMPORARY = ".tmp"  # suffix of everything that is not complete yet


def _sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_write(path, mode="wb"):
    """Open a file for writing that appears under `path` only if the block succeeds."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with open(temporary, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def atomic_folder(path):
    """Yield an empty temporary folder that becomes `path` only if the block succeeds."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.iterdir():
            _sync_folder(file)  # fsync works on files opened read-only, too
        _sync_folder(temporary)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def sweep(*paths):
    """Delete what killed processes left half-written of these files and folders.

    Only for who holds the claim on them: a living process may be writing, too.
    """
    for path in map(Path, paths):
        own = path.parent.glob(f"{glob.escape(path.name)}.*{TEMPORARY}")
        for leftover in [*own, *path.rglob(f"*{TEMPORARY}")]:
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def write_arrays(path, arrays):
    """Write an .npz file of plain arrays: a dict of them, or pairs that come one by one."""
    pairs = arrays.items() if isinstance(arrays, dict) else arrays
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in pairs:
            # No time of day in it: the same arrays give the same bytes.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read_arrays(path, stage):
    """The arrays of an .npz file as a dict; `stage` is the program that can rebuild it."""
    try:
        with np.load(path, allow_pickle=False) as content:
            _verify(content.zip)
            return dict(content)
    except Exception as error:  # there is no telling what damage makes zipfile and numpy raise
        raise UserError(f"{path}: cannot be read ({error}): delete it and run {stage} again")


def read_array(path, name):
    """One array of an .npz file that this process has written, or read, before."""
    with np.load(path, allow_pickle=False) as content:
        return content[name]


def _verify(archive):
    """Check all of a zip file; numpy on its own reads as far as the arrays' headers tell it."""
    members = archive.infolist()
    # A wrong length in the directory makes its next entries a comment.
    if archive.testzip() or not members or any(member.comment for member in members):
        raise zipfile.BadZipFile("wrong checksum")


def write_json(path, content):
    with atomic_write(path, "w") as file:
        json.dump(content, file, indent=2)
        file.write("\n")


def read_json(path):
    """The content of a JSON file, or None where there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error}): delete it and run its stage again")


@contextlib.contextmanager
def claim(path):
    """Try to hold the lock file `path`; yields whether it was free.

    The kernel drops the lock when its process ends, however it ends.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@dataclass(frozen=True)
class RunDirectory:
    """Every path of a run; no other module joins path names of its own."""

    root: Path

    # Stage 1, preprocess.py.
    @property
    def config(self):
        return self.root / "config.json"

    @property
    def preprocess_claim(self):
        return self.root / "preprocess.lock"

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

    def predictions(self, num_chunks=None):
        """Of all chunks, or of a subset of them."""
        return self.root / f"predictions{_subset(num_chunks)}.npz"

    def metrics(self, num_chunks=None):
        return self.root / f"metrics{_subset(num_chunks)}.json"


def _subset(num_chunks):
    return "" if num_chunks is None else f"_{num_chunks}_chunks"


@dataclass(frozen=True)
class Run:
    """A run whose preprocessing is complete."""

    paths: RunDirectory
    config: SolarConfig
    dataset: dict  # name, kind, num_features, num_labels, files, propensity
    seeds: tuple[int, ...]  # hash seed of each chunk
    summary: dict  # per split: rows and shards

    @property
    def input_dim(self):
        if self.dataset["kind"] == "dense":
            return self.dataset["num_features"]
        return self.config.feature_dim

    def trained_chunks(self):
        chunks = range(self.config.num_chunks)
        return [chunk for chunk in chunks if self.paths.chunk(chunk).exists()]

    def choose_chunks(self, num_chunks=None):
        """The trained chunks to use: all, or the first `num_chunks` of those there are."""
        trained = self.trained_chunks()
        wanted = num_chunks or self.config.num_chunks
        if wanted > self.config.num_chunks:
            raise UserError(f"--num_chunks {wanted}: this run has {self.config.num_chunks} chunks")
        if len(trained) < wanted:
            remedy = f"run train.py --run {self.paths.root}"
            if trained:
                remedy += f", or use those with --num_chunks {len(trained)}"
            raise UserError(
                f"{self.paths.root}: {len(trained)} of {wanted} chunks are trained: {remedy}"
            )
        return tuple(trained[:wanted])


def read_config(paths):
    """The content of config.json, checked, or None where there is none yet."""
    content = read_json(paths.config)
    if content is None:
        return None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(
            f"{paths.config}: not of format {FORMAT}, which this version of solar_tf reads: "
            "make a new run with preprocess.py"
        )
    try:
        missing = {"config", "dataset", "seeds"} - content.keys()
        if missing:
            raise UserError(f"no {', '.join(sorted(missing))} in it")
        content["config"] = SolarConfig.from_dict(content["config"])
    except (UserError, AttributeError) as error:
        raise UserError(f"{paths.config}: {error}: make a new run with preprocess.py")
    return content


def open_run(root):
    """The run at `root`; UserError unless preprocess.py has finished there."""
    paths = RunDirectory(Path(root))
    content = read_config(paths)
    if content is None:
        raise UserError(f"{root}: no run here (no config.json): run preprocess.py --run {root}")
    summary = read_json(paths.summary)
    if summary is None:
        raise UserError(f"{root}: preprocessing is not complete: run preprocess.py --run {root}")
    return Run(paths, content["config"], content["dataset"], tuple(content["seeds"]), summary)
