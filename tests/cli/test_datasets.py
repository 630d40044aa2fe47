"""The commands that look at data, check it and make it."""

import gzip
import json

import pytest
from conftest import run_solar, solar_here

from solar_tf.datasets import cards


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "FOLDERS", (tmp_path, *cards.FOLDERS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_list_make_describe_and_verify(folder, capsys):
    assert solar_here("datasets") == 0
    shown = capsys.readouterr().out
    assert all(f"| {name} " in shown for name in cards.list_cards())
    assert solar_here("synthesize", "--rows", 200, "--labels", 30, "--out", "planted") == 0
    assert "preprocess.py --train planted/train.txt" in capsys.readouterr().out
    assert solar_here("verify", "planted") == 0
    assert "DIFFERS" not in capsys.readouterr().out
    files = "planted/train.txt", "planted/test.txt"
    assert solar_here("describe", *files, "--workers", 1, "--plot", "labels.png") == 0
    assert (folder / "labels.png").exists()
    assert solar_here("describe", "--dataset", "planted", "--workers", 1) == 0
    assert "| 200 " in capsys.readouterr().out
    # A row less than the card says.
    text = (folder / "planted" / "train.txt").read_text()
    (folder / "short.txt").write_text("".join(text.splitlines(True)[:-1]))
    files = "short.txt", "planted/test.txt", "--labels", "planted/labels.txt", "--workers", 1
    assert solar_here("verify", "planted", *files) == 1
    said = capsys.readouterr()
    assert said.err.startswith("error: short.txt: not as the card of planted says (train")
    assert "DIFFERS" in said.out


def test_the_xml_repos_files_are_verified_by_name(folder, capsys):
    rows = [f"{i % 3993} {i % 5000}:1\n" for i in range(15539)]
    (folder / "train.txt").write_text("15539 5000 3993\n" + "".join(rows))
    (folder / "test.txt").write_text("3809 5000 3993\n" + "".join(rows[:3809]))
    assert solar_here("verify", "eurlex-4k", "train.txt", "test.txt", "--workers", 1) == 1
    said = capsys.readouterr()
    message = "error: train.txt: not as the card of Eurlex-4K says (labels per query)"
    assert said.err.startswith(message)
    cells = [[cell.strip() for cell in line.split("|")] for line in said.out.splitlines()]
    verdict = {row[1]: row[-2] for row in cells if len(row) > 2}
    assert [verdict[name] for name in ("train", "test", "features", "labels")] == ["ok"] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "nonsense"], "unknown dataset 'nonsense': choose one of"),
        (["verify", "Eurlex-4K"], "no such file: get the dataset Eurlex-4K from http"),
        (["verify", "books"], "did not publish it"),
        (["describe"], "give files, or a --dataset"),
        (["describe", "missing.txt"], "missing.txt: no such file: check the path"),
        (["describe", "a", "b", "c"], "3 files: give the training rows and the test rows"),
        (["synthesize", "--rows", "0", "--labels", "5"], "--rows 0: give a number from 1"),
        (["synthesize", "--rows", "5", "--labels", "5", "--out", "/proc/x/y"], "/proc/x"),
    ],
)
def test_a_mistake_is_one_clear_line(folder, capsys, arguments, message):
    assert solar_here(*arguments) == 1
    line = capsys.readouterr().err
    assert line.startswith("error: ")
    assert message in line
    assert line.count("\n") == 1


def test_it_runs_as_a_program(tmp_path):
    records = [{"title": "one two", "target_ind": [0]}, {"title": "three", "target_ind": [1]}]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "trn.json.gz").write_bytes(gzip.compress(text.encode()))
    done = run_solar("describe", tmp_path / "trn.json.gz", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "format json" in done.stdout
    (tmp_path / "trn.json.gz").write_bytes(b"")
    done = run_solar("describe", tmp_path / "trn.json.gz", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
