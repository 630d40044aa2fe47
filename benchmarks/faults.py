"""Faults for benchmarks/torture.py: processes that kill themselves when they change a file.

The functions of the package and of Python that change files are replaced by ones that count their
calls, so nothing of this is in the package itself.
"""

import io
import os
import random
import signal
import threading
import time


class Faults:
    """Counts the moments at which files change, and kills the process at one of them."""

    def __init__(self, at=None, number=signal.SIGKILL, group=False):
        self.at, self.number, self.group = at, number, group
        self.moments = []  # their kinds
        self.lock = threading.Lock()  # infer.py writes in threads, too

    def moment(self, kind):
        """Whether this is the one."""
        with self.lock:
            self.moments.append(kind)
            return len(self.moments) == self.at

    def reach(self, kind):
        if self.moment(kind):
            self.fire()

    def fire(self):
        if self.number == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)  # in the main thread an exception, here and now
        elif self.group:
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), self.number)

    def install(self):
        from solar_tf.run import files, weights

        files.open = weights.open = self.open
        for name, kind in (("fsync", "fsync"), ("unlink", "remove"), ("rmdir", "remove")):
            setattr(os, name, self.before(kind, getattr(os, name)))
        os.replace = self.around("rename", os.replace)
        os.mkdir = self.around("mkdir", os.mkdir)
        jumps = random.Random(os.getpid())
        time.time = lambda: 1.8e9 + jumps.uniform(-3e8, 3e8)

    def before(self, kind, function):
        def faulty(*arguments, **options):
            self.reach(kind)
            return function(*arguments, **options)

        return faulty

    def around(self, kind, function):
        def faulty(*arguments, **options):
            self.reach(kind)
            result = function(*arguments, **options)
            self.reach(f"after {kind}")
            return result

        return faulty

    def open(self, path, mode="r", **options):
        file = open(path, mode, **options)
        return FaultyFile(file, self) if set("wxa") & set(mode) else file


class FaultyFile:
    """A file for writing, of whose writes some are the last."""

    def __init__(self, file, faults):
        self.file, self.faults = file, faults
        self.text = io.StringIO() if isinstance(file, io.TextIOBase) else None

    def write(self, data):
        if self.text is not None:  # comes in crumbs
            return self.text.write(data)
        return self._write(bytes(data))

    def _write(self, data):
        self.faults.reach("write")
        done = 0
        if self.faults.moment("torn write"):
            done = len(data) // 2
            self.file.write(data[:done])
            self.file.flush()
            self.faults.fire()
        self.file.write(data[done:])  # SIGTERM tears nothing in a thread that is not the main one
        return len(data)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        if self.text is not None and self.text.getvalue():
            self._write(self.text.getvalue())
            self.text = io.StringIO()
        self.file.flush()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)
