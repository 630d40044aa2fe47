"""An opened run: the same answers as offline, changes, and damage that is found out."""

import numpy as np
import pytest

from solar_tf import catalogue
from solar_tf.retrieval.options import SearchOptions as Options
from solar_tf.retrieval.searcher import open_searcher
from solar_tf.serving.engine import Engine
from solar_tf.serving.refusals import Refusal


def labels_of(answer):
    return [(found["label"], found["title"], found["score"]) for found in answer.labels]


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(m=3, score="probability"),
        Options(m=None, deny=(3, 4)),
        Options(allow=(1, 2, 3), min_chunks=2, threshold=1.0),
    ],
)
def test_it_answers_as_the_search_does(trained, options):
    engine, searcher = Engine(trained.paths.root), open_searcher(trained.paths.root)
    texts = ["topic3 topic4", "topic7", "xyzzy"]
    choices = vars(options) | {"k": 5}
    found = searcher.search_batch(texts, **choices)
    for answer, text, hits in zip(engine.search(texts, 5, options), texts, found, strict=True):
        assert labels_of(answer) == [(hit.label, hit.title, hit.score) for hit in hits]
        assert answer.query == text


def test_added_labels_are_found_and_removed_ones_are_not(copied_run):
    engine = Engine(copied_run)
    (new,) = engine.add(["topic3 topic4 anew"], "content")
    assert new == 40 and engine.label(new)["title"] == "topic3 topic4 anew"
    options = Options(m=7)
    found = [found["label"] for found in engine.search(["topic3 topic4"], 10, options)[0].labels]
    assert new in found[2:] and {*found[:2]} == {3, 4}  # it does not outdo trained labels
    assert engine.remove([new, 3]) == [3, new]
    found = [found["label"] for found in engine.search(["topic3 topic4"], 40, options)[0].labels]
    assert not {new, 3} & {*found} and 4 in found
    assert engine.remove([3]) == [3]  # again is no error


def test_changes_by_another_process_are_taken_up(copied_run):
    engine = Engine(copied_run)
    assert not engine.refresh()
    catalogue.add_labels(copied_run, ["topic9 elsewhere"])
    assert engine.num_labels == 40
    assert engine.refresh() and engine.num_labels == 41
    assert not engine.refresh()


def test_labels_that_are_not_there_are_refused(trained):
    engine = Engine(trained.paths.root)
    calls = (
        lambda: engine.title(40),
        lambda: engine.remove([40]),
        lambda: engine.search(["topic3"], 1, Options(deny=(40,))),
        lambda: engine.search(["topic3"], 1, Options(allow=(999,))),
    )
    for call in calls:
        with pytest.raises(Refusal) as refusal:
            call()
        assert refusal.value.status_code == 404


def test_it_opens_at_once_and_verifies_afterwards(copied_run):
    engine = Engine(copied_run)
    assert engine.health == "verifying"
    engine.verify()
    assert (engine.health, engine.detail) == ("ok", "all 3 chunks verified")


def test_damaged_weights_are_found_out_and_nothing_is_answered_any_more(copied_run):
    path = copied_run / "chunks/chunk_01/output_kernel.npy"
    weights = np.load(path)
    weights[0, 0] += 1
    np.save(path, weights)
    engine = Engine(copied_run)
    engine.verify()
    assert engine.health == "damaged" and str(path) in engine.detail
    with pytest.raises(Refusal) as refusal:
        engine.search(["topic3"], 1, Options())
    assert refusal.value.status_code == 503


def test_facts_are_those_of_the_run(trained):
    facts = Engine(trained.paths.root, num_chunks=2).facts()
    assert (facts["labels"], facts["chunks"], facts["buckets"]) == (40, 2, 24)
    assert len(facts["examples"]) == 5 and all("topic" in title for title in facts["examples"])
