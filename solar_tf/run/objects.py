"""The objects below a URL, by fsspec; any error there becomes one line."""

import contextlib
import logging
import os
import re
import urllib.parse
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.run.files import TEMPORARY, temporary_name

# On these a file is seen while it is written, but can be renamed. Objects appear when complete.
FILE_SYSTEMS = {"local", "ftp", "sftp", "ssh", "smb", "hdfs", "arrow_hdfs", "webhdfs", "dbfs"}


def url_of(root):
    """The URL of a run that is not in a folder, or None."""
    scheme, found, rest = str(root).partition("://")
    if not found:
        return None
    if scheme == "file":
        if not rest.startswith("/"):
            raise UserError(f"--run {root}: a file URL has three slashes, file:///folder")
        return None
    return str(root).rstrip("/")


def local_path(root):
    """A path as it is, or the path of a file URL."""
    text = str(root)
    return urllib.parse.unquote(text[len("file://") :]) if text.startswith("file://") else root


class Objects:
    """All objects below a URL, by name; one that exists is complete."""

    def __init__(self, url):
        self.url = url
        self._seen = set()  # names of objects that exist

    def __str__(self):
        return re.sub(r"://[^/@]*@", "://", self.url)  # no passwords on screens

    def connect(self):
        """The fsspec file system below the URL; UserError if the scheme's package is missing."""
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.dirfs import DirFileSystem
        except ImportError:
            raise UserError(f"{self}: needs fsspec: pip install solar-tf[store]")
        for library in ("botocore", "aiobotocore"):  # they log where they found the credentials
            logging.getLogger(library).setLevel(logging.WARNING)
        try:
            files, base = url_to_fs(self.url, use_listings_cache=False)
        except ImportError as error:  # names the package that knows this scheme
            raise UserError(f"{self}: {_line(error)}")
        except Exception as error:
            raise UserError(f"{self}: {_line(error)}: write it as s3://bucket/run")
        return DirFileSystem(path=base, fs=files)

    @contextlib.contextmanager
    def _reach(self, name=""):
        """The file system, for work on an object."""
        try:
            yield self.connect()
        except (FileNotFoundError, UserError):
            raise
        except Exception as error:  # the packages of the schemes raise anything
            if os.path.isabs(str(getattr(error, "filename", None))):
                raise  # this machine's disk
            what = f"{self}{name and '/'}{name}: {type(error).__name__}, {_line(error)}"
            raise UserError(f"{what}: see that it is there, and that this machine may use it")

    def sizes(self, folder=""):
        """The bytes of every object below a folder, by name."""
        with self._reach(folder) as files:
            found = files.find(folder, detail=True)
        sizes = {n: info["size"] for n, info in found.items() if not n.endswith(TEMPORARY)}
        self._seen.update(sizes)
        return sizes

    def has(self, name):
        """Whether an object exists."""
        if name not in self._seen:
            with self._reach(name) as files:
                if not files.exists(name):
                    return False
            self._seen.add(name)
        return True

    @contextlib.contextmanager
    def open(self, name, block_size):
        """An object as a file, read by blocks: fsspec's get_file may hold 500 MB in memory."""
        with self._reach(name) as files, files.open(name, block_size=block_size) as file:
            yield file

    def put(self, path, name):
        """Make a local file an object, which appears when all of it is there."""
        with self._reach(name) as files:
            try:
                if urllib.parse.urlsplit(self.url).scheme not in FILE_SYSTEMS:
                    files.put_file(str(path), name)
                else:
                    files.makedirs(name.rpartition("/")[0], exist_ok=True)
                    unfinished = str(temporary_name(Path(name)))
                    files.put_file(str(path), unfinished)
                    files.mv(unfinished, name)
            except FileNotFoundError as error:  # the bucket, say
                raise UserError(f"{self}: {_line(error)}: make it first, then run this again")
        self._seen.add(name)

    def delete(self, names):
        """Delete objects, if they exist."""
        # On file systems it is an error to delete what is not there.
        if there := [name for name in names if self.has(name)]:
            with self._reach() as files:
                files.rm(there)
            self._seen.difference_update(there)


def _line(error):
    """The first line of an error's message."""
    return (str(error).strip().split("\n")[0] or type(error).__name__).rstrip(".")
