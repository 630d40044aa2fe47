"""Synthetic data: its files are what its card says, and its answer can be learned."""

import hashlib
import json
import re

import numpy as np
import pytest
import scipy.sparse

from solar_tf.config import load_preset
from solar_tf.datasets import cards, synthetic
from solar_tf.datasets.dataset import open_files, open_named
from solar_tf.datasets.synthetic import FORMATS, Recipe, plant, synthesize
from solar_tf.preprocessing.stage import preprocess
from solar_tf.retrieval.metrics import evaluate

from .files import assert_refused, label_lists

SMALL = {"rows": 300, "test_rows": 40, "labels": 50, "dim": 16}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The folder of each format, known by name."""
    monkeypatch.setattr(cards, "FOLDERS", (tmp_path,))
    for format in FORMATS:
        synthesize(tmp_path / format, Recipe(**SMALL), format)
    return tmp_path


def test_all_formats_hold_the_same_rows(made):
    planted = {"train": plant(Recipe(**SMALL), "train", 0, 300),
               "test": plant(Recipe(**SMALL), "test", 0, 40)}  # fmt: skip
    datasets = {format: open_named(format) for format in FORMATS}
    assert [dataset.kind for dataset in datasets.values()] == ["text", "sparse", "dense"]
    for split, expected in planted.items():
        titles, bags, dense = (getattr(d, split).read() for d in datasets.values())
        for rows in (titles, bags, dense):
            assert label_lists(rows) == label_lists(expected)
        lengths = np.diff(expected.word_splits)
        assert [len(text.split()) for text in titles.texts] == lengths.tolist()
        assert np.add.reduceat(bags.values, bags.feature_splits[:-1]).tolist() == lengths.tolist()
        np.testing.assert_allclose(np.linalg.norm(dense.dense, axis=1), 1, rtol=1e-5)
        # Equal bags of words are equal titles and equal vectors.
        bag = [tuple(sorted(text.split())) for text in titles.texts]
        assert len(set(bag)) == len({row.tobytes() for row in dense.dense})
    assert datasets["titles"].num_labels == 50
    assert datasets["xmlrepo"].num_labels == 50


def test_the_card_says_what_is_in_the_files(made):
    for format in FORMATS:
        card = json.loads((made / format / "card.json").read_text())
        assert card["name"] == format
        for name, digest in card["sha256"].items():
            assert hashlib.sha256((made / format / name).read_bytes()).hexdigest() == digest
        assert (card["counts"]["train"], card["counts"]["test"]) == (300, 40)
    rows = (made / "dense" / "trn_Y.txt").read_text().splitlines()
    assert all(re.fullmatch(r"\d+:1( \d+:1)*", row) for row in rows[1:])
    labels = (made / "titles" / "labels.txt").read_text().splitlines()
    assert [len(title.split()) for title in labels] == [3] * 50


def test_blocks_do_not_change_a_byte_and_seeds_change_all(tmp_path, monkeypatch):
    whole = synthesize(tmp_path / "whole", Recipe(**SMALL))
    monkeypatch.setattr(synthetic, "ROWS_PER_BLOCK", 7)
    pieces = synthesize(tmp_path / "pieces", Recipe(**SMALL))
    other = synthesize(tmp_path / "other", Recipe(**SMALL, seed=1))
    assert pieces["sha256"] == whole["sha256"]
    assert pieces["planted"]["ceiling"] == whole["planted"]["ceiling"]
    assert not set(other["sha256"].values()) & set(whole["sha256"].values())
    longer = Recipe(**(SMALL | {"rows": 900}))
    first = plant(longer, "train", 0, 300)
    np.testing.assert_array_equal(first.labels, plant(Recipe(**SMALL), "train", 0, 300).labels)


def test_rows_are_as_the_recipe_says():
    recipe = Recipe(20_000, 0, 10_000, labels_per_row=3.0, hidden=0.25, noise_words=1)
    rows = plant(recipe, "train", 0, 20_000)
    sizes = np.diff(rows.label_splits)
    assert sizes.min() == 1
    assert sizes.mean() == pytest.approx(3, abs=0.1)
    assert rows.shown.mean() == pytest.approx(0.75, abs=0.01)
    shown = np.add.reduceat(rows.shown, rows.label_splits[:-1])
    np.testing.assert_array_equal(np.diff(rows.word_splits), 2 * shown + 1)
    for row in range(100):
        labels = rows.labels[rows.label_splits[row] : rows.label_splits[row + 1]]
        assert np.all(np.diff(labels) > 0)
    assert 0 <= rows.labels.min() <= rows.labels.max() < 10_000
    counts = np.sort(np.bincount(rows.labels, minlength=10_000))[::-1]
    # A power law: the logarithms of rank and frequency lie on a line of that slope.
    ranks = np.array([30, 100, 300, 1000])
    head = np.array([counts[r // 2 : 2 * r].mean() for r in ranks])
    slope = np.polyfit(np.log(ranks), np.log(head), 1)[0]
    assert slope == pytest.approx(-recipe.label_exponent, abs=0.1)


def test_a_simple_learner_comes_near_the_ceiling_of_the_card(tmp_path):
    card = synthesize(tmp_path / "planted", Recipe(8000, 1000, 200), "xmlrepo")
    data = open_files(tmp_path / "planted" / "train.txt", tmp_path / "planted" / "test.txt")

    def matrices(rows):
        values = np.ones(len(rows.features)), rows.features, rows.feature_splits
        ones = np.ones(len(rows.labels)), rows.labels, rows.label_splits
        return (scipy.sparse.csr_array(values, shape=(len(rows), data.num_features)),
                scipy.sparse.csr_array(ones, shape=(len(rows), data.num_labels)))  # fmt: skip

    words, labels = matrices(data.train.read())
    together = (words.T @ labels).toarray()
    chance = np.outer(words.sum(axis=0), labels.sum(axis=0)) / words.shape[0]
    evidence = np.maximum(np.log((together + 0.01) / (chance + 0.1)), 0)
    test = data.test.read()
    scores = matrices(test)[0] @ evidence
    ids = np.argsort(-scores, axis=1)[:, :100].astype(np.int32)
    found = evaluate(ids, test.label_splits, test.labels)
    ceiling = card["planted"]["ceiling"]
    assert ceiling["P@1"] > 85
    for k in ("P@1", "P@3"):
        assert ceiling[k] - 12 < found[k] < ceiling[k] + 3


def test_dense_rows_go_through_all_three_stages(tmp_path):
    """The preset of the paper's dense datasets, made small, learns the planted answer."""
    from solar_tf.retrieval.evaluation import infer
    from solar_tf.training.stage import train

    card = synthesize(tmp_path / "planted", Recipe(2000, 200, 60, dim=128), "dense")
    data = open_files(tmp_path / "planted" / "trn_X.npy", tmp_path / "planted" / "tst_X.npy")
    config = load_preset(
        "wiki500k", num_chunks=3, num_buckets=200, hidden_dim=64, batch_size=50, epochs=6,
        learning_rate=1e-2,
    )  # fmt: skip
    run = preprocess(tmp_path / "run", data, config, 1)
    assert run.input_dim == 128
    assert len(list((tmp_path / "run/records/train/inputs").iterdir())) == 1  # for all chunks
    train(tmp_path / "run")
    (row,) = infer(tmp_path / "run", top_buckets=(25,), full=False, scores=("evidence",), workers=1)
    ceiling = card["planted"]["ceiling"]["P@1"]
    assert ceiling - 25 < row["P@1"] < ceiling + 3


