"""Checksums of files: made as they are written, verified before they are used.

The facts of a file are `[bytes, sha256]`. Which files were verified is remembered in a file beside
them, by their size, times and inode: a model of many gigabytes is read once, not before every
query.
"""

import contextlib
import hashlib
import os
import time
from pathlib import Path, PurePosixPath

from solar_tf.errors import UserError
from solar_tf.run.files import encode_json, read_json

VERIFIED = "verified.json"
SETTLED = 2.0  # seconds; two changes within a tick of the file system's clock look like one


class HashedFile:
    """A file that hashes what is written to it."""

    def __init__(self, file):
        self.file, self.size, self.digest = file, 0, hashlib.sha256()

    def write(self, data):
        self.digest.update(data)
        self.size += memoryview(data).nbytes
        return self.file.write(data)

    @property
    def facts(self):
        return [self.size, self.digest.hexdigest()]


def file_facts(path):
    """The facts of a file."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return [file.tell(), digest]


def are_facts(files):
    """Whether a value from a JSON file is the facts of files by name."""
    return isinstance(files, dict) and all(
        isinstance(facts, list) and [type(fact) for fact in facts] == [int, str] and facts[0] >= 0
        for facts in files.values()
    )


def inside(root, name):
    """The path below `root` of a name that was read from a file; it must not lead out."""
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    if not parts or "\0" in name or ".." in parts or PurePosixPath(name).is_absolute():
        raise UserError(f"{root}: {name!r} is no name of a file in it: do not trust this folder")
    return Path(root, name)


def verify(root, files, remedy, remember=True):
    """Compare files with their facts, by name below `root`; the first that differs is a UserError.

    A size of None is not compared. `remedy` says how to get the files again.
    """
    memory = _read_memory(root) if remember else {}
    news = {}
    for name, (size, digest) in files.items():
        path = inside(root, name)
        try:
            status = path.stat()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}: {remedy}")
        if size not in (None, status.st_size):
            raise UserError(f"{path}: {status.st_size} bytes, where {size} belong: {remedy}")
        times = status.st_mtime_ns, status.st_ctime_ns
        stamp = [digest, status.st_size, status.st_ino, *times]
        if memory.get(name) == stamp:
            continue
        if file_facts(path)[1] != digest:
            raise UserError(f"{path}: damaged, its sha256 is wrong: {remedy}")
        if time.time() - max(times) / 1e9 > SETTLED:
            news[name] = stamp
    if remember and news:
        with contextlib.suppress(OSError):  # a folder that may only be read
            _write_memory(root, memory | news)


def _read_memory(root):
    try:
        memory = read_json(Path(root, VERIFIED))
    except (UserError, OSError):
        memory = None
    return memory if isinstance(memory, dict) else {}


def _write_memory(root, memory):
    """Written in place: if a kill or a second writer spoils it, files are verified again."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(Path(root, VERIFIED), flags, 0o666), "w", encoding="utf-8") as file:
        file.write(encode_json(memory))


def incomplete(root, files):
    """The names of files that are missing or of another size than their facts say."""

    def size_of(path):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    return [name for name, (size, _) in files.items() if size_of(inside(root, name)) != size]
