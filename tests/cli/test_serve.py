"""`solar serve` before it serves; what it answers is tested in tests/serving."""

import subprocess
import sys

import pytest
from conftest import ROOT, run_solar

from solar_tf.cli.solar import main


def test_mistakes_are_one_line(tmp_path, trained):
    for flags, reason in (
        ([tmp_path], "no run here"),
        ([trained.paths.root, "--window", "-1"], "milliseconds"),
        ([trained.paths.root, "--token_file", tmp_path / "none"], "No such file"),
        ([trained.paths.root, "--token-file", tmp_path / "none"], "No such file"),
    ):
        done = run_solar("serve", *flags, "--port", 0)
        assert done.returncode == 1 and done.stdout == ""
        assert reason in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("flags", [["--port", "70000"], ["--burst", "0"], ["--rate", "x"]])
def test_numbers_are_checked(flags, capsys):
    with pytest.raises(SystemExit) as end:
        main(["serve", "run", *flags])
    assert end.value.code == 2 and flags[1] in capsys.readouterr().err


def test_a_port_in_use_says_so(trained):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_solar("serve", trained.paths.root, "--port", taken.getsockname()[1])
    assert done.returncode == 1 and "choose another with --port" in done.stderr


def test_a_short_token_is_refused(trained):
    done = run_solar("serve", trained.paths.root, "--port", 0, env={"SOLAR_TOKEN": "short"})
    assert done.returncode == 1 and "16 or more" in done.stderr


def test_without_the_extra_it_names_the_extra(trained):
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from solar_tf.cli.solar import main; main(['serve', sys.argv[1]])"
    )
    command = [sys.executable, "-c", code, str(trained.paths.root)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1 and "pip install 'solar-tf[serve]'" in done.stderr
