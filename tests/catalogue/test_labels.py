"""Labels that come and go, through every program that looks at them."""

import numpy as np
import pytest
from conftest import SMALL, open_titles, solar_here, texts_and_labels

from solar_tf import Solar
from solar_tf.catalogue import labels as catalogue
from solar_tf.errors import UserError
from solar_tf.operations.check import check
from solar_tf.preprocessing import hashing
from solar_tf.retrieval.evaluation import infer
from solar_tf.retrieval.searcher import answer, open_searcher
from solar_tf.run import changes
from solar_tf.run.files import read_arrays


def test_labels_placed_by_content_are_found_and_those_by_hash_are_where_training_would_look(
    changed_run,
):
    root = changed_run.paths.root
    searcher = open_searcher(root)
    new = catalogue.add_labels(root, ["a topic5 guide", "a topic9 guide"], share=1.0)
    assert new.tolist() == [40, 41]
    assert catalogue.add_labels(root, ["a topic5 book"], "hash").tolist() == [42]
    assert searcher.num_labels == 40
    assert searcher.reload() and not searcher.reload()
    assert searcher.num_labels == 43
    found = {hit.title: hit for hit in searcher.search("topic5", k=43, m=None)}
    best = list(found.values())
    assert {hit.label for hit in best[:2]} == {5, 40}
    assert best[1].chunks == 3
    assert found["a topic5 guide"].score > found["a topic5 book"].score
    buckets = searcher._state.labels.label_buckets[:, 42]
    assert buckets.tolist() == [hashing.hash_ids([42], seed, 24)[0] for seed in (0, 1, 2)]
    assert check(root).problems == [] and check(root).others() == ([], [])


def test_removed_labels_are_found_no_more(changed_run):
    root = changed_run.paths.root
    assert catalogue.remove_labels(root, [5, 5, 6]) == 2
    assert catalogue.remove_labels(root, [6]) == 0
    searcher = open_searcher(root)
    for m in (7, None):
        found = searcher.search_batch(["topic5 topic6", "topic7"], k=40, m=m)
        assert not {5, 6} & {hit.label for hits in found for hit in hits}
        assert found[1][0].label == 7
    with pytest.raises(UserError, match="label 40 is not within 0 and 39"):
        catalogue.remove_labels(root, [40])


def test_many_alike_labels_do_not_pile_up(changed_run):
    root = changed_run.paths.root
    before = open_searcher(root).loads()
    anywhere = {"choices": 24, "within": 0.0, "lift": 0.0, "share": 1.0}
    catalogue.add_labels(root, ["topic5 topic9"] * 30, **anywhere)
    added = open_searcher(root).loads() - before
    assert added.sum() == 3 * 30 and added.max() < 10
    catalogue.add_labels(root, ["topic5 topic9"] * 30, choices=1, share=1.0)
    assert (open_searcher(root).loads() - before).max() >= 30


def test_a_label_of_every_row_draws_no_new_ones_to_its_buckets(titles, tmp_path):
    """Its buckets are the likeliest of any title, which says nothing about where that belongs."""
    texts, rows = texts_and_labels(open_titles(titles).train)
    run = tmp_path / "run"
    solar = Solar(preset="debian", **SMALL | {"num_buckets": 60, "epochs": 12})
    solar.fit(texts, [[*row, 40] for row in rows], [f"topic{i}" for i in range(41)], run=run)
    common = solar.searcher.labels.label_buckets[:, 40]
    assert (catalogue.usual_probabilities(solar.searcher)[range(3), common] == 1).all()
    by_chance = catalogue.add_labels(run, ["topic7"], lift=0.0, choices=1, share=1.0)
    by_lift = catalogue.add_labels(run, ["topic7"], choices=1, share=1.0)
    solar.searcher.reload()
    buckets = solar.searcher.labels.label_buckets
    assert (buckets[:, by_chance[0]] == common).all()
    assert (buckets[:, by_lift[0]] != common).all()
    assert (buckets[:, by_lift[0]] == buckets[:, 7]).sum() >= 2


