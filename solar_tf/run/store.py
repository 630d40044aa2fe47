"""A run in an object store, or wherever fsspec leads: read and written through a mirror.

Every object is a file of the run, or one of its folders that are renamed as a whole (a trained
chunk, a checkpoint), as an uncompressed zip file: a folder of many objects would be there in
part when its writer is killed, or be two writers' at once. So what exists is complete, as on a
disk. The mirror is a folder of this machine, where the stages work as they always do.
"""

import contextlib
import fcntl
import functools
import logging
import re
import shutil
import urllib.parse
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.run.checksums import MEMORY, HashedFile, inside
from solar_tf.run.files import (
    TEMPORARY,
    atomic_folder,
    atomic_write,
    discard,
    sweep,
    temporary_name,
)
from solar_tf.run.urls import mirror_of
from solar_tf.runtime.console import progress

CONFIG = "config.json"  # by which a mirror is known to be of the run that is there now
FOLDERS = re.compile(r"chunks/chunk_\d+(\.training/step_\d+)?|tuned/tuning_\d+/chunk_\d+")
# File systems: a file is there while it is written, but can be renamed. Objects are put at once.
RENAMING = {"local", "ftp", "sftp", "ssh", "smb", "hdfs", "arrow_hdfs", "webhdfs", "dbfs"}
# What zipfile raises where bits have changed.
DAMAGE = zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, KeyError, ValueError
STREAMS = 8  # files under way at a time
BLOCK = 2**24  # bytes
HEAD = 2**20  # bytes of a read when only a little is wanted


def object_of(name):
    """The object of a file or folder of a run, by its name."""
    return f"{name}.zip" if FOLDERS.fullmatch(name) else name


