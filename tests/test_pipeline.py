"""The card's line, as installed: a wheel in an environment of its own, outside the checkout."""

import json
import os
import subprocess
import sys
import sysconfig

import pytest
from conftest import ROOT

from solar_tf.retrieval.metrics import evaluate
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_arrays


def call(*command, **options):
    """What a program prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The bin folder of an environment with the wheel, which borrows this one's libraries."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"  # building writes beside setup.py
    call("git", "clone", "--quiet", ROOT, source)
    changed = "git", "ls-files", "--modified", "--others", "--exclude-standard", "-z"
    for name in filter(None, call(*changed, cwd=ROOT).split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    pip = "-m", "pip", "--quiet"
    subprocess.run([sys.executable, *pip, "wheel", "--no-deps", "-w", folder, source], check=True)
    call(sys.executable, "-m", "venv", folder / "env")
    python = folder / "env" / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    subprocess.run([python, *pip, "install", "--no-deps", wheel], check=True)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "env" / "bin"


@pytest.fixture
def outside(installed, tmp_path):
    """How to run a program as an installation has it, in a folder without the checkout."""
    env = os.environ | {"PATH": f"{installed}:{os.environ['PATH']}"}
    for name in ("PYTHONPATH", "SOLAR_DATA"):
        env.pop(name, None)
    return {"cwd": tmp_path, "env": env}


def test_the_cards_line_works_verbatim_outside_the_checkout(outside, tmp_path):
    sliced = tmp_path / "data" / "debian"
    call(sys.executable, ROOT / "data" / "slice_dataset.py", "--rows", "1500", "--out", sliced)
    outside["env"]["SOLAR_DATA"] = str(tmp_path / "data")
    said = call("bash", "-c", "preprocess.py && train.py --gpu 0 && infer.py", **outside)
    assert "no GPU 0 here: training on the CPU" in said
    run = open_run(tmp_path / "run")
    assert run.trained_chunks() == list(range(run.config.num_chunks))
    metrics = json.loads(run.paths.metrics().read_text())
    rows = {(row["setting"], row["score"]): row for row in metrics["rows"]}
    assert rows.keys() == {
        (setting, score)
        for setting in ("full", "m=100", "m=50", "m=25")
        for score in ("probability", "evidence")
    }
    # 1,500 rows teach little, but more than chance by far.
    assert rows["m=100", "evidence"]["P@1"] > 20
    truth = read_arrays(run.paths.rows("test", 0), "preprocess.py")
    predictions = read_arrays(run.paths.predictions(), "infer.py")
    again = evaluate(predictions["m=50_evidence_ids"], truth["label_splits"], truth["labels"])
    assert rows["m=50", "evidence"]["P@5"] == pytest.approx(again["P@5"])


def test_the_embedded_default_ships_inside_the_package(outside, installed):
    code = (
        "from solar_tf.datasets.cards import load_card\n"
        "card = load_card('debian')\n"
        "card.verify()\n"
        "print(card.folder, card.content['counts']['train'])\n"
        "import solar_tf; print(solar_tf.__file__)"
    )
    folder, rows, package = call(installed / "python", "-c", code, **outside).split()
    assert folder.startswith(str(installed.parent)) and package.startswith(str(installed.parent))
    assert int(rows) > 48_000


@pytest.mark.parametrize("program", ["preprocess", "train", "infer"])
def test_help_teaches(outside, program):
    help_text = subprocess.run([f"{program}.py", "--help"], stdout=subprocess.PIPE, **outside)
    assert f"{program}.py ".encode() in help_text.stdout
    assert b"The run directory" in help_text.stdout
