"""Copy a whole run between a folder and a store (docs/distributed.md)."""

from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.operations.check import check
from solar_tf.run.checksums import MEMORY
from solar_tf.run.directory import TEMPORARY, RunDirectory, open_run
from solar_tf.run.store import CONFIG, FOLDERS, Store
from solar_tf.run.urls import url_of
from solar_tf.runtime.console import progress

LEFT_OUT = ("scratch", "facts", "tensorboard")  # of one machine only


def pull(url, folder):
    """Copy the run at a URL; returns the Report of its verification."""
    paths = RunDirectory(Path(folder), _store(url, folder))
    names = {_without_zip(name) for name in paths.store.sizes() if not _is_left_out(name)}
    if CONFIG not in names:
        raise UserError(f"{paths.location}: no run here (no config.json)")
    _require_same(paths)
    _each("pulling", names, paths, lambda name: paths.store.fetch([name], fresh=_changes(name)))
    return check(folder)


def push(folder, url):
    """Copy the run in a folder to a URL, what is complete; returns how many files it has."""
    run = open_run(folder)
    paths = RunDirectory(run.paths.root, _store(url, folder))
    names = set()
    for path in paths.root.rglob("*"):
        name = paths.name_of(path)
        whole = next((match[0] for match in [FOLDERS.match(name)] if match), None)
        if path.is_file() and not _is_left_out(name) and path.suffix != ".lock":
            names.add(whole or name)
    if paths.store.has(CONFIG):
        _require_same(paths)
    _each("pushing", names, paths, lambda name: paths.store.publish([name], _changes(name)))
    return len(names)


def _store(url, folder):
    if url_of(url) is None:
        raise UserError(f"{url}: not a URL such as s3://bucket/run")
    return Store(url_of(url), folder)


def _require_same(paths):
    if paths.config.exists() and paths.config.read_bytes() != paths.store.read(CONFIG):
        raise UserError(f"{paths.root}: another run than that at {paths.location}: choose another")


def _is_left_out(name):
    parts = Path(name).parts
    return (
        parts[0] in LEFT_OUT
        or parts[-1] == MEMORY
        or any(part.endswith((TEMPORARY, ".training")) for part in parts)
    )


def _without_zip(name):
    short = name.removesuffix(".zip")
    return short if FOLDERS.fullmatch(short) else name


def _changes(name):
    """Whether a file can be replaced by another: results, and the catalogue's manifest."""
    fixed = ("config.json", "labels/", "vocab/", "rows/", "records/", "index/", "chunks/", "tuned/")
    return not name.startswith(fixed)


def _each(what, names, paths, copy):
    """Copy so that a run is never taken for more than is there: what says "complete" comes last."""
    markers = CONFIG, paths.name_of(paths.summary)

    def order(name):
        if name in markers:
            return 1, markers.index(name), name
        return (2 if FOLDERS.fullmatch(name) or _changes(name) else 0), name.endswith(".json"), name

    with progress(len(names), what, "file") as bar:
        for name in sorted(names, key=order):
            copy(name)
            bar.update()
