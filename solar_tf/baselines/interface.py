"""What every baseline offers: settings, fit, predict, save and load; parts that survive a kill."""

import dataclasses
import math
import os
import queue
import threading
import time
import typing
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from solar_tf.config import PlainSettings
from solar_tf.errors import UserError
from solar_tf.run.files import read_arrays, read_json, write_arrays, write_json
from solar_tf.runtime.console import progress

COMMAND = "solar baseline"
CORES = len(os.sched_getaffinity(0))


def setting(default, source, text, choices=None, least=None):
    """A field of a baseline's settings; `source` says where its default comes from.

    Numbers must be above 0, or at least `least` if that is given.
    """
    metadata = {"source": source, "help": text, "choices": choices, "least": least}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings(PlainSettings):
    """Everything that decides what a baseline learns; subclasses add their own fields."""

    weighting: str = setting(
        "auto",
        "ours",
        "feature values: counts (as the files give them), tfidf, or auto: tfidf for titles, "
        "counts for feature files, whose values the datasets' authors chose",
        choices=("auto", "counts", "tfidf"),
    )
    idf_power: float = setting(
        0.0,
        "ours",
        "power of the IDF in tfidf: above 1, frequent words fade further; 0: the run's power, so "
        "that SOLAR and its baselines have the same features",
        least=0,
    )
    seed: int = setting(0, "ours", "seed of all random choices", least=0)

    def __post_init__(self):
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            name, expected, value = field.name, hints[field.name], getattr(self, field.name)
            choices, least = field.metadata["choices"], field.metadata["least"]
            if expected is float and type(value) is int:
                object.__setattr__(self, name, value := float(value))
            if type(value) is not expected:
                raise UserError(f"{name} must be of type {expected.__name__}, not {value!r}")
            if choices:
                if value not in choices:
                    raise UserError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
            elif expected is not str and not math.isfinite(value):
                raise UserError(f"{name} must be a finite number, not {value}")
            elif least is None and value <= 0:
                raise UserError(f"{name} must be above 0, not {value}")
            elif least is not None and value < least:
                raise UserError(f"{name} must be at least {least}, not {value}")


class Baseline:
    """A ranker of labels. A fitted one is its `arrays`, by name."""

    title = None  # as tables show it
    Settings = Settings
    presets = {}  # settings by name, where the defaults are not for every size of data
    settings_file = "settings.json"

    def __init__(self, settings=None):
        self.settings = settings or self.Settings()
        self.arrays = {}

    def fit(self, data, folder):
        """Learn from `data.train` (inputs.Data); finished parts are kept in `folder`, and used."""
        raise NotImplementedError

    def predict(self, inputs, k):
        """The k best labels of each row: ids int32 [n, k], padded with -1, scores float32 [n, k].

        `inputs` are rows as `inputs.Data` has them, weighted alike and of unit length.
        """
        raise NotImplementedError

    def facts(self, data):
        """Numbers by name that a fitted baseline reports beside its metrics."""
        return {}

    def save(self, folder):
        """Write plain .npy files and the settings into a folder."""
        for name, array in self.arrays.items():
            np.save(Path(folder) / f"{name}.npy", array, allow_pickle=False)
        write_json(Path(folder) / self.settings_file, self.settings.to_dict())

    @classmethod
    def load(cls, folder):
        """A fitted baseline from what `save` wrote."""
        folder = Path(folder)
        content = read_json(folder / cls.settings_file)
        if content is None:
            raise UserError(f"{folder}: no model here: run {COMMAND} again")
        baseline = cls(cls.Settings.from_dict(content))
        for path in sorted(folder.glob("*.npy")):
            try:
                baseline.arrays[path.stem] = np.load(path, allow_pickle=False)
            except Exception as error:
                raise UserError(f"{path}: cannot be read ({error}): delete {folder} and fit again")
        return baseline


class Parts:
    """The finished parts of a fit, and the seconds spent on it, also by killed processes."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._clock = self.folder / "clock.json"
        self._before, self._started = spent_seconds(folder), time.perf_counter()
        self._lock = threading.Lock()

    def get(self, name, make):
        """The arrays of a part, made by `make()` unless a file holds them already."""
        path = self.folder / f"{name}.npz"
        if path.exists():
            return read_arrays(path, COMMAND)
        arrays = make()
        write_arrays(path, arrays)
        self.tick()
        return arrays

    def tick(self):
        """A part is finished: note the time."""
        with self._lock:
            seconds = self._before + time.perf_counter() - self._started
            write_json(self._clock, {"seconds": seconds})

    def ensemble(self, count, what, make, threads=CORES):
        """The parts `make(0)` to `make(count - 1)`, several at a time, in order.

        The threads are daemons: a process that is told to end does not wait for their parts.
        """
        todo, done = iter(range(count)), queue.SimpleQueue()

        def work():
            for i in todo:  # shared by the threads: each number goes to one of them
                try:
                    done.put((i, self.get(f"{what}_{i:03d}", lambda i=i: make(i)), None))
                except BaseException as error:
                    done.put((i, None, error))
                    return

        parts = [None] * count
        with (
            progress(count, f"fitting {what}s", what) as bar,
            threadpool_limits(1 if threads > 1 else None, "blas"),  # the cores are taken already
        ):
            for _ in range(min(threads, count)):
                threading.Thread(target=work, daemon=True).start()
            for _ in range(count):
                i, parts[i], error = done.get()
                if error:
                    list(todo)  # start no other part
                    raise error
                bar.update()
        return parts


def spent_seconds(folder):
    """Seconds of a fit up to its last finished part."""
    return (read_json(Path(folder) / "clock.json") or {"seconds": 0.0})["seconds"]


def empty_ranking(num_queries, k, score=0):
    """A ranking that holds nothing yet: ids int32 [n, k] of -1, scores float32 [n, k]."""
    shape = num_queries, k
    return np.full(shape, -1, np.int32), np.full(shape, score, np.float32)


def rank_in_threads(kernel, num_queries, k, *arguments, rows_per_task=256):
    """Fill a ranking by `kernel(start, stop, *arguments, ids, scores)` for slices of all queries.

    Returns ids, scores and what the kernel returned for each slice.
    """
    ids, scores = empty_ranking(num_queries, k)
    returned = in_threads(
        lambda start, stop: kernel(start, stop, *arguments, ids, scores), num_queries, rows_per_task
    )
    return ids, scores, returned


def in_threads(function, num_rows, rows_per_task=256):
    """Call `function(start, stop)` for slices of all rows, on all cores; it must let go of the GIL.

    Returns the results in order.
    """
    starts = range(0, num_rows, rows_per_task)
    stops = [min(start + rows_per_task, num_rows) for start in starts]
    if len(starts) <= 1 or CORES == 1:
        return list(map(function, starts, stops))
    with ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(function, starts, stops))
