"""Forward passes of stage 3 by mapped weights, and the work beside them."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import files_of

from solar_tf.retrieval import forward
from solar_tf.retrieval.encoder import TensorFlowEncoder
from solar_tf.retrieval.forward import BlockForward, query_batches
from solar_tf.retrieval.rankers import RankFiles
from solar_tf.retrieval.ranking import top_buckets
from solar_tf.run.files import read_arrays
from solar_tf.training.model import open_chunk

QUERIES = 0, 120


def probabilities(run, chunk, batch):
    """By the Keras model that was trained."""
    model = open_chunk(run, chunk)
    return tf.function(lambda batch: tf.sigmoid(model(batch)))(batch).numpy()


def test_scores_are_those_of_the_model_of_each_chunk_and_leave_its_files_alone(trained):
    before = files_of(trained.paths.root, "chunks")
    encoder = TensorFlowEncoder(trained)
    networks = [encoder.load(trained.paths.chunk(chunk)) for chunk in range(3)]
    for chunk, network in enumerate(networks):
        for batch in query_batches(trained, chunk, *QUERIES, batch_size=50):
            assert set(batch) == {"ids", "values", "row_splits"}
            expected = probabilities(trained, chunk, batch)
            np.testing.assert_array_equal(network(batch), expected)
    assert files_of(trained.paths.root, "chunks") == before


@pytest.fixture
def block(trained, tmp_path, monkeypatch):
    """A block of all test queries, whose files lie in a folder of the test's own."""
    folder = tmp_path / "topm"
    place = lambda self, block, chunk: folder / f"{block}_{chunk}.npz"  # noqa: E731
    monkeypatch.setattr(type(trained.paths), "topm", place)
    files = RankFiles(tmp_path, (0, 1, 2), ((0, 40),))
    encoder, weights = TensorFlowEncoder(trained), trained.paths.chunk
    return BlockForward(encoder, trained, weights, files, 0, QUERIES, 5, False, batch_size=50)


def test_every_chunk_leaves_its_top_buckets_for_later_and_for_the_rankers(block, trained):
    costs = block.do({0: "a", 2: "c"})
    assert costs["forward"] > 0
    assert costs["top_m"] > 0
    for chunk, key in ((0, "a"), (2, "c")):
        saved = read_arrays(trained.paths.topm(0, chunk), "infer.py")
        batch = next(iter(query_batches(trained, chunk, *QUERIES)))
        expected = top_buckets(probabilities(trained, chunk, batch), 5)
        assert str(saved["key"]) == key
        for name, array in zip(("buckets", "values"), expected, strict=True):
            np.testing.assert_allclose(saved[name], array, rtol=1e-6)
            mapped = np.load(block.files.queries(name, chunk))
            np.testing.assert_array_equal(mapped, saved[name])
    assert not trained.paths.topm(0, 1).exists()


def test_what_is_there_under_its_key_is_not_done_again(block, trained, monkeypatch):
    first = block.do({0: "a", 1: "b"})
    loaded = []
    monkeypatch.setattr(TensorFlowEncoder, "load", lambda self, folder: loaded.append(folder))
    assert block.do({0: "a", 1: "b"}) == first
    assert not loaded


def test_an_error_of_the_thread_beside_arrives(block, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(forward, "write_arrays", fail)
    with pytest.raises(OSError, match="No space left"):
        block.do({0: "a", 1: "b"})
