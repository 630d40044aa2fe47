"""Make the missing parts of a reproduction; stages and baselines resume by themselves."""

import dataclasses
import os
import time
import typing

from solar_tf.baselines import BASELINES, baseline_class
from solar_tf.errors import UserError
from solar_tf.reproduce.plan import MAIN
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_json, write_json
from solar_tf.runtime.console import say
from solar_tf.runtime.provenance import machine

SOLAR = "SOLAR"  # its key in provenance.json; baselines have their names


def execute(runs, folder, dataset, wish, trainers=None, workers=None):
    """Make the planned runs; returns why parts were not made: {(run, model): reason}."""
    failed = {}
    workers = workers or os.cpu_count()
    for planned in runs:
        root = folder.run(planned.name)
        say(f"\n== {root}: Table {', '.join(map(str, planned.tables))} ==\n")
        _preprocess(root, dataset, planned.config, workers)
        if planned.solar:
            make_solar(root, planned, trainers, workers)
        for name in planned.baselines:
            if name not in BASELINES:
                failed[planned.name, name] = "not part of this version"
                continue
            try:
                make_baseline(root, name, wish)
            except UserError as error:  # a baseline that cannot run does not stop the others
                failed[planned.name, name] = str(error)
                say(f"{name}: not run: {error}")
    return failed


def _preprocess(root, dataset, config, workers):
    from solar_tf.preprocessing.stage import preprocess

    try:
        preprocess(root, dataset, config, workers)
    except UserError as error:
        raise UserError(str(error).replace("--run", "--out"))


def make_solar(root, planned, trainers, workers):
    from solar_tf.retrieval.evaluation import infer
    from solar_tf.training.stage import train

    run = open_run(root)
    if not solar_is_done(run, planned):
        stamp(run, SOLAR)
    if len(run.trained_chunks()) < run.config.num_chunks:
        unbroken = not [*run.paths.chunks.glob("chunk_*")]
        began = time.perf_counter()
        train(root, trainers=trainers)
        if unbroken:
            content = read_json(run.paths.provenance)
            content["training_clock"] = round(time.perf_counter() - began, 3)
            write_json(run.paths.provenance, content)
    for evaluation in planned.evaluations:
        if not run.paths.metrics(evaluation.num_chunks).exists():
            infer(root, **dataclasses.asdict(evaluation), workers=workers)


def solar_is_done(run, planned):
    return all(run.paths.metrics(e.num_chunks).exists() for e in planned.evaluations)


def make_baseline(root, name, wish):
    from solar_tf.baselines.runner import run_baseline

    run, kind = open_run(root), baseline_class(name)
    if not baseline_is_done(run, name):
        stamp(run, name)
    run_baseline(root, name, baseline_settings(kind, wish.preset, wish.settings.get(name, {})))


def baseline_settings(kind, preset, texts):
    """The baseline's own settings, changed by those for the preset, and then by the user's."""
    given = typed_settings(kind.Settings, texts)
    chosen = {name: getattr(given, name) for name in texts}
    return dataclasses.replace(given, **(kind.presets.get(preset, {}) | chosen))


def baseline_is_done(run, name):
    return (run.paths.baseline(name) / "metrics.json").exists()


def typed_settings(kind, texts):
    """A baseline's Settings from the texts of flags."""
    hints = typing.get_type_hints(kind)
    values = {}
    for name, text in texts.items():
        if name not in hints:
            raise UserError(f"--set: no setting {name!r}: there are {', '.join(hints)}")
        try:
            values[name] = hints[name](text)
        except ValueError:
            raise UserError(f"--set: {name} is of type {hints[name].__name__}, not {text!r}")
    return kind(**values)


def stamp(run, part):
    """Note machine and commit before a part of the run is made or continued."""
    content = read_json(run.paths.provenance) or {}
    visits = content.setdefault("parts", {}).setdefault(part, [])
    now = machine()
    if not visits or visits[-1]["commit"] != now["commit"]:
        visits.append(now)
        write_json(run.paths.provenance, content)


def commits(run, part):
    """The commits that a part of a run was made with, such as `1a2b3c4`; `unknown` without."""
    visits = (read_json(run.paths.provenance) or {}).get("parts", {}).get(part, [])
    return ", ".join(visit["commit"] or "installed" for visit in visits) or "unknown"


def existing_run(root):
    """A run, or None before it is there."""
    return open_run(root) if (root / "config.json").exists() else None


def main_run(folder):
    """The run of Tables 1, 2, 3 and 5, or None before it is there."""
    return existing_run(folder.run(MAIN))
