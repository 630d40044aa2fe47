"""Queries, one and many, against stage 3 and against plain arithmetic."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, stage

from solar_tf import Solar
from solar_tf.errors import UserError
from solar_tf.retrieval import evaluation, pipeline, ranking
from solar_tf.retrieval.encoder import CompiledEncoder, TensorFlowEncoder
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.ranking import LabelFilter
from solar_tf.retrieval.reference import rank_simple
from solar_tf.retrieval.searcher import Searcher, answer
from solar_tf.run.files import read_arrays


@pytest.fixture(scope="module")
def searcher(trained):
    return Searcher(trained, trained.choose_chunks())


@pytest.fixture(scope="module")
def predictions(trained):
    evaluation.infer(trained.paths.root, top_buckets=(7,), top_labels=5)
    return read_arrays(trained.paths.predictions(), "infer.py")


@pytest.fixture(scope="module")
def queries(titles):
    return [line.rstrip("\n").split("\t")[1] for line in (titles / "test.txt").open()]


@pytest.mark.parametrize("score", ranking.SCORES)
@pytest.mark.parametrize("m", [7, None])
def test_many_queries_have_the_rankings_of_the_evaluation(predictions, trained, queries, m, score):
    found = Solar.load(trained.paths.root).predict(queries, 5, m, score)
    key = SearchOptions(m=m, score=score).key
    for name, array in zip(("ids", "scores"), found, strict=True):
        np.testing.assert_array_equal(array, predictions[f"{key}_{name}"])


def test_one_query_answers_as_the_evaluation_does(predictions, queries, searcher):
    for row in range(40):
        found = searcher.search(queries[row], k=5, m=7, score="evidence")
        scores = predictions["m=7_evidence_scores"][row]
        np.testing.assert_allclose([hit.score for hit in found], scores, rtol=1e-4, atol=1e-4)
        clear = np.diff(scores, prepend=np.inf) < -1e-3  # rounding may swap near ties
        ids = predictions["m=7_evidence_ids"][row]
        assert all(found[i].label == ids[i] for i in range(4) if clear[i] and clear[i + 1])


def test_tensorflow_encodes_many_queries_or_where_it_is_loaded_anyway(searcher, monkeypatch):
    choose = searcher.pipeline.encoder
    assert isinstance(choose(pipeline.FEW), CompiledEncoder)
    assert isinstance(choose(pipeline.FEW + 1), TensorFlowEncoder)
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert isinstance(choose(pipeline.MOST_COMPILED), CompiledEncoder)
    assert isinstance(choose(pipeline.MOST_COMPILED + 1), TensorFlowEncoder)


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


def test_searching_loads_no_tensorflow(trained):
    code = (
        "import sys\n"
        "from solar_tf.retrieval.searcher import open_searcher\n"
        "found = open_searcher(sys.argv[1]).search_batch(['topic3'] * 64, m=7)\n"
        "assert len(found) == 64 and found[63][0].title == 'about topic3'\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, trained.paths.root], cwd=ROOT, check=True)


TEXTS = [f"topic{i} topic{(i * 7 + 1) % 40} noise{i % 30}" for i in range(60)] + ["unheard of"]


@pytest.mark.parametrize("score", ranking.SCORES)
@pytest.mark.parametrize("m", [5, None])
@pytest.mark.parametrize("filtered", [True, False])
def test_hits_and_candidates_are_those_of_the_reference(searcher, m, score, filtered):
    options, label_filter = {}, None
    if filtered:
        least = 0.02 if score == "probability" else 2.0
        options = {"allow": range(0, 40, 2), "deny": [4, 8], "min_chunks": 2, "threshold": least}
        allowed = np.isin(np.arange(40), [0, 2, 6, *range(10, 40, 2)])
        label_filter = LabelFilter(allowed, 2, least)
    labels, texts = searcher.labels, TEXTS[:30]
    answers = searcher.find(texts, SearchOptions(40, m, score, **options))
    for hits, candidates, trace in answers:
        index = trace.probabilities, labels.offsets, labels.labels
        best, scores, count = rank_simple(*index, 40, m, score, label_filter=label_filter)
        assert [hit.label for hit in hits] == best.tolist()
        assert [hit.score for hit in hits] == scores.tolist()
        assert candidates == count
        for hit in hits:
            np.testing.assert_allclose(sum(hit.evidence), hit.score, rtol=1e-5)
            assert hit.chunks == np.count_nonzero(hit.evidence)
    found = searcher.search_batch(texts, 40, m, score, **options)
    assert [answer.hits for answer in answers] == found


def test_a_batch_answers_as_single_queries_do(searcher):
    batch = searcher.search_batch(TEXTS, k=3, m=7)
    assert batch[-1] == []
    for text, hits in zip(TEXTS, batch, strict=True):
        alone = searcher.search(text, k=3, m=7)
        scores, before = ([hit.score for hit in some] for some in (alone, hits))
        np.testing.assert_allclose(scores, before, rtol=1e-4)
        assert {hit.title for hit in alone} <= {f"about topic{i}" for i in range(40)}


@pytest.mark.parametrize("loaded", [True, False], ids=["TensorFlow", "compiled"])
@pytest.mark.parametrize("m", [6, None])
def test_blocks_and_threads_change_nothing(trained, monkeypatch, loaded, m):
    if not loaded:
        monkeypatch.delitem(sys.modules, "tensorflow")
    one = Searcher(trained, trained.choose_chunks(), threads=1).search_batch(TEXTS, k=5, m=m)
    monkeypatch.setattr(pipeline, "MOST_QUERIES", 7)
    three = Searcher(trained, trained.choose_chunks(), threads=3).search_batch(TEXTS, k=5, m=m)
    for hits, expected in zip(three, one, strict=True):
        scores, wanted = ([hit.score for hit in part] for part in (hits, expected))
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
        ({"threshold": float("nan")}, "the least score"),
        ({"allow": [99]}, "label 99 is not within 0 and 39"),
    ],
)
def test_bad_options_say_what_is_wrong(searcher, options, message):
    with pytest.raises(UserError, match=message):
        searcher.search("topic1", **options)


def test_queries_must_be_of_the_runs_kind(searcher):
    with pytest.raises(UserError, match="a run of titles, and the queries are dense features"):
        searcher.search_batch(np.zeros((2, 3)))
