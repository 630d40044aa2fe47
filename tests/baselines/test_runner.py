import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ROOT, open_titles, run_solar, small_config, write_titles

from solar_tf.baselines import runner
from solar_tf.baselines.inputs import load_data
from solar_tf.baselines.pfastrexml import PfastreXML
from solar_tf.baselines.runner import folder_bytes, peak_memory, run_baseline
from solar_tf.errors import UserError
from solar_tf.preprocessing.stage import preprocess
from solar_tf.retrieval.metrics import evaluate
from solar_tf.run.files import write_arrays

SETTINGS = {"num_trees": 5, "seed": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = write_titles(tmp_path_factory.mktemp("titles"), 300, 60)
    root = tmp_path_factory.mktemp("run")
    preprocess(root, open_titles(folder), small_config(num_chunks=1), 1)
    return root


def pfastrexml(root, save_as=None, **changes):
    return run_baseline(root, "pfastrexml", PfastreXML.Settings(**SETTINGS | changes), save_as)


def predictions(root):
    with np.load(root / "baselines" / "pfastrexml" / "predictions.npz") as content:
        return content["ids"]


@pytest.fixture(scope="module")
def result(run):
    return pfastrexml(run)


@pytest.fixture
def fresh(run, result, tmp_path):
    """A copy of the run without the baseline's results."""
    root = tmp_path / "run"
    shutil.copytree(run, root, ignore=shutil.ignore_patterns("baselines"))
    return root


def test_results_are_files_of_the_shape_of_solars(run, result):
    folder = run / "baselines" / "pfastrexml"
    assert {path.name for path in folder.iterdir()} == {
        "settings.json", "model", "predictions.npz", "metrics.json"
    }  # fmt: skip
    (row,) = result["rows"]
    assert row["P@1"] > 90
    wanted = {f"{name}@{k}" for name in ("P", "RP", "nDCG", "PSP") for k in (1, 3, 5, 10)}
    assert wanted | {"R@100", "setting", "score", "ms_query", "ms_single"} <= row.keys()
    assert row["model_bytes"] == folder_bytes(folder / "model")
    assert 1e6 < row["peak_memory"] <= peak_memory()
    saved = json.loads((folder / "metrics.json").read_text())
    assert saved["rows"] == result["rows"]


def test_metrics_are_those_of_the_saved_predictions(run, result):
    data = load_data(run)
    truth = data.test.labels.indptr, data.test.labels.indices
    for name, value in evaluate(predictions(run), *truth, data.inverse_propensity).items():
        assert result["rows"][0][name] == pytest.approx(value)


def test_complete_results_are_shown_again_and_not_computed(run, result, capsys):
    before = (run / "baselines" / "pfastrexml" / "metrics.json").stat().st_mtime_ns
    assert pfastrexml(run)["rows"] == result["rows"]
    assert (run / "baselines" / "pfastrexml" / "metrics.json").stat().st_mtime_ns == before
    out = capsys.readouterr().out
    assert "PfastreXML" in out and "Next:" in out and "fitting" not in out


def test_other_settings_in_the_same_folder_are_refused(run, result):
    with pytest.raises(UserError, match=r"num_trees=5, not 6: choose another --save_as"):
        pfastrexml(run, num_trees=6)
    assert pfastrexml(run, "two_trees", num_trees=2)["settings"]["num_trees"] == 2


def test_lost_predictions_are_made_again_without_fitting(run, result, capsys):
    (run / "baselines" / "pfastrexml" / "predictions.npz").unlink()
    again = pfastrexml(run)
    assert "fitting" not in capsys.readouterr().out
    for name in ("P@1", "P@5", "R@100"):
        assert again["rows"][0][name] == result["rows"][0][name]
    assert again["training_seconds"] == result["training_seconds"]


def test_filtered_labels_are_removed_before_the_cut(run, fresh, monkeypatch):
    monkeypatch.setattr(runner, "QUERIES_PER_BLOCK", 25)
    best = predictions(run)[:, 0]
    pairs = {"splits": np.arange(len(best) + 1), "labels": best.astype(np.int32)}
    write_arrays(fresh / "rows" / "test_filter.npz", pairs)
    pfastrexml(fresh)
    ids = predictions(fresh)
    assert not np.any(ids == best[:, None])
    assert ids.shape[1] == 40


def test_a_killed_fit_goes_on_and_ends_with_the_same_model(run, fresh):
    folder = fresh / "baselines" / "pfastrexml"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    flags = [f"--{name}={value}" for name, value in SETTINGS.items()]
    words = [sys.executable, "-m", "solar_tf", "baseline", "pfastrexml", f"--run={fresh}", *flags]
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(folder.glob("training/tree_*.npz")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = run_solar("baseline", "pfastrexml", f"--run={fresh}", *flags)
    assert done.returncode == 0, done.stderr
    for path in sorted((run / "baselines" / "pfastrexml" / "model").glob("*.npy")):
        np.testing.assert_array_equal(np.load(path), np.load(folder / "model" / path.name))


def test_the_command_explains_itself():
    assert "parabel, pfastrexml" in run_solar("baseline").stdout
    done = run_solar("baseline", "pfastrexml", "--help")
    assert "--num_trees" in done.stdout and "PfastreXML's paper" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("magic", "--run", "nowhere"), "'magic' is no baseline"),
        (("pfastrexml", "--run", "nowhere"), "no run here"),
        (("pfastrexml", "--run", "nowhere", "--num_trees", "0"), "num_trees must be above 0"),
    ],
)
def test_mistakes_are_answered_in_one_line(words, message, tmp_path):
    done = run_solar("baseline", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr and len(done.stderr.splitlines()) == 1
