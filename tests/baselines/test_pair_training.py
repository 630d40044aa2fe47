import numpy as np
import pytest
import tensorflow as tf

from solar_tf.baselines import pair_training
from solar_tf.baselines.dssm import Dssm
from solar_tf.baselines.towers import Towers
from solar_tf.errors import UserError

SMALL = {"dim": 8, "epochs": 3, "batch_size": 100, "learning_rate": 1e-2}


class Killed(Exception):
    pass


@pytest.mark.parametrize("moment", [2, 17, 30])
def test_a_killed_training_ends_with_the_same_weights(titled, tmp_path, monkeypatch, moment):
    """Killed in the first epoch, after a checkpoint in the midst of one, and in the last."""
    monkeypatch.setattr(pair_training, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(pair_training, "CHECK_EVERY", 5)
    (tmp_path / "unbroken").mkdir()
    whole = Dssm(Dssm.Settings(**SMALL))
    whole.fit(titled, tmp_path / "unbroken")
    steps = []

    def train_batch(self, *arguments, original=Towers._train_batch):
        tf.py_function(lambda: steps.append(1) if len(steps) < moment else fail(), [], [])
        return original(self, *arguments)

    def fail():
        raise Killed

    folder = tmp_path / "broken"
    folder.mkdir()
    broken = Dssm(whole.settings)
    with monkeypatch.context() as patch:
        patch.setattr(Towers, "_train_batch", train_batch)
        with pytest.raises(tf.errors.UnknownError, match="Killed"):
            broken.fit(titled, folder)
    assert (folder / "checkpoint.npz").exists() == (moment > 5)
    broken.fit(titled, folder)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(broken.arrays[name], array, err_msg=name)


def test_a_loss_that_is_no_number_ends_the_training(titled, tmp_path):
    wild = Dssm(Dssm.Settings(**SMALL | {"learning_rate": 1e38}))
    with pytest.raises(UserError, match="the loss is nan: .* smaller --learning_rate"):
        wild.fit(titled, tmp_path)
    assert not (tmp_path / "checkpoint.npz").exists()


def test_linear_decay_ends_at_zero(titled, tmp_path, monkeypatch):
    rates = []

    def train_batch(self, batch, rate):
        tf.py_function(lambda r: rates.append(float(r)), [rate], [])
        return tf.constant(0.0)

    monkeypatch.setattr(Towers, "_train_batch", train_batch)
    Dssm(Dssm.Settings(**SMALL, decay="linear")).fit(titled, tmp_path)
    assert len(rates) == 36
    np.testing.assert_allclose(rates, 1e-2 * (1 - np.arange(36) / 36), rtol=1e-5)
