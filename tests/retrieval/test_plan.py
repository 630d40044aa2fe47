"""Blocks and workers that fit into a limit; tests/test_memory.py measures that they do."""

from types import SimpleNamespace

import pytest

from solar_tf.config import load_preset
from solar_tf.errors import UserError
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.plan import plan_inference
from solar_tf.retrieval.ranking import SCORES


def stage(full):
    """The paper's books (§5.1)."""
    settings = [SearchOptions(100, m, score) for score in SCORES for m in (*[None] * full, 100, 50)]
    run = SimpleNamespace(config=load_preset("books"), input_dim=100_000)
    return SimpleNamespace(
        run=run, delta=SimpleNamespace(num_labels=1_670_000), chunks=range(16), settings=settings,
        max_m=100, full=full,
        num_queries=200_000,
    )  # fmt: skip


def test_less_memory_means_smaller_blocks_then_smaller_batches_then_fewer_workers(capsys):
    plans = [plan_inference(stage(False), 4, 100_000, limit * 1e9) for limit in (20, 7, 5.2, 3.7)]
    assert plans[0] == (4, 1000, 100_000)
    assert plans == sorted(plans, reverse=True)
    assert plans[-1][0] < 4
    said = capsys.readouterr().out
    assert said.count("--max_memory") == 3


def test_probabilities_of_full_count_as_well():
    _, _, shortlisted = plan_inference(stage(False), 1, 100_000, 8e9)
    _, _, full = plan_inference(stage(True), 1, 100_000, 8e9)
    assert full < shortlisted


def test_the_smallest_limit_that_is_named_is_enough():
    with pytest.raises(UserError, match="give ([0-9.]+)GB or more") as error:
        plan_inference(stage(True), 4, 100_000, 1e9)
    least = float(str(error.value).split("give ")[1].split("GB")[0])
    assert plan_inference(stage(True), 4, 100_000, least * 1e9)[0] == 1
