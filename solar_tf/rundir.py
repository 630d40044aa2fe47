"""The run directory: every path of a run, atomic writes, claims on its parts.

The run directory is the contract between the stages (docs/run_directory.md). A
file in it exists only when it is complete: it is written under a temporary name,
synced and renamed.
"""

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path

from solar_tf.errors import UserError

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
        if path.exists():
            shutil.rmtree(path)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


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


class RunDirectory:
    """Every path of a run; no other module joins path names of its own."""

    def __init__(self, root):
        self.root = Path(root)

    # Stage 1, preprocess.py.
    @property
    def config(self):
        return self.root / "config.json"

    @property
    def label_titles(self):
        return self.root / "labels" / "titles.txt"

    @property
    def label_counts(self):
        """How often each label occurs in training: propensities and frequency reports."""
        return self.root / "labels" / "counts.npy"

    @property
    def vocabulary(self):
        return self.root / "vocab" / "words.txt"

    @property
    def token_weights(self):
        return self.root / "vocab" / "weights.npy"

    def records(self, split, chunk, shard):
        return self.root / "records" / split / f"chunk_{chunk:02d}" / f"shard_{shard:05d}.tfrecord"

    def truth(self, split, shard):
        """The true labels of a shard's rows, for the metrics (CSR arrays)."""
        return self.root / "records" / split / "truth" / f"shard_{shard:05d}.npz"

    def index(self, chunk):
        return self.root / "index" / f"chunk_{chunk:02d}.pkl"

    # Stage 2, train.py.
    def chunk(self, chunk):
        """A trained chunk: exists only when its training is complete."""
        return self.root / "chunks" / f"chunk_{chunk:02d}"

    def checkpoint(self, chunk):
        """The newest state of a chunk in training."""
        return self.root / "chunks" / f"chunk_{chunk:02d}.checkpoint"

    def chunk_claim(self, chunk):
        return self.root / "chunks" / f"chunk_{chunk:02d}.lock"

    def tensorboard(self, chunk):
        return self.root / "tensorboard" / f"chunk_{chunk:02d}"

    # Stage 3, infer.py.
    def topm(self, chunk):
        return self.root / "topm" / f"chunk_{chunk:02d}.npz"

    @property
    def scratch(self):
        return self.root / "scratch"

    @property
    def predictions(self):
        return self.root / "predictions.npz"

    @property
    def metrics(self):
        return self.root / "metrics.json"

    def trained_chunks(self, num_chunks):
        return [chunk for chunk in range(num_chunks) if self.chunk(chunk).exists()]
