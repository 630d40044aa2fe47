"""Checkpoints of a chunk in training: when one is due, how it is written and resumed from.

A new checkpoint is complete before the older ones are deleted. A large chunk's has gigabytes, so
the end of an epoch gets one only if it is worth the time.
"""

import time

import numpy as np
import tensorflow as tf

from solar_tf.run.files import atomic_folder
from solar_tf.run.weights import load_weights, read_state, save_weights

SHARE = 0.05  # largest fraction of the time for checkpoints at the ends of epochs
QUICK = 0.1  # seconds; a checkpoint that takes less is never skipped


class Checkpoints:
    """The checkpoints of one chunk, and when the last one was saved."""

    def __init__(self, paths, chunk, most_seconds):
        self.paths, self.chunk, self.most_seconds = paths, chunk, most_seconds
        self.saved_at, self.took = time.perf_counter(), 0.0

    def due(self):
        """Whether to save one now, even in the middle of an epoch."""
        return time.perf_counter() - self.saved_at > self.most_seconds

    def worthwhile(self):
        """Whether to save one at the end of an epoch."""
        wait = self.took / SHARE if self.took > QUICK else 0.0
        return time.perf_counter() - self.saved_at >= min(wait, self.most_seconds)

    def save(self, step, arrays, facts):
        """Write arrays by name and facts, then delete the older checkpoints."""
        began = time.perf_counter()
        path = self.paths.checkpoint(self.chunk, step)
        with atomic_folder(path) as folder:
            save_weights(folder, arrays, facts | {"step": step})
        self.paths.publish(path)
        self.paths.drop(*self._kept()[:-1])
        self.saved_at = time.perf_counter()
        self.took = self.saved_at - began

    def resume(self, variables):
        """Assign the newest one to variables by name; returns its facts, or None without one."""
        elsewhere = self.paths.stored(self.paths.training(self.chunk))
        self.paths.fetch(*elsewhere[-1:])
        kept = self._kept()
        if not kept:
            return None
        facts = read_state(kept[-1])
        for name, variable in variables.items():
            # One at a time, since together they are as large as the model.
            shapes = {name: tuple(variable.shape)}
            variable.assign(load_weights(kept[-1], shapes)[name])
        return facts

    def _kept(self):
        return sorted(self.paths.training(self.chunk).glob("step_*[0-9]"))


class Rows:
    """A variable as an array that is read some rows at a time; whole, it would be copied."""

    def __init__(self, variable):
        self.variable, self.shape = variable, tuple(variable.shape)
        self.dtype = np.dtype(variable.dtype.as_numpy_dtype)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        return tf.gather(self.variable, tf.range(*rows.indices(len(self)))).numpy()
