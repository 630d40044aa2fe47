import pytest

from solar_tf.config import load_preset
from solar_tf.errors import UserError
from solar_tf.reproduce import plan


def test_the_papers_ablation_is_planned_for_its_own_dataset():
    runs = list(plan.ablation(load_preset("amazon670k"), 32))
    assert [run.config.num_buckets for run in runs] == [30_000, 20_000, 10_000]
    for run in runs:
        assert run.config.num_chunks == 32
        assert [e.num_chunks for e in run.evaluations] == [None, 16, 8]
        assert {e.top_buckets for e in run.evaluations} == {(25,)}


def test_small_datasets_scale_it_down():
    runs = list(plan.ablation(load_preset("debian"), 32))
    assert [run.config.num_buckets for run in runs] == [4500, 3000, 1500]
    assert plan.ablation_counts(2) == [1, 2]
    assert plan.ablation_counts(1) == [1]


def test_tables_share_the_main_run():
    config = load_preset("debian")
    main, *others = plan.plan(plan.Wish(plan.TABLES), config)
    assert (main.name, main.tables, main.config) == (plan.MAIN, (1, 2, 3, 5), config)
    assert set(main.baselines) == set(plan.MODELS) - {"solar"}
    assert {run.tables for run in others} == {(4,)}
    (main,) = plan.plan(plan.Wish((2,), ("parabel",)), config)
    assert (main.baselines, main.solar) == (("parabel",), False)
    assert plan.plan(plan.Wish((4,), ("parabel",)), config) == []


@pytest.mark.parametrize(
    ("words", "tables"), [(["all"], plan.TABLES), (["4", "1"], (1, 4)), (["5"], (5,))]
)
def test_tables_by_flag(words, tables):
    assert plan.parse_tables(words) == tables


@pytest.mark.parametrize(
    ("parse", "words", "message"),
    [
        (plan.parse_tables, ["6"], "--table 6: choose of 1, 2"),
        (plan.parse_tables, [], "--table"),
        (plan.parse_models, ["solar", "bert"], "--models bert: choose of solar"),
        (plan.parse_settings, ["sleec=3"], "--set sleec=3: write it as"),
        (plan.parse_settings, ["solar.epochs=3"], "of a baseline"),
    ],
)
def test_wrong_flags_are_explained(parse, words, message):
    with pytest.raises(UserError, match=message):
        parse(words)


def test_settings_by_flag():
    words = ["sleec.learners=3", "sleec.ridge=0.5", "annexml.dim=800"]
    expected = {"sleec": {"learners": "3", "ridge": "0.5"}, "annexml": {"dim": "800"}}
    assert plan.parse_settings(words) == expected
