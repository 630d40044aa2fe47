"""The `solar` command: its list of commands, and the help of each."""

import importlib
import inspect

import pytest
from conftest import run_python, solar_here

import solar_tf
from solar_tf.baselines import BASELINES
from solar_tf.cli.solar import MODULES, with_underscores

HELP = [
    *([name] for name in MODULES),
    *(["baseline", name] for name in BASELINES),
    *(["labels", name] for name in ("add", "remove", "list", "compact")),
    ["export", "saved_model"],
    ["export", "qdrant"],
]


def test_every_command_is_listed_and_the_version_is_told(capsys):
    shown = []
    for arguments in ([], ["--help"], ["-h"]):
        assert solar_here(*arguments) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] == shown[2]
    lines = {line.split()[0]: line for line in shown[0].splitlines() if line.startswith("  ")}
    assert all(len(lines[name].split()) > 3 for name in MODULES)
    assert solar_here("--version") == 0
    assert capsys.readouterr().out == f"{solar_tf.__version__}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("serv", "did you mean serve? "), ("basline", "did you mean baseline? "), ("--verbose", "")],
)
def test_a_mistyped_command_is_one_line_with_a_suggestion(capsys, typed, meant):
    assert solar_here(typed) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"error: no command {typed!r}: {meant}`solar --help` lists all of them\n"


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_every_help_teaches(words, capsys):
    assert solar_here(*words, "--help") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"solar {' '.join(words)}" in said.out and "python -m" not in said.out
    if len(words) == 1:  # the docstring as it stands
        command = getattr(importlib.import_module(f"solar_tf.cli.{MODULES[words[0]]}"), words[0])
        assert inspect.getdoc(command).partition("{names}")[0] in said.out


def test_help_comes_without_tensorflow_and_the_list_without_numpy():
    code = (
        "import sys\n"
        "from solar_tf.cli.solar import MODULES, main\n"
        "main([])\n"
        "assert 'numpy' not in sys.modules\n"
        "for name in MODULES:\n"
        "    try:\n"
        "        main([name, '--help'])\n"
        "    except SystemExit:\n"
        "        pass\n"
        "    assert not {'tensorflow', 'keras'} & sys.modules.keys(), name\n"
    )
    assert run_python("-c", code).returncode == 0


@pytest.mark.parametrize("line", ["check", "check a b", "check a --fast", "labels", "tail a --js"])
def test_other_words_are_answered_with_the_usage(line, capsys):
    assert solar_here(*line.split()) == 2
    assert capsys.readouterr().err.startswith(f"usage: solar {line.split()[0]} ")


def test_flags_may_have_dashes():
    assert with_underscores(["a-b", "--num-chunks=1-2", "-x-y", "--dry-run", "--", "--a-b"]) == [
        *("a-b", "--num_chunks=1-2", "-x-y", "--dry_run", "--", "--a-b")
    ]
