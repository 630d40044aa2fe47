"""A run in an object store, through a mirror of it on this machine (docs/distributed.md).

The mirror is a folder with the layout of any run, where stages work as they always do. They fetch
what a unit of work needs before it, and publish what it made after it.

A folder that is renamed as a whole (a trained chunk, a checkpoint) is one object, an uncompressed
zip file: as many objects, part of it would be there when its writer is killed, and the files of
two writers could mix.
"""

import contextlib
import hashlib
import os
import re
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.run.checksums import VERIFIED, HashedFile, inside
from solar_tf.run.files import atomic_folder, atomic_write, delete_folder, sweep, temporary_name
from solar_tf.run.locks import wait_for_lock
from solar_tf.run.objects import Objects
from solar_tf.run.paths import RunDirectory
from solar_tf.runtime.console import progress

VARIABLE = "SOLAR_MIRROR"  # the folder of all mirrors
ONE_OBJECT = re.compile(r"chunks/chunk_\d+(\.training/step_\d+)?|tuned/tuning_\d+/chunk_\d+")
# What zipfile raises where bits have changed.
DAMAGE = zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, KeyError, ValueError
STREAMS = 8  # files fetched at a time
BLOCK = 2**24  # bytes of a read
SMALL_BLOCK = 2**20  # bytes of a read when only a little is wanted


