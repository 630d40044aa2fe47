import numpy as np
import pytest
from conftest import open_titles

from solar_tf.analysis.report import samples
from solar_tf.analysis.report.results import best_shortlist, predictions, solar_results
from solar_tf.datasets.vocabulary import Vocabulary, tokenize


def texts_of(titles):
    return [line.rstrip("\n").split("\t")[1] for line in (titles / "test.txt").open()]


def test_frequencies_are_sums_over_the_words_of_a_query(evaluated, titles):
    vocabulary = Vocabulary.load(evaluated.paths.vocabulary)
    counts = dict(zip(vocabulary.words, vocabulary.frequencies, strict=True))
    expected = [sum(counts[w] for w in set(tokenize(t)) if w in counts) for t in texts_of(titles)]
    assert samples.query_frequencies(evaluated).tolist() == expected


def test_halves_split_by_frequency():
    frequencies = np.array([5, 1, 9, 3, 7])
    halves = samples.halves(frequencies)
    assert halves["frequent"].tolist() == [0, 2, 4]
    assert halves["infrequent"].tolist() == [1, 3]


def test_picks_are_the_same_each_time_and_of_their_half():
    frequencies = np.random.default_rng(1).random(50)
    chosen = samples.pick(frequencies, 5)
    assert chosen == samples.pick(frequencies, 5)
    assert chosen != samples.pick(frequencies, 5, seed=1)
    for kind, row in chosen:
        assert (frequencies[row] >= np.median(frequencies)) == (kind == "frequent")


def test_samples_show_titles_and_which_are_right(evaluated, titles):
    ids = predictions(evaluated, best_shortlist(solar_results(evaluated)))[0]
    chosen = [("frequent", 3), ("infrequent", 7)]
    texts = samples.query_texts(open_titles(titles).test, [3, 7])
    assert [texts[3], texts[7]] == [texts_of(titles)[3], texts_of(titles)[7]]
    for sample in samples.describe(evaluated, chosen, {"SOLAR": ids}, texts):
        words = sample.text.split()
        assert sample.num_true == len(sample.truth) == 2
        for title, correct in sample.predictions["SOLAR"]:
            assert correct == (title.removeprefix("about ") in words)


def test_precision_of_halves_averages_to_that_of_all(evaluated):
    row = best_shortlist(solar_results(evaluated))
    ids = predictions(evaluated, row)[0]
    found = samples.precision_by_half(evaluated, ids, samples.query_frequencies(evaluated))
    mean = (found["frequent"]["P@1"] + found["infrequent"]["P@1"]) / 2
    assert mean == pytest.approx(row.metrics["P@1"])


def test_words_stand_in_for_texts(evaluated, titles):
    words = samples.query_words(evaluated, [4])[4]
    assert sorted(words.split()) == sorted(texts_of(titles)[4].split())
    assert samples.source_of(evaluated) is None  # `train` is no dataset with a card
