"""The `solar` command. Each of its commands is a function of that name in the module given here.

The module is imported when the command is called; the function's docstring is its --help.
"""

import difflib
import importlib
import sys

from solar_tf import __version__
from solar_tf.cli.programs import errors_explained, stop

COMMANDS = {  # name: module, what it does
    "Use a trained run": {
        "serve": ("serve", "serve it over HTTP: a search page, and an API"),
        "labels": ("catalogue", "add and remove labels without training again"),
        "tune": ("catalogue", "fine-tune it on new rows"),
        "export": ("export", "write it for TensorFlow, or its label vectors to a search engine"),
    },
    "Look after runs": {
        "check": ("runs", "verify every file of a run"),
        "pull": ("runs", "copy a run from an object store"),
        "push": ("runs", "copy a run to an object store"),
    },
    "Look at data": {
        "datasets": ("data", "list the datasets that have a card"),
        "describe": ("data", "statistics and label frequencies of any data"),
        "verify": ("data", "compare files with a dataset's card"),
        "synthesize": ("data", "make data with a planted answer"),
    },
    "Understand a run": {
        "report": ("analysis", "a run as one page: results, curves, sample queries"),
        "geometry": ("analysis", "load of the buckets, overlap of the labels, work of a query"),
        "tail": ("analysis", "hits of every model by the frequency of labels and words"),
    },
    "Compare with the paper": {
        "baseline": ("paper", "fit and evaluate a competitor of the paper's"),
        "reproduce": ("paper", "the paper's tables on a dataset, beside the paper's figures"),
        "theory": ("analysis", "check the paper's derivations by numbers"),
    },
}
MODULES = {name: module for group in COMMANDS.values() for name, (module, _) in group.items()}


def main(arguments=None):
    """The entry point; returns the exit code."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with errors_explained():
        if name in MODULES:
            module = importlib.import_module(f"solar_tf.cli.{MODULES[name]}")
            return getattr(module, name)(with_underscores(rest)) or 0
        if name in ("-h", "--help", "--version"):
            print(__version__ if name == "--version" else help_text())
            return 0
    close = difflib.get_close_matches(name, MODULES, 1)
    meant = f"did you mean {close[0]}? " if close else ""
    return stop(f"no command {name!r}: {meant}`solar --help` lists all of them", 2)


def help_text():
    """What `solar --help` prints: the commands in groups."""
    width = max(map(len, MODULES))
    lines = [
        "usage: solar COMMAND ...",
        "",
        "SOLAR, a search engine over labels. preprocess.py, train.py and infer.py make a run;",
        "these commands do the rest. `solar COMMAND --help` explains a command.",
    ]
    for group, commands in COMMANDS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:{width}}  {text}" for name, (_, text) in commands.items()]
    lines += ["", "Examples:", "  solar serve my_run", "  solar describe train.txt test.txt"]
    return "\n".join(lines)


def with_underscores(arguments):
    """`--num-chunks=3` as `--num_chunks=3`: flags are accepted with dashes, too."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    flags = [
        f"--{name[2:].replace('-', '_')}{equals}{value}" if name.startswith("--") else argument
        for argument in arguments[:end]
        for name, equals, value in [argument.partition("=")]
    ]
    return flags + arguments[end:]
