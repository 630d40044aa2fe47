"""Runs in fewer bits."""

import numpy as np
import pytest

from solar_tf import catalogue
from solar_tf.cli.solar import main
from solar_tf.errors import UserError
from solar_tf.export import quantized
from solar_tf.operations.check import check
from solar_tf.retrieval.searcher import open_searcher

TEXTS = [f"topic{i} topic{(i * 7 + 1) % 40} noise{i % 30}" for i in range(40)]


def stored_bytes(run):
    return sum(path.stat().st_size for path in run.paths.chunks.rglob("*.npy"))


@pytest.mark.parametrize(
    ("precision", "smaller", "close"), [("float16", 1.9, 2e-3), ("int8", 3.2, 5e-2)]
)
@pytest.mark.parametrize("kind", ["tfidf", "dense"])
def test_a_smaller_run_answers_nearly_as_the_run_does(
    trained_runs, tmp_path, capsys, precision, smaller, close, kind
):
    run, out = trained_runs[kind], tmp_path / "small"
    main(["export", "quantized", str(run.paths.root), str(out), "--precision", precision])
    assert "times smaller" in capsys.readouterr().out
    assert check(out).problems == [] and check(out).others() == ([], [])
    before, after = open_searcher(run.paths.root), open_searcher(out)
    if kind == "tfidf":  # the headers of smaller files weigh too much
        assert stored_bytes(run) > smaller * stored_bytes(after.run)
    rows = TEXTS
    if kind == "dense":
        rows = np.random.default_rng(2).normal(size=(40, run.input_dim)).astype(np.float32)
    for queries in (rows, rows[:1]):  # the two ways through the output layer
        expected = before.search_batch(queries, k=3, m=7)
        found = after.search_batch(queries, k=3, m=7)
        best, best_before = ([hits[0].score for hits in some] for some in (found, expected))
        np.testing.assert_allclose(best, best_before, rtol=close)


def test_changes_of_the_catalogue_come_along(changed_run, tmp_path):
    catalogue.add_labels(changed_run.paths.root, ["topic1 topic2 anew"])
    catalogue.remove_labels(changed_run.paths.root, [3])
    quantized.export(changed_run.paths.root, tmp_path / "small", "float16")
    searcher = open_searcher(tmp_path / "small")
    assert searcher.title(40) == "topic1 topic2 anew"
    assert 3 not in {hit.label for hit in searcher.search("topic3", k=40, m=None)}
    assert 40 in {hit.label for hit in searcher.search("topic1 topic2", k=5)}


def test_nothing_is_overwritten(trained_runs, tmp_path):
    with pytest.raises(UserError, match="is there already"):
        quantized.export(trained_runs["counts"].paths.root, tmp_path)
