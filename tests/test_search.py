"""Single queries, against stage 3's own forward pass."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, stage

from solar_tf import inference
from solar_tf.errors import UserError
from solar_tf.rundir import read_arrays
from solar_tf.search import Searcher, answer


@pytest.fixture(scope="module")
def searcher(trained):
    return Searcher(trained, trained.choose_chunks())


def test_a_query_answers_as_the_evaluation_does(titles, trained, searcher):
    inference.infer(trained.paths.root, top_buckets=(7,), full=False, top_labels=5)
    predictions = read_arrays(trained.paths.predictions(), "infer.py")
    lines = (titles / "test.txt").read_text().splitlines()
    for row in range(40):
        found = searcher.search(lines[row].split("\t")[1], k=5, m=7, score="evidence")
        scores = predictions["m=7_evidence_scores"][row]
        np.testing.assert_allclose([hit.score for hit in found], scores, rtol=1e-4, atol=1e-4)
        clear = np.diff(scores, prepend=np.inf) < -1e-3  # rounding may swap near ties
        ids = predictions["m=7_evidence_ids"][row]
        assert all(found[i].label == ids[i] for i in range(4) if clear[i] and clear[i + 1])


def test_results_have_titles(trained, capsys):
    found = answer(trained.paths.root, "Topic7, topic8!", m=7, k=2)
    assert {hit.title for hit in found} == {"about topic7", "about topic8"}
    assert "about topic7" in capsys.readouterr().out


def test_a_query_of_unknown_words_is_a_clear_error(trained):
    with pytest.raises(UserError, match="vocabulary"):
        answer(trained.paths.root, "xyzzy")


def test_infer_answers_a_query_from_the_command_line(trained):
    done = stage(
        "infer", "--run", trained.paths.root, "--query", "topic3 topic4", "--top_buckets=7"
    )
    assert "about topic3" in done.stdout and "about topic4" in done.stdout
    assert done.stderr == ""


def test_searching_needs_no_tensorflow():
    code = "import sys, solar_tf.search; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
