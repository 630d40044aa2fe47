"""When a checkpoint is due; what a resumed chunk takes up is in test_training."""

import numpy as np
import pytest
import tensorflow as tf

from solar_tf.run.directory import run_directory
from solar_tf.training import checkpoints
from solar_tf.training.checkpoints import Checkpoints


@pytest.fixture
def clock(monkeypatch):
    """The time, as a list of one number."""
    now = [100.0]
    monkeypatch.setattr(checkpoints.time, "perf_counter", lambda: now[0])
    return now


def test_the_end_of_an_epoch_waits_until_checkpoints_take_a_twentieth_of_the_time(
    clock, tmp_path, monkeypatch
):
    saved = Checkpoints(run_directory(tmp_path), 0, most_seconds=600)
    clock[0] += 1
    assert saved.worthwhile()  # the first, whose cost is not known

    def save_for(seconds):
        def save_weights(folder, arrays, facts):
            clock[0] += seconds

        monkeypatch.setattr(checkpoints, "save_weights", save_weights)
        saved.save(7, {}, {})

    save_for(10)
    clock[0] += 199
    assert not saved.worthwhile()
    clock[0] += 2
    assert saved.worthwhile() and not saved.due()
    save_for(60)  # never longer than the user's minutes
    clock[0] += 601
    assert saved.worthwhile() and saved.due()
    save_for(0.09)
    assert saved.worthwhile() and not saved.due()


def test_the_newest_is_taken_up_and_the_only_one_kept(tmp_path):
    paths = run_directory(tmp_path)
    saved = Checkpoints(paths, 3, most_seconds=0)
    variable = tf.Variable(np.zeros((2, 5), np.float32))
    assert saved.resume({"kernel": variable}) is None
    for step in (20, 100):
        saved.save(step, {"kernel": np.full((2, 5), step, np.float32)}, {"epoch": step // 20})
    assert list(paths.training(3).iterdir()) == [paths.checkpoint(3, 100)]
    facts = Checkpoints(paths, 3, most_seconds=0).resume({"kernel": variable})
    assert (facts["step"], facts["epoch"]) == (100, 5)
    assert (variable.numpy() == 100).all()
