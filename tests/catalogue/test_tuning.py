"""Fine-tuning on new rows, with labels that training has not seen."""

import itertools

import numpy as np
import pytest
from conftest import files_of, open_titles, solar_here, texts_and_labels

from solar_tf import Solar
from solar_tf.catalogue.tuning import _old_rows, tune
from solar_tf.errors import UserError
from solar_tf.operations.check import check
from solar_tf.retrieval.evaluation import infer
from solar_tf.run import changes


def test_new_labels_are_learned_and_the_old_ones_kept(changed_run, titles):
    root = changed_run.paths.root
    trained = files_of(root, "chunks")
    solar = Solar.load(root)
    label = int(solar.add_labels(["unheard of"], "hash")[0])
    test = texts_and_labels(open_titles(titles).test)
    before = solar.evaluate(*test, m=None)["P@1"]
    assert solar.search(["topic1 noise1"], k=1, m=None)[0][0].label == 1
    new = [f"topic1 noise{i}" for i in range(20)]
    assert solar.tune(new, [[label]] * 20, epochs=12, learning_rate=1e-2) is solar
    found = solar.search(["topic1 noise25"], k=2, m=None)[0]
    assert label in {hit.label for hit in found}
    assert solar.evaluate(*test, m=None)["P@1"] > before - 5
    assert files_of(root, "chunks") == trained
    assert check(root).problems == [] and check(root).others() == ([], [])
    # Stage 3 uses the tuned weights, too.
    rows = infer(root, top_buckets=(), scores=("evidence",))
    assert abs(rows[0]["P@1"] - solar.evaluate(*test, m=None)["P@1"]) < 1.5
    # Tuned again it goes on from there; the weights before are gone.
    solar.tune(new, [[label]] * 20, epochs=1)
    assert len(list(changed_run.paths.tuned_folder.iterdir())) == 1


def test_old_rows_are_a_sample_of_the_training_rows(preprocessed):
    (some,) = _old_rows(preprocessed, 50, seed=0)
    (everything,) = _old_rows(preprocessed, 10**6, seed=0)
    assert (len(some), len(everything)) == (50, 600)
    splits, labels = everything.labels
    rows = {tuple(labels[a:b]) for a, b in itertools.pairwise(splits)}
    splits, labels = some.labels
    assert {tuple(labels[a:b]) for a, b in itertools.pairwise(splits)} <= rows


def test_what_cannot_be_tuned(changed_run, trained_runs):
    Y = np.array([0, 1]), np.array([99], np.int32)
    with pytest.raises(UserError, match="label 99 is not below the 40 labels: add it first"):
        tune(changed_run.paths.root, ["x"], Y)
    with pytest.raises(UserError, match="dense features"):
        tune(trained_runs["dense"].paths.root, ["x"], Y)
    with pytest.raises(UserError, match="no negative replay"):
        tune(changed_run.paths.root, ["x"], Y, replay=-1)
    assert changes.read_delta(changed_run).tuned is None


def test_the_command(changed_run, tmp_path, capsys):
    (tmp_path / "rows.txt").write_text("3\ttopic5 anew\n" * 5)
    assert solar_here("tune", changed_run.paths.root, tmp_path / "rows.txt", "--epochs", 1) == 0
    said = capsys.readouterr().out
    assert "| new rows | " in said and "Next: infer.py" in said
    assert changes.read_delta(changed_run).tuned == 1
    assert solar_here("tune", changed_run.paths.root, changed_run.paths.config) == 1
    assert capsys.readouterr().err.startswith("error: ")
