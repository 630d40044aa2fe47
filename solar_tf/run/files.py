"""Files that exist only when they are complete, and whose damage is found when they are read.

A file is written under a temporary name, synced and renamed. Archives of arrays carry zip's
checksums, JSON objects their own.
"""

import contextlib
import errno
import glob
import hashlib
import json
import math
import os
import secrets
import shutil
import zipfile
from pathlib import Path

import numpy as np

from solar_tf.errors import UserError

TOKEN = secrets.token_hex(4)  # of this process
TEMPORARY = ".tmp"  # suffix of everything that is not complete yet
CHECKSUM = "checksum"  # the key of a JSON object's own sha256
FILE_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def sync(path):
    """Write a file, or the entries of a folder, to the disk; also what was written by a map."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def file_named(path):
    """Add the path to the error of a failed write, on a full disk say, which has none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in FILE_TROUBLE:
            error.filename = str(path)
        raise


def temporary_name(path):
    """A name that no other process uses; TOKEN tells apart equal process ids of two machines."""
    return path.with_name(f"{path.name}.{os.getpid()}_{TOKEN}{TEMPORARY}")


@contextlib.contextmanager
def _renamed_at_the_end(path, remove):
    """Yield a temporary name for `path`; rename it if the block succeeds, else remove it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    remove(temporary)  # left by a killed process that had this one's id
    try:
        with file_named(path):
            yield temporary
            os.replace(temporary, path)
            sync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(temporary)
        raise


@contextlib.contextmanager
def atomic_write(path, mode="wb"):
    """Open a file for writing that appears under `path` only if the block succeeds."""
    with _renamed_at_the_end(Path(path), lambda file: file.unlink(missing_ok=True)) as temporary:
        # Mode x opens only a new file, never a link that a stranger has put there.
        encoding = None if "b" in mode else "utf-8"
        with open(temporary, mode.replace("w", "x"), encoding=encoding) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def atomic_folder(path):
    """Yield an empty temporary folder that becomes `path` only if the block succeeds."""
    with _renamed_at_the_end(
        Path(path), lambda folder: shutil.rmtree(folder, ignore_errors=True)
    ) as temporary:
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            sync(file)
        sync(temporary)


def delete_folder(folder):
    """Rename a folder away, then delete it: a kill leaves only what `sweep` deletes."""
    temporary = temporary_name(Path(folder))
    try:
        with contextlib.suppress(FileNotFoundError):
            os.replace(folder, temporary)
        shutil.rmtree(temporary, ignore_errors=True)
    except BaseException:  # told to end in the midst of it
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def sweep(*paths):
    """Delete what killed processes left half-written of these files and folders.

    Hold the lock on them: a living process may be writing, too.
    """
    for path in map(Path, paths):
        own = path.parent.glob(f"{glob.escape(path.name)}.*{TEMPORARY}")
        for leftover in [*own, *path.rglob(f"*{TEMPORARY}")]:
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


# Arrays.


def write_arrays(path, arrays):
    """Write an .npz file of plain arrays: a dict, or an iterable of names and arrays."""
    pairs = arrays.items() if isinstance(arrays, dict) else arrays
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in pairs:
            # No time of day in it: the same arrays give the same bytes.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read_arrays(path, stage):
    """The arrays of an .npz file as a dict; `stage` is the program that can rebuild it."""
    with _damage_explained(path, stage), np.load(path, allow_pickle=False) as content:
        _verify(content.zip)
        return dict(content)


def read_array(path, name):
    """One array of an .npz file that this process has written or verified."""
    with np.load(path, allow_pickle=False) as content:
        return content[name]


def verify_arrays(path, stage):
    """Check an .npz file without loading its arrays."""
    with _damage_explained(path, stage), zipfile.ZipFile(path) as archive:
        _verify(archive)


@contextlib.contextmanager
def _damage_explained(path, stage):
    try:
        yield
    except Exception as error:  # damage makes zipfile and numpy raise anything
        raise UserError(f"{path}: cannot be read ({error}): delete it and run {stage} again")


def _verify(archive):
    """Check all of a zip file; numpy alone trusts the sizes in the arrays' headers."""
    members = archive.infolist()
    # A wrong length in the directory makes its next entries a comment.
    if not members or any(member.comment for member in members):
        raise zipfile.BadZipFile("wrong checksum")
    for member in members:
        # Nothing is ever extracted, but a name that leads elsewhere is no name of an array.
        if Path(member.filename).name != member.filename or "\\" in member.filename:
            raise zipfile.BadZipFile(f"{member.filename!r} is no name of an array")
        # Neither packed zeros nor a header may claim more memory than the file has bytes.
        if member.compress_type != zipfile.ZIP_STORED or (
            _declared_size(archive, member) != member.file_size
        ):
            raise zipfile.BadZipFile("its sizes are wrong")
    if archive.testzip():
        raise zipfile.BadZipFile("wrong checksum")


def _declared_size(archive, member):
    """The size of an array's file by its own header."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): "read_array_header_1_0", (2, 0): "read_array_header_2_0"}[version]
        shape, _, dtype = getattr(np.lib.format, read)(file)
        return file.tell() + math.prod(shape) * dtype.itemsize


def new_map(path, dtype, shape):
    """A new .npy file as a writable map.

    Its room is allocated at once: writing to a map on a full disk would kill the process.
    """
    with file_named(path):
        array = np.lib.format.open_memmap(path, "w+", dtype, shape)
        with open(path, "rb+") as file:
            os.posix_fallocate(file.fileno(), 0, array.offset + array.nbytes)
    return array


# JSON.


def encode_json(content):
    """JSON text; an object gets a checksum, which `read_json` verifies and drops."""
    if isinstance(content, dict):
        content = {**content, CHECKSUM: _checksum(content)}
    return json.dumps(content, indent=2) + "\n"


def write_json(path, content):
    """Write a JSON file."""
    with atomic_write(path, "w") as file:
        file.write(encode_json(content))


def read_json(path, remedy="delete it and run its stage again"):
    """The content of a JSON file, or None where there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error}): {remedy}")
    if isinstance(content, dict) and content.pop(CHECKSUM, None) not in (None, _checksum(content)):
        raise UserError(f"{path}: its checksum is wrong, it is damaged or was edited: {remedy}")
    return content


def _checksum(content):
    plain = {key: value for key, value in content.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()
