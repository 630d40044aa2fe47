"""The exported encoder against the searcher, which is held to the trainer by test_search."""

import numpy as np
import pytest

from solar_tf.cli.solar import main
from solar_tf.errors import UserError
from solar_tf.export import saved_model
from solar_tf.preprocessing import hashing
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.ranking import top_buckets
from solar_tf.retrieval.searcher import open_searcher

TEXTS = ["topic1 topic2 noise3", "topic7", "topic7 topic7 topic8 unheard", "unheard"]


def test_hashes_are_those_of_training():
    tf = pytest.importorskip("tensorflow")
    ids = np.random.default_rng(0).integers(0, 2**31 - 1, 5000).astype(np.int32)
    for seed, width in ((0, 40_000), (15, 100_000), (2**32 - 1, 7)):
        found = saved_model.hash_ids(tf.constant(ids), seed, width).numpy()
        np.testing.assert_array_equal(found, hashing.hash_ids(ids, seed, width))


@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
def test_the_model_answers_as_the_run_does(trained_runs, tmp_path, capsys, weighting):
    import tensorflow as tf

    run = trained_runs[weighting]
    main(["export", "saved_model", str(run.paths.root), str(tmp_path / "model")])
    assert "saved_model_cli" in capsys.readouterr().out
    model = tf.saved_model.load(str(tmp_path / "model"))
    searcher = open_searcher(run.paths.root)
    splits, ids, values = searcher.vocabulary.encode(TEXTS)
    inputs = {
        "ids": tf.constant(ids),
        "values": tf.constant(values),
        "row_splits": tf.constant(splits.astype(np.int32)),
    }
    found = model.signatures["serving_default"](**inputs)["probabilities"].numpy()
    for row, of_text in enumerate(searcher.find(TEXTS[:3], SearchOptions())):
        expected = of_text.trace.probabilities
        np.testing.assert_allclose(found[row], expected, rtol=2e-4, atol=1e-6)
    top = model.signatures["top_buckets"](**inputs, m=tf.constant(5))
    buckets, best = top_buckets(found.reshape(-1, found.shape[2]), 5)
    np.testing.assert_array_equal(top["buckets"].numpy().reshape(-1, 5), buckets)
    np.testing.assert_array_equal(top["values"].numpy().reshape(-1, 5), best)
    words = model.vocabulary.asset_path.numpy()
    with open(words, "rb") as file:
        assert file.read() == run.paths.vocabulary.read_bytes()


def test_dense_inputs_are_one_array(trained_runs, tmp_path):
    import tensorflow as tf

    run = trained_runs["dense"]
    saved_model.export(run.paths.root, tmp_path / "model", num_chunks=1)
    model = tf.saved_model.load(str(tmp_path / "model"))
    rows = np.random.default_rng(1).normal(size=(7, run.input_dim)).astype(np.float32)
    found = model.signatures["probabilities"](dense=tf.constant(rows))["probabilities"].numpy()
    searcher = open_searcher(run.paths.root, 1)
    expected, values = searcher.top_buckets(searcher.inputs(rows), 3)
    assert found.shape == (7, 1, run.config.num_buckets)
    got, best = top_buckets(found[:, 0], 3)
    np.testing.assert_allclose(best, values[:, 0], rtol=1e-4)
    assert np.mean(got == expected[:, 0]) > 0.9  # rounding may swap near ties


def test_nothing_is_overwritten(trained_runs, tmp_path):
    with pytest.raises(UserError, match="is there already"):
        saved_model.export(trained_runs["counts"].paths.root, tmp_path)
