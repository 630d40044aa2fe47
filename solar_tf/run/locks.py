"""Locks on parts of a run: the kernel's, which end with their process, however it ends."""

import contextlib
import errno
import fcntl
import os
import socket
from pathlib import Path

from solar_tf.errors import UserError

# File systems whose locks every machine sees (NFS: unless mounted otherwise), and those of one
# machine. The locks of others, such as sshfs or 9p, may reach this machine only.
SHARED = ("nfs", "nfs4", "lustre", "gpfs", "ceph", "gfs2", "ocfs2", "beegfs")
LOCAL_LOCKS = ("nolock", "local_lock=all", "local_lock=flock", "localflock", "noflock")
LOCAL = (
    *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "ramfs"),
    *("overlay", "vfat", "exfat", "ntfs3", "squashfs"),
)


@contextlib.contextmanager
def wait_for_lock(path):
    """Hold the lock file `path`, among the processes of this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def try_lock(path):
    """Hold the lock file `path` if it is free; yields whether it was.

    A dead process holds nothing, but its name stays in the file. Where locks do not reach other
    machines, the name of a process on another one is an error: it may be alive.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            raise UserError(
                f"{path}: its file system has no locks ({error.strerror}): put the run on another"
            )
        here = socket.gethostname()
        file.seek(0)
        host, _, process = file.read(1000).decode(errors="replace").strip().partition(" ")
        if host not in ("", here) and not shares_locks(path):
            raise UserError(
                f"{path}: process {process} on {host} holds it or was killed, and locks on this "
                f"file system do not reach other machines: delete the file if it is gone"
            )
        _write(file, f"{here} {os.getpid()}\n")
        try:
            yield True
        finally:
            _write(file, "")


def _write(file, text):
    with contextlib.suppress(OSError):  # a full disk is for the work itself to report
        file.truncate(0)
        file.write(text.encode())


def shares_locks(path, mounts="/proc/self/mountinfo"):
    """Whether all machines that can write to `path` see each other's locks there."""
    try:
        kind, options = _file_system(Path(path).resolve(), Path(mounts).read_text())
    except (OSError, ValueError):
        return True  # nothing is known of the file system
    if kind in SHARED:
        return not any(option in LOCAL_LOCKS for option in options)
    return kind in LOCAL


def _file_system(path, mounts):
    """The type and the options of the mount that `path` is on."""
    found = -1, "", []
    for line in mounts.splitlines():
        place, special = line.split(" - ")
        point = place.split()[4].encode().decode("unicode_escape")  # a space is \040
        kind, _, options = special.split()[:3]
        if path.is_relative_to(point) and len(point) >= found[0]:  # a later mount covers it
            found = len(point), kind, [*place.split()[5].split(","), *options.split(",")]
    return found[1:]
