"""The paths of a run."""

import inspect
import itertools
from pathlib import Path

from solar_tf.run.files import sweep
from solar_tf.run.paths import RunDirectory

ARGUMENTS = {
    "split": ["train", "test"],
    "shard": [0, 1, 99_999, 100_000],
    "chunk": [0, 9, 10, 99, 100],
    "block": [0, 9_999, 10_000],
    "step": [0, 1, 10**9],
    "number": [0, 1, 10**6],
    "num_chunks": [None, 1, 10],
    "grouped": [True, False],
    "name": ["parabel", "slice"],
    "key": ["1a", "2b"],
}


NO_PATHS = {
    *("name_of", "has", "incomplete", "stored", "count_bytes", "fetch", "small_files"),
    *("publish", "drop", "refresh", "start", "require_same"),
}


def all_paths(run):
    for name, member in vars(RunDirectory).items():
        if name.startswith("_") or name in NO_PATHS:
            continue
        if isinstance(member, property):
            if isinstance(getattr(run, name), Path):  # not a tuple of paths
                yield name, getattr(run, name)
            continue
        _, *parameters = inspect.signature(member).parameters
        for values in itertools.product(*(ARGUMENTS[parameter] for parameter in parameters)):
            yield f"{name}{values}", getattr(run, name)(*values)


def test_all_paths_of_a_run_are_distinct_and_inside_it():
    paths = dict(all_paths(RunDirectory(Path("some/run"))))
    assert len(paths) > 100
    assert len({*paths.values()}) == len(paths)
    assert all(Path("some/run") in path.parents for path in paths.values())


def test_no_complete_path_looks_temporary(tmp_path):
    run = RunDirectory(tmp_path)
    paths = [path for _, path in all_paths(run)]
    folders = {folder for path in paths for folder in path.parents}
    for path in paths:
        if path in folders:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    sweep(tmp_path)
    assert all(path.exists() for path in paths)
