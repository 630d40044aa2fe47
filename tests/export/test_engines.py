"""Real engines, in this process and as a server, against our own ranking."""

import contextlib
import importlib.util
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import solar_here

from solar_tf.cli import export as command
from solar_tf.errors import UserError
from solar_tf.export.engines import ENGINES, export
from solar_tf.export.vectors import LabelVectors, QueryVectors
from solar_tf.retrieval.searcher import Searcher

TEXTS = ["topic3 topic17 noise4", "topic0", "noise1 noise2 topic39 topic20"]


@contextlib.contextmanager
def milvus_server(folder):
    """milvus-lite as a server: real gRPC over a real port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--data-dir", folder]
    process = subprocess.Popen(
        [sys.executable, "-m", "milvus_lite", "server", *arguments], stdout=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert process.poll() is None, "the server has ended"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module", params=["qdrant", "milvus"])
def written(request, trained, tmp_path_factory):
    """An engine, and where it has the labels of the trained run."""
    target, folder = request.param, tmp_path_factory.mktemp(request.param)
    modules = {"qdrant": ["qdrant_edge"], "milvus": ["milvus_lite", "pymilvus"]}[target]
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install solar-tf[{target}]")
    place = contextlib.nullcontext(str(folder / "shard"))
    with place if target == "qdrant" else milvus_server(folder) as out:
        export(target, trained.paths.root, out)
        yield target, out


@pytest.mark.parametrize(("score", "m"), [("probability", 7), ("evidence", 24)])
def test_an_engine_finds_what_our_own_ranking_finds(written, trained, score, m):
    target, out = written
    engine, root, k = ENGINES[target](out, "solar"), trained.paths.root, 10
    searcher = Searcher(trained, (0, 1, 2))
    queries = QueryVectors(root, m=m, score=score)
    labels = LabelVectors(root)
    for text in TEXTS:
        vector = queries.encode(text)
        found = engine.search(*vector, k)
        expected = [hit.score for hit in searcher.search(text, k=k, m=m, score=score)]
        expected = [value for value in expected if value > 0]
        assert len(found) == len(expected) > 2
        np.testing.assert_allclose([value for _, value in found], expected, rtol=1e-5)
        # Which of equal labels come last is the engine's choice; all have their true scores.
        weights = np.zeros(labels.dim)
        weights[vector[0]] = vector[1]
        true = weights[labels.indices].sum(axis=1)
        np.testing.assert_allclose([true[label] for label, _ in found], expected, rtol=1e-5)
        assert len({label for label, _ in found}) == len(found)
    engine.close()


def test_the_command_answers_from_the_engine_and_overwrites_nothing(written, trained, capsys):
    target, out = written
    root = trained.paths.root
    assert solar_here("export", target, root, out, "--query", "topic3", "--top_buckets", 5) == 0
    assert "about topic3" in capsys.readouterr().out.splitlines()[2]
    with pytest.raises(UserError, match="not empty|exists already"):
        export(target, root, out)


def test_every_engine_is_a_target_and_queries_need_a_known_word(trained):
    assert {*ENGINES} == {*command.ENGINES}
    with pytest.raises(UserError, match="no word of 'xyzzy'"):
        QueryVectors(trained.paths.root).encode("xyzzy")
