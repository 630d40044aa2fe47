"""Single queries, against stage 3's own forward pass."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, stage

from solar_tf.errors import UserError
from solar_tf.retrieval import evaluation
from solar_tf.retrieval.searcher import Searcher, answer
from solar_tf.run.files import read_arrays


@pytest.fixture(scope="module")
def searcher(trained):
    return Searcher(trained, trained.choose_chunks())


def test_a_query_answers_as_the_evaluation_does(titles, trained, searcher):
    evaluation.infer(trained.paths.root, top_buckets=(7,), full=False, top_labels=5)
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
    code = "import sys, solar_tf.retrieval.searcher; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


TEXTS = [f"topic{i} topic{(i * 7 + 1) % 40} noise{i % 30}" for i in range(60)] + ["unheard of"]


def plain_scores(searcher, text, m, score):
    """Scores and chunks of all labels by plain arithmetic: [N], [N]."""
    labels, weights = searcher._state.labels, searcher.encode(text)
    total, chunks = np.zeros(labels.num_labels), np.zeros(labels.num_labels, int)
    for row, buckets in zip(weights, labels.label_buckets, strict=True):
        terms = np.log(np.maximum(row, 1e-4) / 1e-4) if score == "evidence" else row
        if m is not None:
            kept = np.argsort(-row, kind="stable")[:m]
            terms = np.where(np.isin(np.arange(len(row)), kept), terms, 0)
        total += terms[buckets]
        chunks += terms[buckets] > 0
    return total, chunks


@pytest.mark.parametrize("score", ["probability", "evidence"])
@pytest.mark.parametrize("m", [5, None])
def test_hits_within_limits_are_those_of_plain_arithmetic(searcher, m, score):
    allow, deny = np.arange(0, 40, 2), [4, 8]
    threshold = 0.02 if score == "probability" else 2.0
    found = searcher.search_batch(
        TEXTS[:20], 40, m, score, allow=allow, deny=deny, min_chunks=2, threshold=threshold
    )
    for text, hits in zip(TEXTS[:20], found, strict=True):
        total, chunks = plain_scores(searcher, text, m, score)
        good = [
            label
            for label in np.setdiff1d(allow, deny)
            if chunks[label] >= 2 and total[label] >= threshold
        ]
        assert {hit.label for hit in hits} == {*good}
        for hit in hits:
            np.testing.assert_allclose(hit.score, total[hit.label], rtol=1e-4)
            np.testing.assert_allclose(sum(hit.evidence), hit.score, rtol=1e-5)
            assert hit.chunks == chunks[hit.label] == np.count_nonzero(hit.evidence)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_batch_answers_as_single_queries_do(searcher):
    batch = searcher.search_batch(TEXTS, k=3, m=7)
    assert batch[-1] == []
    for text, hits in zip(TEXTS, batch, strict=True):
        alone = searcher.search(text, k=3, m=7)
        scores, before = ([hit.score for hit in some] for some in (alone, hits))
        np.testing.assert_allclose(scores, before, rtol=1e-4)
        assert {hit.title for hit in alone} <= {f"about topic{i}" for i in range(40)}


def test_blocks_and_threads_change_nothing(trained, monkeypatch):
    one = Searcher(trained, trained.choose_chunks(), threads=1)
    expected = one.search_batch(TEXTS, k=5, m=6), one.search_batch(TEXTS, k=5, m=None)
    three = Searcher(trained, trained.choose_chunks(), threads=3)
    monkeypatch.setattr("solar_tf.retrieval.searcher.MOST_QUERIES", 7)
    found = three.search_batch(TEXTS, k=5, m=6), three.search_batch(TEXTS, k=5, m=None)
    for some, others in zip(found, expected, strict=True):
        for hits, before in zip(some, others, strict=True):
            scores, wanted = ([hit.score for hit in part] for part in (hits, before))
            np.testing.assert_allclose(scores, wanted, rtol=1e-4)


def test_threads_may_share_a_searcher(searcher):
    from concurrent.futures import ThreadPoolExecutor

    expected = [searcher.search(text, m=7) for text in TEXTS]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: searcher.search(text, m=7), TEXTS)) == expected


def test_explanations_can_be_left_out(searcher):
    hit = searcher.search("topic1", k=1, m=7, explain=False)[0]
    assert (hit.chunks, hit.evidence) == (None, ())
    assert hit.score == searcher.search("topic1", k=1, m=7)[0].score


def test_neighbours_are_found_by_title_and_are_others(searcher):
    found = searcher.neighbours(7, k=4, m=None)
    assert len(found) == 4 and 7 not in {hit.label for hit in found}
    assert searcher.search("about topic7", k=1)[0].label == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "at least one label"),
        ({"m": 0}, "at least one bucket"),
        ({"score": "odds"}, "choose one of probability, evidence"),
        ({"floor": 0}, "above 0"),
        ({"allow": [99]}, "label 99 is not within 0 and 39"),
    ],
)
def test_bad_options_say_what_is_wrong(searcher, options, message):
    with pytest.raises(UserError, match=message):
        searcher.search("topic1", **options)


def test_queries_must_be_of_the_runs_kind(searcher):
    with pytest.raises(UserError, match="a run of titles, and the queries are dense features"):
        searcher.search_batch(np.zeros((2, 3)))
