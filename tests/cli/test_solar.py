"""The `solar` command: its list of commands, and the help of each."""

import subprocess
import sys

import pytest
from conftest import ROOT, run_solar

import solar_tf
from solar_tf.baselines import BASELINES
from solar_tf.cli.solar import NAMES, main, with_underscores

SHARED = {"__init__", "flags", "programs", "solar", "stages"}  # no commands
HELP = [
    *([name] for name in NAMES),
    *(["baseline", name] for name in BASELINES),
    *(["labels", name] for name in ("add", "remove", "list", "compact")),
    ["export", "saved_model"],
    ["export", "qdrant"],
]


def test_every_module_is_a_command_and_every_command_is_listed(capsys):
    modules = {path.stem for path in (ROOT / "solar_tf" / "cli").glob("*.py")} - SHARED
    assert {*NAMES} == modules and len(NAMES) == len(modules)
    shown = []
    for arguments in ([], ["--help"], ["-h"]):
        assert main(arguments) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] == shown[2]
    lines = {line.split()[0]: line for line in shown[0].splitlines() if line.startswith("  ")}
    assert all(len(lines[name].split()) > 3 for name in NAMES)


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{solar_tf.__version__}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("serv", "did you mean serve? "), ("basline", "did you mean baseline? "), ("--verbose", "")],
)
def test_a_mistyped_command_is_one_line_with_a_suggestion(capsys, typed, meant):
    with pytest.raises(SystemExit) as end:
        main([typed])
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (2, "")
    assert said.err == f"error: no command {typed!r}: {meant}`solar --help` lists all of them\n"


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_every_help_teaches(words, capsys):
    try:
        code = main([*words, "--help"])
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr()
    assert (code, said.err) == (0, "")
    assert f"solar {' '.join(words)}" in said.out and "python -m" not in said.out


def test_help_comes_without_tensorflow_and_the_list_without_numpy():
    code = (
        "import sys\n"
        "from solar_tf.cli.solar import NAMES, main\n"
        "main([])\n"
        "assert 'numpy' not in sys.modules\n"
        "for name in NAMES:\n"
        "    try:\n"
        "        main([name, '--help'])\n"
        "    except SystemExit:\n"
        "        pass\n"
        "    assert not {'tensorflow', 'keras'} & sys.modules.keys(), name\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["check", "a", "b"],
        ["check", "a", "--fast"],
        ["labels"],
        ["tune", "a", "--epoch=1"],
    ],
)
def test_other_words_are_answered_with_the_usage(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(f"usage: solar {words[0]} ")


def test_flags_may_have_dashes():
    assert with_underscores(["a-b", "--num-chunks=1-2", "-x-y", "--dry-run", "--", "--a-b"]) == [
        *("a-b", "--num_chunks=1-2", "-x-y", "--dry_run", "--", "--a-b")
    ]


def test_it_runs_as_a_program():
    done = run_solar("verify", "nonsense")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: unknown dataset 'nonsense'")
