"""Memory of a stage and all its processes: the limit `--max_memory`, and reuse of freed pages.

A stage chooses its workers and blocks so that they fit (`choose_workers`, and infer.py's plan).
Beyond that, its memory is watched: over the limit it ends with one line, before the machine does.
"""

import collections
import contextlib
import ctypes
import math
import signal
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.runtime.console import say, size

LOOK_EVERY = 0.25  # seconds
LOOK_AGAIN = 5.0  # seconds, after the stage was told to end
PROCESS_BYTES = 0.25e9  # of Python, numpy and compiled code, in each process
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT = 64 << 20  # bytes of freed memory that a process keeps
LARGEST_KEPT = 32 << 20  # bytes of one array; glibc's maximum


def keep_freed():
    """Let this process reuse the memory of arrays that it frees, up to KEPT bytes.

    Otherwise the kernel takes the pages back and clears each one before it is used again: a
    tenth of the time of ranking small blocks of queries (docs/paper_notes.md).
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(M_TRIM_THRESHOLD, KEPT)


def process_tree(root):
    """The ids of a process and of all its descendants."""
    children = collections.defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            parent = path.read_text(errors="replace").rpartition(")")[2].split()[1]
            children[int(parent)].append(int(path.parent.name))
    waiting = [root]
    while waiting:
        process = waiting.pop()
        waiting += children[process]
        yield process


def tree_memory():
    """Bytes in use by this process and its descendants: PSS, which counts shared pages once."""
    own = int(Path("/proc/self").resolve().name)
    return sum(kernel_count(process, "smaps_rollup", "Pss") for process in process_tree(own))


def kernel_count(process, file, name):
    """A number of bytes from a file of /proc; 0 if the process has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/{file}").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return 0


@contextlib.contextmanager
def held_to(limit):
    """Raise a UserError in the block if it takes more than `limit` bytes; None: no limit."""
    if limit is None:
        yield
        return

    def look(*_):
        used = tree_memory()
        if used > limit:
            signal.setitimer(signal.ITIMER_REAL, LOOK_AGAIN, LOOK_AGAIN)
            raise UserError(
                f"--max_memory: {size(used)} are in use, and the limit is {size(limit)}: what is "
                "done is kept; run it again with more, or with fewer --workers"
            )

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY, LOOK_EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def too_small(limit, least):
    """The error for a limit that is too small; names the smallest that suffices."""
    least_gb = math.ceil(least / 1e7) / 100
    return UserError(
        f"--max_memory: {size(limit)} are not enough here: give {least_gb:.2f}GB or more"
    )


def choose_workers(limit, workers, shared, each):
    """How many workers fit, if each needs `each` bytes beyond PROCESS_BYTES."""
    if limit is None:
        return workers
    if PROCESS_BYTES + shared + each > limit:
        raise too_small(limit, PROCESS_BYTES + shared + each)
    for fewer in range(workers, 1, -1):
        if shared + (fewer + 1) * PROCESS_BYTES + fewer * each <= limit:
            break
    else:
        fewer = 1  # one worker is this process
    if fewer < workers:
        say(f"--max_memory {size(limit)}: {fewer} of {workers} workers")
    return fewer


def available_memory():
    """Bytes of memory that are free for use now."""
    with open("/proc/meminfo", encoding="ascii") as file:
        facts = dict(line.split(":") for line in file)
    return int(facts["MemAvailable"].split()[0]) * 1024
