"""The memory of a stage and all its processes: a limit on it, `--max_memory`, and keeping some.

A stage chooses its workers and blocks so that they fit (`choose_workers`, and infer.py's plan);
what could not be foreseen is watched for, and ends the stage with one line before the machine does.
"""

import collections
import contextlib
import ctypes
import math
import signal
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.runtime.console import say, size

LOOK_EVERY, LOOK_AGAIN = 0.25, 5.0  # seconds; again after the stage was told to end
PROCESS_BYTES = 0.25e9  # of Python, numpy and compiled code, in each process
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT, LARGEST_KEPT = 64 << 20, 32 << 20  # bytes; glibc takes no larger ones for an array


def keep_freed():
    """Let this process keep the arrays that it frees, up to KEPT bytes, for its next ones.

    Otherwise the kernel takes them back and gives them out again page by page, each of them
    cleared: a tenth of the time of ranking small blocks of queries (docs/paper_notes.md).
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(M_TRIM_THRESHOLD, KEPT)


def process_tree(root):
    """The numbers of a process and of all below it."""
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
    """Bytes in use by this process and all below it: PSS, which counts shared pages once."""
    own = int(Path("/proc/self").resolve().name)
    return sum(kernel_count(process, "smaps_rollup", "Pss") for process in process_tree(own))


def kernel_count(process, file, name):
    """The bytes that the kernel counts under a name in a file of /proc; 0 of an ended process."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/{file}").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return 0


@contextlib.contextmanager
def held_to(limit):
    """End what runs inside with a UserError if it takes more than `limit` bytes; None: no limit."""
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
    """The error that a limit is too small, and which is not."""
    least_gb = math.ceil(least / 1e7) / 100
    return UserError(
        f"--max_memory: {size(limit)} are not enough here: give {least_gb:.2f}GB or more"
    )


def choose_workers(limit, workers, shared, each):
    """How many workers fit, if each needs `each` bytes beside those of its process."""
    if limit is None:
        return workers
    if PROCESS_BYTES + shared + each > limit:
        raise too_small(limit, PROCESS_BYTES + shared + each)
    for fewer in range(workers, 1, -1):
        if shared + (fewer + 1) * PROCESS_BYTES + fewer * each <= limit:
            break
    else:
        fewer = 1  # does its work in this process
    if fewer < workers:
        say(f"--max_memory {size(limit)}: {fewer} of {workers} workers")
    return fewer


def available_memory():
    """Bytes of memory that are free for use now."""
    with open("/proc/meminfo", encoding="ascii") as file:
        facts = dict(line.split(":") for line in file)
    return int(facts["MemAvailable"].split()[0]) * 1024
