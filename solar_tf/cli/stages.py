"""Flags and errors of the three stage programs."""

import os
import re

from absl import app, flags

from solar_tf.cli import flags as shared
from solar_tf.cli.programs import errors_explained, stop
from solar_tf.errors import UserError
from solar_tf.run.objects import Objects, local_path, url_of
from solar_tf.runtime.process import end_at_once, exit_when_terminated

flags.disclaim_key_flags()  # flags defined here belong to the program, whose --help shows them


def define(table):
    """Define flags of solar_tf.cli.flags."""
    kinds = {str: flags.DEFINE_string, int: flags.DEFINE_integer, float: flags.DEFINE_float}
    for name, kind, default, text in table:
        if isinstance(kind, type):
            kinds[kind](name, default, text)
        else:
            flags.DEFINE_enum(name, default, kind, text)


def define_run_flag():
    text = "The run directory, shared by all three stages: a path, or the URL of a store that "
    flags.DEFINE_string("run", "run", text + "fsspec knows, such as s3://bucket/run.")


def define_dataset_flags():
    """A dataset with a card, or files of the user's own, and the preset for it."""
    define([*shared.DATASET, *shared.FILES])


def open_dataset():
    """The dataset of the flags."""
    return shared.open_dataset(flags.FLAGS)


def define_launcher_flags(gpus=False):
    """Where the work is done: by processes here, or by a cluster's (docs/distributed.md)."""
    flags.DEFINE_enum("launcher", "local", ["local", "ray"], "Processes here, or a Ray cluster.")
    text = "host:port of the Ray cluster [default: $RAY_ADDRESS, or Ray started here]."
    flags.DEFINE_string("address", None, text)
    flags.DEFINE_float("num_cpus", 1, "CPUs, and TensorFlow threads, of a task in Ray.", 0.01)
    if gpus:
        flags.DEFINE_float("num_gpus", 0, "GPUs that Ray gives a task; 0.5 puts two on a GPU.", 0)


def define_memory_flag():
    text = "Most memory of the program and its workers, such as 4GB or 800MB [default: no limit]."
    flags.DEFINE_string("max_memory", None, text)


def max_memory():
    """The bytes of --max_memory, or None."""
    text = flags.FLAGS.max_memory
    if text is None:
        return None
    if flags.FLAGS.launcher != "local":
        raise UserError("--max_memory is for processes of this machine: tell Ray its own limit")
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(MB|GB|TB)\s*", text, re.IGNORECASE)
    if not match:
        raise UserError(f"--max_memory {text}: write it as 800MB or 4GB")
    return float(match[1]) * {"MB": 1e6, "GB": 1e9, "TB": 1e12}[match[2].upper()]


def define_config_flags():
    """One flag per field of SolarConfig; unset flags leave the preset's value."""
    define(shared.CONFIG)


def config_flags():
    """The hyper-parameters that were given by flag."""
    return shared.given_values(flags.FLAGS, shared.CONFIG)


def run_stage(main):
    """Parse the flags and run `main()`; a UserError becomes one line and exit code 1."""

    def guarded(argv):
        if len(argv) > 1:
            stop(f"{argv[1]!r} is not a flag: see {os.path.basename(argv[0])} --help")
        exit_when_terminated()
        with errors_explained():
            if "run" in flags.FLAGS:
                if url := url_of(flags.FLAGS.run):
                    Objects(url).connect()  # a missing package is named before TensorFlow loads
                flags.FLAGS.run = local_path(flags.FLAGS.run)
            main()
        end_at_once()

    app.run(guarded)


def parse_numbers(flag, words):
    """The positive whole numbers of a list flag."""
    if not words or not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise UserError(f"--{flag} {','.join(words)}: give whole numbers above 0, such as 100,50")
    return [int(word) for word in words]


def parse_chunks(text):
    """The chunks of `3`, `0-3` or `0,2,5-7`, in order; None for None."""
    if text is None:
        return None
    chunks = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part)
        if not match:
            raise UserError(f"--chunks {text}: write it as 3, 0-3 or 0,2,5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UserError(f"--chunks {text}: {part} ends before it begins")
        chunks.update(range(first, last + 1))
    return sorted(chunks)


def rankers_ahead(workers, max_memory):
    """A context in which the ranking processes of stage 3 start while TensorFlow loads.

    TensorFlow loads on one core and leaves the others free. With a memory limit none start early,
    since their number is not known yet.
    """
    from solar_tf.retrieval.rankers import get_ready
    from solar_tf.runtime.workers import started_ahead

    return started_ahead(workers if max_memory is None else 0, get_ready)
