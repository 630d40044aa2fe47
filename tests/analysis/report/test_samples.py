import numpy as np
import pytest
from conftest import open_titles

from solar_tf.analysis.report import samples
from solar_tf.analysis.results import best_shortlist, predictions, solar_results


def texts_of(titles):
    return [line.rstrip("\n").split("\t")[1] for line in (titles / "test.txt").open()]


def test_picks_are_the_same_each_time_and_of_their_half():
    halves = {"frequent": np.arange(0, 50, 2), "infrequent": np.arange(1, 50, 2)}
    chosen = samples.pick(halves, 5)
    assert chosen == samples.pick(halves, 5) != samples.pick(halves, 5, seed=1)
    assert [half for half, _ in chosen] == ["frequent"] * 5 + ["infrequent"] * 5
    assert all(row in halves[half] for half, row in chosen)


@pytest.mark.parametrize("have_texts", [True, False])
def test_samples_show_titles_and_which_are_right(evaluated, titles, have_texts):
    row = best_shortlist(solar_results(evaluated))
    ids = {"SOLAR": predictions(evaluated, row)[0]}
    source = open_titles(titles).test if have_texts else None  # `train` is no card's dataset
    drawn = samples.draw(evaluated, ids, 3, source)
    assert drawn.have_texts == have_texts and len(drawn.queries) == 6
    for sample in drawn.queries:
        words, expected = sample.text.split(), texts_of(titles)[sample.row].split()
        assert sorted(words) == sorted(expected) and (words == expected or not have_texts)
        assert sample.num_true == len(sample.truth) == 2
        assert len(sample.predictions["SOLAR"]) == samples.TOP
        for title, correct in sample.predictions["SOLAR"]:
            assert correct == (title.removeprefix("about ") in words)
    halves = drawn.halves["SOLAR"]
    mean = (halves["frequent"]["P@1"] + halves["infrequent"]["P@1"]) / 2
    assert mean == pytest.approx(row.metrics["P@1"])


def test_there_are_no_samples_without_predictions(evaluated):
    assert samples.draw(evaluated, {}, 3) is None
