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


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The bin folder of an environment with the wheel, which borrows this one's libraries."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"  # building writes beside setup.py
    subprocess.run(["git", "clone", "--quiet", ROOT, source], check=True)
    changed = subprocess.run(
        ["git", "ls-files", "--modified", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, changed.split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source],
        check=True,
    )
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "env" / "bin"


def test_the_cards_line_works_verbatim_outside_the_checkout(installed, tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"PATH": f"{installed}:{env['PATH']}", "SOLAR_DATA": str(tmp_path / "data")}
    where = subprocess.run(
        ["python", "-c", "import solar_tf; print(solar_tf.__file__)"],
        env=env, cwd=tmp_path, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert where.startswith(str(installed.parent))
    subprocess.run(
        [sys.executable, ROOT / "data" / "slice_dataset.py", "--rows", "1500",
         "--out", tmp_path / "data" / "debian"],
        check=True,
    )  # fmt: skip
    done = subprocess.run(
        "preprocess.py && train.py --gpu 0 && infer.py",
        shell=True, env=env, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no GPU 0 here: training on the CPU" in done.stdout
    assert done.stderr == ""
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


def test_the_embedded_default_ships_inside_the_package(installed, tmp_path):
    code = (
        "from solar_tf.datasets.cards import load_card\n"
        "card = load_card('debian')\n"
        "card.verify()\n"
        "print(card.folder, card.content['counts']['train'])"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SOLAR_DATA")}
    done = subprocess.run(
        [installed / "python", "-c", code],
        env=env, cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    folder, rows = done.stdout.split()
    assert folder.startswith(str(installed.parent))
    assert int(rows) > 48_000


@pytest.mark.parametrize("program", ["preprocess", "train", "infer"])
def test_help_teaches(installed, program, tmp_path):
    done = subprocess.run(
        [installed / f"{program}.py", "--help"], cwd=tmp_path, capture_output=True, text=True
    )
    assert f"{program}.py " in done.stdout
    assert "The run directory" in done.stdout