def mirrors():
    """The folder in which this machine has its mirrors."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(cache, "solar-tf", "runs")).absolute()


def mirror_of(url):
    """The mirror of the run at a URL; its name is the same on every machine."""
    return mirrors() / hashlib.sha256(url.encode()).hexdigest()[:16]


def name_in_mirrors(path):
    """The name of a path in some mirror, below `mirrors()`; None for other paths."""
    path = path.absolute()
    name = path.relative_to(mirrors()).as_posix() if path.is_relative_to(mirrors()) else ""
    return name if re.match(r"[0-9a-f]{16}(/|$)", name) else None


def remote_run(url):
    """The run at a URL, which may not be there yet."""
    return RemoteRun(mirror_of(url), Objects(url))


def _arrive(url):
    """A RemoteRun that another process has sent, perhaps from another machine."""
    run = remote_run(url)
    run.refresh()
    return run


@dataclass(frozen=True)
class RemoteRun(RunDirectory):
    """A run at a URL; its root is the mirror, or a folder that the run is copied to."""

    objects: Objects = field(compare=False, repr=False)

    def __reduce__(self):
        return _arrive, (self.objects.url,)

    @property
    def location(self):
        return str(self.objects)

    def is_one_object(self, path):
        """Whether a path is a folder that is renamed as a whole."""
        return ONE_OBJECT.fullmatch(self.name_of(path)) is not None

    def object_of(self, path):
        """The name of the object of a file or folder."""
        return self.name_of(path) + (".zip" if self.is_one_object(path) else "")

    def _lock(self, path):
        """One process of the machine at a time, for a file or folder of the mirror."""
        name = self.name_of(path).replace("/", "_")
        return wait_for_lock(mirror_of(self.objects.url).with_suffix(".locks") / f"{name}.lock")

    # What is there.

    def stored(self, folder=None):
        names = sorted(self.objects.sizes(self.name_of(folder) if folder else ""))
        paths = [(self.root / name.removesuffix(".zip"), self.root / name) for name in names]
        return [folder if self.is_one_object(folder) else file for folder, file in paths]

    def has(self, path):
        name = self.object_of(path)
        if not self.objects.has(name) and path.exists():  # its process was killed before
            self.publish(path)
        return self.objects.has(name)

    def incomplete(self, files):
        sizes = self.objects.sizes()
        return [name for name, (size, _) in files.items() if sizes.get(name) != size]

    def count_bytes(self):
        return sum(self.objects.sizes().values())

    # From there.

    def fetch(self, *paths, facts=None, fresh=False):
        missing = [p for p in paths if fresh or self.is_one_object(p) or not p.exists()]
        if not missing:
            return
        with progress(None, "fetching", "B") as bar:

            def copy(path):
                with contextlib.suppress(FileNotFoundError), self._lock(path):
                    if self.is_one_object(path):
                        self._fetch_folder(path, bar)
                    elif fresh or not path.exists():  # another process may have been faster
                        self._fetch_file(path, (facts or {}).get(self.name_of(path)), bar)

            streams = STREAMS if self.objects.connect().fs.async_impl else 1
            with ThreadPoolExecutor(min(streams, len(missing))) as threads:
                list(threads.map(copy, missing))

    def _fetch_file(self, path, facts, bar):
        name = self.name_of(path)
        with self.objects.open(name, BLOCK) as remote, atomic_write(path) as file:
            hashed = HashedFile(file)
            _copy(remote, hashed, bar)
            if facts and hashed.facts != list(facts):
                raise UserError(
                    f"{self.location}/{name}: damaged, its size or sha256 is wrong: delete it and "
                    "run preprocess.py again"
                )

    @contextlib.contextmanager
    def _open_zip(self, folder, block_size):
        name = self.object_of(folder)
        with self.objects.open(name, block_size) as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    yield archive
            except DAMAGE as error:
                raise UserError(
                    f"{self.location}/{name}: damaged ({error}): delete it and run train.py again"
                )

    def _fetch_folder(self, path, bar):
        state = path / "state.json"
        if path.exists():
            with self._open_zip(path, SMALL_BLOCK) as archive:
                if state.exists() and state.read_bytes() == archive.read(state.name):
                    return
        with self._open_zip(path, BLOCK) as archive:
            delete_folder(path)  # of a training that was not the first to be complete
            with atomic_folder(path) as folder:
                for member in archive.namelist():
                    with archive.open(member) as packed, open(inside(folder, member), "wb") as file:
                        _copy(packed, file, bar)

    def small_files(self, folder):
        target = self.root / "small_files" / self.name_of(folder)
        try:
            with self._open_zip(folder, SMALL_BLOCK) as archive:
                for member in archive.namelist():
                    if not member.endswith(".npy"):
                        with atomic_write(inside(target, member)) as file:
                            file.write(archive.read(member))
        except FileNotFoundError:
            return folder
        return target

    # To there.

    def publish(self, *paths, replace=False):
        for path in paths:
            name = self.object_of(path)
            if not replace and self.objects.has(name):
                continue
            with self._lock(path):
                if not self.is_one_object(path):
                    self.objects.put(path, name)
                    continue
                sweep(path)  # of a process that was killed here
                packed = temporary_name(path)
                try:
                    _pack(path, packed)
                    self.objects.put(packed, name)
                finally:
                    packed.unlink(missing_ok=True)

    def drop(self, *paths):
        super().drop(*paths)
        names = []
        for path in paths:
            is_folder = path.suffix in ("", ".training") and not self.is_one_object(path)
            names += self.objects.sizes(self.name_of(path)) if is_folder else [self.object_of(path)]
        self.objects.delete(names)

    # The run as a whole.

    def read_config(self):
        """The bytes of config.json in the store."""
        with self.objects.open(self.name_of(self.config), SMALL_BLOCK) as file:
            return file.read()

    def refresh(self):
        try:
            theirs = self.read_config()
        except FileNotFoundError:
            return False
        with self._lock(self.config):
            if not self.config.exists() or self.config.read_bytes() != theirs:
                self._clear_mirror()
                with atomic_write(self.config) as file:
                    file.write(theirs)
        self.fetch(self.summary)
        return True

    def start(self):
        if not self.refresh():
            self._clear_mirror()

    def _clear_mirror(self):
        """Delete what the mirror has of another run, but no locks: a process may hold them."""
        for path in self.root.iterdir() if self.root.exists() else ():
            if path.suffix != ".lock":
                delete_folder(path) if path.is_dir() else path.unlink()

    def require_same(self):
        mine = self.config.read_bytes()
        if self.refresh() and self.config.read_bytes() != mine:
            raise UserError(
                f"{self.location}: another preprocess.py is making another run there: "
                "choose another --run"
            )


def _pack(folder, path):
    """A folder as a zip file, its small files first; the same folder gives the same bytes."""
    files = [file for file in folder.iterdir() if file.name != VERIFIED]
    with zipfile.ZipFile(path, "x") as archive:
        for file in sorted(files, key=lambda file: (file.suffix == ".npy", file.name)):
            info = zipfile.ZipInfo(file.name)  # with no time of day in it
            with open(file, "rb") as content, archive.open(info, "w", force_zip64=True) as member:
                shutil.copyfileobj(content, member, BLOCK)


def _copy(source, target, bar):
    while data := source.read(BLOCK):
        target.write(data)
        bar.update(len(data))