def test_a_share_of_the_chunks_is_by_content_and_every_label_has_its_own(changed_run):
    by_hash = catalogue.place_by_hash(changed_run, 40, 6)
    searcher = open_searcher(changed_run.paths.root)
    for share, count in ((0, 0), (0.5, 2), (0.67, 3), (1, 3)):
        buckets = np.full_like(by_hash, -1)
        catalogue.place_by_content(searcher, ["topic5"] * 6, buckets, share=share)
        chosen = buckets >= 0
        assert (chosen.sum(axis=0) == count).all() and (chosen.sum(axis=1) == 2 * count).all()


def test_titles_without_a_known_word_are_placed_by_hash(changed_run):
    catalogue.add_labels(changed_run.paths.root, ["unheard", "topic1"])
    buckets = changes.read_delta(changed_run).buckets
    np.testing.assert_array_equal(buckets[:, :1], catalogue.place_by_hash(changed_run, 40, 1))


def test_infer_ranks_the_catalogue_as_it_is(changed_run):
    root = changed_run.paths.root
    options = {"top_buckets": (7,), "top_labels": 41, "scores": ("evidence",)}
    before = infer(root, **options)
    infer(root, **options)  # remembered
    catalogue.add_labels(root, [f"topic{i}" for i in range(10)], share=1.0)
    catalogue.remove_labels(root, [11])
    after = infer(root, **options)
    predictions = read_arrays(changed_run.paths.predictions(), "infer.py")
    for name in ("full", "m=7"):
        ids = predictions[f"{name}_evidence_ids"]
        assert (ids >= 40).any() and not (ids == 11).any()
    assert after[0]["candidates"] == 49 and before[0]["candidates"] == 40
    searcher = open_searcher(root)
    assert any(hit.label >= 40 for hit in searcher.search("topic3 topic4", k=5))


def test_the_commands(changed_run, tmp_path, capsys):
    root = changed_run.paths.root

    def said(command, *arguments):
        assert solar_here("labels", command, root, *arguments) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    (tmp_path / "titles.txt").write_text("all of topic3\nall of topic4\n")
    added = said("add", tmp_path / "titles.txt")
    assert "2 labels added: 40 to 41" in added and "Next: infer.py" in added
    (tmp_path / "gone.txt").write_text("7\n\n 8\n")
    assert "3 labels removed" in said("remove", 1, "--file", tmp_path / "gone.txt")
    assert "can be found     | 39" in said("list")
    assert "2 files of changes are one" in said("compact")
    assert "nothing to compact" in said("compact")
    assert "all of topic3" in {hit.title for hit in answer(root, "topic3", m=7)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("remove", "RUN"), "no labels to remove"),
        (("remove", "RUN", "77"), "label 77 is not within 0 and 39"),
        (("remove", "RUN", "--file", "FILE"), "FILE:1: 'x' is not a label's number"),
        (("add", "RUN", "nowhere.txt"), "nowhere.txt"),
        (("list", "nowhere"), "no run here"),
    ],
)
def test_mistakes_are_one_line(trained, tmp_path, capsys, arguments, message):
    (tmp_path / "f").write_text("x\n")
    places = {"RUN": trained.paths.root, "FILE": tmp_path / "f"}
    assert solar_here("labels", *(places.get(word, word) for word in arguments)) == 1
    error = capsys.readouterr().err
    assert message.replace("FILE", str(tmp_path / "f")) in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("kind", "new", "options", "message"),
    [
        ("counts", ["x"], {"how": "chance"}, "by content or by hash"),
        ("counts", ["x"], {"choices": 0}, "a bucket to choose"),
        ("counts", ["x"], {"share": 2}, "from 0 to 1"),
        ("counts", ["x", 1], {}, "titles: 1: a int, not a text"),
        ("dense", ["x"], {}, "no run of titles"),
    ],
)
def test_bad_arguments(trained_runs, kind, new, options, message):
    with pytest.raises(UserError, match=message):
        catalogue.add_labels(trained_runs[kind].paths.root, new, **options)
