"""`solar serve` before it serves; what it answers is tested in tests/serving."""

import socket

import pytest
from conftest import run_python, solar_here


@pytest.mark.parametrize(
    ("run", "flags", "token", "reason"),
    [
        ("NONE", ["--port", "0"], "", "no run here"),
        ("RUN", ["--port", "0", "--window", "-1"], "", "milliseconds"),
        ("RUN", ["--port", "0", "--token_file", "NONE"], "", "No such file"),
        ("RUN", ["--port", "0", "--token-file", "NONE"], "", "No such file"),
        ("RUN", ["--port", "0"], "short", "16 or more"),
        ("RUN", ["--port", "TAKEN"], "", "choose another with --port"),
    ],
)
def test_mistakes_are_one_line(trained, tmp_path, monkeypatch, capsys, run, flags, token, reason):
    monkeypatch.setenv("SOLAR_TOKEN", token)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"RUN": trained.paths.root, "NONE": tmp_path / "none"}
        places["TAKEN"] = taken.getsockname()[1]
        assert solar_here("serve", *(places.get(word, word) for word in (run, *flags))) == 1
    out, err = capsys.readouterr()
    assert reason in err and (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("flags", [["--port", "70000"], ["--burst", "0"], ["--rate", "x"]])
def test_numbers_are_checked(flags, capsys):
    assert solar_here("serve", "run", *flags) == 2
    assert flags[1] in capsys.readouterr().err


def test_without_the_extra_it_names_the_extra(trained):
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from solar_tf.cli.solar import main; main(['serve', sys.argv[1]])"
    )
    done = run_python("-c", code, trained.paths.root)
    assert done.returncode == 1 and "pip install 'solar-tf[serve]'" in done.stderr