class Store:
    """The objects of one run; names are those of its manifest, `records/summary.json` say."""

    def __init__(self, url, mirror=None):
        """The mirror is this machine's, unless the run is copied to a folder of the user's."""
        self.url, self.mirror = url, Path(mirror or mirror_of(url))
        self._seen = set()  # names of objects that were there

    def __reduce__(self):
        return _arrive, (self.url,)

    def __str__(self):
        return re.sub(r"://[^/@]*@", "://", self.url)  # no passwords on screens

    def connect(self):
        """UserError if the scheme of the URL is unknown, or its package is not installed."""
        return self._remote

    @functools.cached_property
    def _remote(self):
        """The file system, and the path of the run in it."""
        try:
            import fsspec
        except ImportError:
            raise UserError(f"{self}: needs fsspec: pip install solar-tf[store]")
        for library in ("botocore", "aiobotocore"):  # they say where they found the credentials
            logging.getLogger(library).setLevel(logging.WARNING)
        try:
            return fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        except ImportError as error:  # says which package it is that knows this scheme
            raise UserError(f"{self}: {_line(error)}")
        except Exception as error:
            raise UserError(f"{self}: {_line(error)}: write it as s3://bucket/run")

    @contextlib.contextmanager
    def _reached(self, name=""):
        """The file system, and an object's path; what goes wrong there becomes one line."""
        files, base = self._remote
        try:
            yield files, f"{base}/{name}" if name else base
        except (FileNotFoundError, UserError):
            raise
        except Exception as error:
            if str(getattr(error, "filename", None)).startswith(str(self.mirror)):
                raise  # this machine's disk
            # There is no telling what the packages of the schemes raise.
            what = f"{self}{name and '/'}{name}: {type(error).__name__}, {_line(error)}"
            raise UserError(f"{what}: see that it is there, and that this machine may use it")

    # What is there.

    def sizes(self, folder=""):
        """The bytes of every object below a folder, by name."""
        with self._reached(folder) as (files, path):
            found = files.find(path, detail=True)
        base = self._remote[1].strip("/")
        sizes = {
            path.strip("/").removeprefix(base).strip("/"): facts["size"]
            for path, facts in found.items()
            if not path.endswith(TEMPORARY)
        }
        self._seen |= sizes.keys()
        return sizes

    def has(self, name):
        """Whether a file or folder is there, which is to say complete."""
        name = object_of(name)
        if name not in self._seen:
            with self._reached(name) as (files, path):
                if not files.exists(path):
                    return False
            self._seen.add(name)
        return True

    def refresh(self):
        """Empty the mirror if another run is at the URL now; returns whether there is one."""
        try:
            theirs = self.read(CONFIG)
        except FileNotFoundError:
            return False
        with self._alone(CONFIG):
            config = self.mirror / CONFIG
            if not config.exists() or config.read_bytes() != theirs:
                self.clear_mirror()
                with atomic_write(config) as file:
                    file.write(theirs)
        return True

    def clear_mirror(self):
        """Forget a run that is no longer there; locks stay, whoever holds them."""
        for path in self.mirror.iterdir() if self.mirror.exists() else ():
            if path.suffix != ".lock":
                discard(path) if path.is_dir() else path.unlink()

    @contextlib.contextmanager
    def _alone(self, name):
        """One process of the machine at a time, for a file or folder of the mirror."""
        path = mirror_of(self.url).with_suffix(".locks") / f"{name.replace('/', '_')}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    # From there.

    def fetch(self, names, facts=None, fresh=False):
        """Copy files and folders that the mirror lacks; what the store lacks is left out.

        Files are compared with their `facts`, where those are known, before they appear. `fresh`
        ones are copied even so: they can change.
        """
        paths = {name: self.mirror / name for name in names}
        missing = [n for n, p in paths.items() if fresh or FOLDERS.fullmatch(n) or not p.exists()]
        if not missing:
            return
        with progress(None, "fetching", "B") as bar:

            def copy(name):
                with contextlib.suppress(FileNotFoundError), self._alone(name):
                    if FOLDERS.fullmatch(name):
                        self._fetch_folder(name, bar)
                    elif fresh or not paths[name].exists():
                        self._fetch_file(name, (facts or {}).get(name), bar)

            streams = STREAMS if self._remote[0].async_impl else 1
            with ThreadPoolExecutor(min(streams, len(missing))) as threads:
                list(threads.map(copy, missing))

    @contextlib.contextmanager
    def _open(self, name, block_size=BLOCK):
        with self._reached(name) as (files, path), files.open(path, block_size=block_size) as file:
            yield file

    def read(self, name):
        """The bytes of a small file."""
        with self._open(name, HEAD) as file:
            return file.read()

    def _fetch_file(self, name, facts, bar):
        with self._open(name) as remote, atomic_write(self.mirror / name) as file:
            hashed = HashedFile(file)
            _copy(remote, hashed, bar)
            if facts and hashed.facts != list(facts):
                raise UserError(
                    f"{self}/{name}: damaged, its size or sha256 is wrong: delete it and run "
                    "preprocess.py again"
                )

    @contextlib.contextmanager
    def _archive(self, name, block_size=BLOCK):
        """The folder `name` as the zip file that it is there."""
        with self._open(object_of(name), block_size) as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    yield archive
            except DAMAGE as error:
                raise UserError(
                    f"{self}/{object_of(name)}: damaged ({_line(error)}): delete it and run "
                    "train.py again"
                )

    def _fetch_folder(self, name, bar):
        path, state = self.mirror / name, self.mirror / name / "state.json"
        if path.exists():
            with self._archive(name, HEAD) as archive:
                if state.exists() and state.read_bytes() == archive.read(state.name):
                    return
        with self._archive(name) as archive:
            discard(path)  # of a training that was not the first to be complete
            with atomic_folder(path) as folder:
                for member in archive.namelist():
                    with archive.open(member) as packed, open(inside(folder, member), "wb") as file:
                        _copy(packed, file, bar)

    def facts(self, name):
        """A folder with all but the arrays of a folder there, or None; of a chunk, a few kB."""
        folder = self.mirror / "facts" / name
        try:
            with self._archive(name, HEAD) as archive:
                for member in archive.namelist():
                    if not member.endswith(".npy"):
                        with atomic_write(inside(folder, member)) as file:
                            file.write(archive.read(member))
        except FileNotFoundError:
            return None
        return folder

    # To there.

    def publish(self, names, replace=False):
        """Put complete files and folders of the mirror there, in this order.

        The first complete one stays, unless it is to be replaced: it is the same, or as good.
        """
        for name in names:
            path = self.mirror / name
            if not replace and self.has(name):
                continue
            with self._alone(name):
                if not FOLDERS.fullmatch(name):
                    self._put(path, name)
                    continue
                sweep(path)  # of a process that was killed here
                packed = temporary_name(path)
                try:
                    _pack(path, packed)
                    self._put(packed, object_of(name))
                finally:
                    packed.unlink(missing_ok=True)

    def _put(self, path, name):
        with self._reached(name) as (files, target), self._found():
            if urllib.parse.urlsplit(self.url).scheme not in RENAMING:
                files.put_file(str(path), target)
            else:
                files.makedirs(target.rpartition("/")[0], exist_ok=True)
                unfinished = str(temporary_name(Path(target)))
                files.put_file(str(path), unfinished)
                files.mv(unfinished, target)
        self._seen.add(name)

    @contextlib.contextmanager
    def _found(self):
        """Where an object is put, nothing may be missing, such as the bucket."""
        try:
            yield
        except FileNotFoundError as error:
            raise UserError(f"{self}: {_line(error)}: make it first, then run this again")

    def drop(self, names):
        """Delete files and folders there, with all that is in them."""
        objects = [found for name in names for found in self._objects(name)]
        if objects:
            with self._reached() as (files, base):
                # What is not there is no error of object stores, but of file systems.
                if paths := [f"{base}/{name}" for name in objects if self.has(name)]:
                    files.rm(paths)
        self._seen -= {*objects}

    def _objects(self, name):
        plain = not FOLDERS.fullmatch(name) and Path(name).suffix in ("", ".training")
        return self.sizes(name) if plain else [object_of(name)]


def _arrive(url):
    """A store that was sent to another process, on another machine perhaps."""
    store = Store(url)
    store.refresh()
    return store


def _pack(folder, path):
    """A folder as a zip file, its small files first; the same folder gives the same bytes."""
    files = [file for file in folder.iterdir() if file.name != MEMORY]
    with zipfile.ZipFile(path, "x") as archive:
        for file in sorted(files, key=lambda file: (file.suffix == ".npy", file.name)):
            info = zipfile.ZipInfo(file.name)  # with no time of day in it
            with open(file, "rb") as content, archive.open(info, "w", force_zip64=True) as member:
                shutil.copyfileobj(content, member, BLOCK)


def _copy(source, target, bar):
    while data := source.read(BLOCK):
        target.write(data)
        bar.update(len(data))


def _line(error):
    return (str(error).strip().split("\n")[0] or type(error).__name__).rstrip(".")
