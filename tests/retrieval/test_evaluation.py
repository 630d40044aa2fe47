"""Stage 3 against a dense oracle, and its promises about files."""

import json
import shutil

import numpy as np
import pytest

from solar_tf.errors import UserError
from solar_tf.preprocessing.hashing import label_buckets
from solar_tf.retrieval import evaluation, ranking
from solar_tf.retrieval.metrics import evaluate
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_arrays
from solar_tf.run.weights import NAMES

NUM_QUERIES = 120


def dense_scores(run, score, m=None):
    """Scores of every label from the weights alone, in numpy. [Q, N]"""
    rows = read_arrays(run.paths.rows("test", 0), "preprocess.py")
    total = np.zeros((NUM_QUERIES, run.dataset["num_labels"]))
    for chunk, seed in enumerate(run.seeds):
        folder = run.paths.chunk(chunk)
        inputs = np.zeros((NUM_QUERIES, run.config.feature_dim))
        hashed = label_buckets(run.dataset["num_features"], seed, run.config.feature_dim)
        row_ids = np.repeat(np.arange(NUM_QUERIES), np.diff(rows["feature_splits"]))
        np.add.at(inputs, (row_ids, hashed[rows["features"]]), rows["values"])
        weights = [np.load(folder / f"{name}.npy") for name in NAMES]
        hidden = np.maximum(inputs @ weights[0] + weights[1], 0)
        p = 1 / (1 + np.exp(-(hidden @ weights[2] + weights[3])))
        gains = p if score == "probability" else np.log(np.maximum(p, 1e-4) / 1e-4)
        if m:
            gains = np.where(p >= np.sort(p, axis=1)[:, -m, None], gains, 0)
        total += gains[:, label_buckets(run.dataset["num_labels"], seed, run.config.num_buckets)]
    return total


def truth(run):
    rows = read_arrays(run.paths.rows("test", 0), "preprocess.py")
    return rows["label_splits"], rows["labels"]


@pytest.fixture(scope="module")
def results(trained):
    buckets = trained.config.num_buckets
    rows = evaluation.infer(trained.paths.root, top_buckets=(buckets, 7, 1), workers=1)
    return rows, read_arrays(trained.paths.predictions(), "infer.py")


def test_the_planted_answer_is_found(results):
    rows, _ = results
    by_setting = {(row["setting"], row["score"]): row for row in rows}
    assert by_setting["full", "probability"]["P@1"] > 90
    assert by_setting["full", "evidence"]["P@1"] > 90
    assert by_setting["m=7", "evidence"]["RP@3"] > 85


@pytest.mark.parametrize("score", ranking.SCORES)
def test_all_buckets_and_full_agree_bit_for_bit(results, trained, score):
    _, predictions = results
    m = trained.config.num_buckets
    for what in ("ids", "scores"):
        full = predictions[f"full_{score}_{what}"]
        np.testing.assert_array_equal(full, predictions[f"m={m}_{score}_{what}"])


@pytest.mark.parametrize("score", ranking.SCORES)
@pytest.mark.parametrize("m", [None, 7, 1])
def test_scores_equal_a_dense_oracle(results, trained, score, m):
    _, predictions = results
    name = f"m={m}" if m else "full"
    ids, scores = (predictions[f"{name}_{score}_{what}"] for what in ("ids", "scores"))
    expected = dense_scores(trained, score, m)
    found = ids >= 0
    rows = np.nonzero(found)[0]
    np.testing.assert_allclose(scores[found], expected[rows, ids[found]], atol=2e-4)
    best = -np.sort(-expected, axis=1)[:, : ids.shape[1]]
    np.testing.assert_allclose(np.where(found, scores, 0), np.where(found, best, 0), atol=2e-4)


def test_metrics_are_those_of_the_saved_predictions(results, trained):
    rows, predictions = results
    for row in rows:
        expected = evaluate(predictions[f"{row['setting']}_{row['score']}_ids"], *truth(trained))
        for name, value in expected.items():
            assert row[name] == pytest.approx(value), name