@pytest.mark.parametrize(
    "wrong", [{"rows": 0}, {"labels": 0}, {"hidden": 1.5}, {"seed": -1}, {"labels_per_row": 0.5}]
)
def test_a_recipe_out_of_range_is_an_error(wrong):
    (name,) = wrong
    assert_refused(f"--{name} .*: give a number from", Recipe, **(SMALL | wrong))


def test_nothing_is_overwritten_and_nothing_left_half_written(tmp_path, monkeypatch):
    synthesize(tmp_path / "one", Recipe(**SMALL))
    exists, name = "train.txt: exists already: choose another --out", "the folder's name is the"
    assert_refused(exists, synthesize, tmp_path / "one", Recipe(**SMALL))
    assert_refused(name, synthesize, tmp_path / "a name", Recipe(**SMALL))

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(synthetic, "_write_block", fail)
    with pytest.raises(OSError, match="disk full"):
        synthesize(tmp_path / "two", Recipe(**SMALL))
    assert not list((tmp_path / "two").iterdir())


def test_without_test_rows_there_is_no_test_file(tmp_path):
    card = synthesize(tmp_path / "one", Recipe(20, 0, 5), "dense")
    made = {path.name for path in (tmp_path / "one").iterdir()}
    assert made == {"trn_X.npy", "trn_Y.txt", "card.json"}
    assert set(card["files"]) == {"train", "train_labels"}