def test_all_labels_are_candidates_of_full_and_one_bucket_a_chunk_of_m_1(results, trained):
    rows, _ = results
    by_setting = {row["setting"]: row for row in rows if row["score"] == "evidence"}
    assert by_setting["full"]["candidates"] == trained.dataset["num_labels"]
    assert 0 < by_setting["m=1"]["candidates"] < by_setting["m=7"]["candidates"]


def test_a_subset_of_chunks_needs_no_retraining_and_keeps_the_other_results(results, trained):
    before = trained.paths.metrics().read_bytes()
    rows = evaluation.infer(trained.paths.root, top_buckets=(7,), num_chunks=2)
    assert json.loads(trained.paths.metrics(2).read_text())["num_chunks"] == 2
    assert trained.paths.metrics().read_bytes() == before
    assert len(rows) == 4


def copy_run(run, folder):
    shutil.copytree(run.paths.root, folder, dirs_exist_ok=True)
    return open_run(folder)


def test_workers_and_blocks_do_not_change_the_predictions(results, trained, tmp_path, monkeypatch):
    _, predictions = results
    run = copy_run(trained, tmp_path)
    monkeypatch.setattr(evaluation, "BATCH_SIZE", 50)
    buckets = trained.config.num_buckets
    evaluation.infer(tmp_path, top_buckets=(buckets, 7, 1), workers=2, scratch_bytes=1)
    blocks = {path.name for path in run.paths.topm_folder.glob("block_*_chunk_00.npz")}
    assert len(blocks) == 3
    again = read_arrays(run.paths.predictions(), "infer.py")
    assert again.keys() == predictions.keys()
    for name, expected in predictions.items():
        if name.endswith("ids"):
            np.testing.assert_array_equal(again[name], expected, err_msg=name)
        else:
            # Products of other batches are rounded otherwise, on some processors.
            np.testing.assert_allclose(again[name], expected, rtol=1e-5, err_msg=name)
    assert not run.paths.scratch.exists()


def test_a_second_run_repeats_nothing_and_new_weights_repeat_all(results, trained, tmp_path):
    run = copy_run(trained, tmp_path)
    evaluation.infer(tmp_path, top_buckets=(7,), full=False)
    stamp = run.paths.metrics().stat().st_mtime_ns
    evaluation.infer(tmp_path, top_buckets=(7,), full=False)
    assert run.paths.metrics().stat().st_mtime_ns == stamp
    shutil.rmtree(run.paths.chunk(0))
    shutil.copytree(run.paths.chunk(1), run.paths.chunk(0))
    before = run.paths.predictions().read_bytes()
    evaluation.infer(tmp_path, top_buckets=(7,), full=False)
    assert run.paths.predictions().read_bytes() != before


def test_shards_of_the_labels_give_the_same_predictions(results, trained, tmp_path):
    run = copy_run(trained, tmp_path)
    shutil.rmtree(run.paths.topm_folder)
    run.paths.predictions().unlink()
    buckets = run.config.num_buckets
    evaluation.infer(tmp_path, top_buckets=(buckets, 7, 1), workers=1, label_shards=3)
    assert run.paths.predictions().read_bytes() == trained.paths.predictions().read_bytes()


def test_untrained_and_missing_chunks_are_clear_errors(preprocessed, trained, tmp_path):
    with pytest.raises(UserError, match=r"0 of 3 chunks are trained: run train.py"):
        evaluation.infer(preprocessed.paths.root)
    run = copy_run(trained, tmp_path)
    shutil.rmtree(run.paths.chunk(1))
    with pytest.raises(UserError, match=r"--num_chunks 2"):
        evaluation.infer(tmp_path)
    assert run.choose_chunks(2) == (0, 2)
    with pytest.raises(UserError, match="this run has 3 chunks"):
        evaluation.infer(tmp_path, num_chunks=4)
