import numpy as np

from baselines.agreement import same_when_loaded, solves
from baselines.test_dssm import SMALL
from solar_tf.baselines.dssm import Dssm
from solar_tf.baselines.glas import Glas


def test_planted_labels_are_found(titled, tmp_path):
    baseline = solves(Glas(Glas.Settings(**SMALL)), titled, tmp_path / "fit", 99.0)
    same_when_loaded(baseline, titled, tmp_path / "model")


def test_labels_are_spread_unless_they_occur_together(titled, tmp_path):
    """Against DSSM's labels: those of other pairs are nearer to orthogonal, pairs stay alike."""

    def angles(kind):
        baseline = kind(kind.Settings(**SMALL))
        (tmp_path / kind.title).mkdir()
        baseline.fit(titled, tmp_path / kind.title)
        labels = baseline.arrays["labels"]
        squares = np.square(labels @ labels.T)
        own = np.arange(len(labels))
        together = squares[own, own ^ 1].mean()
        squares[own, own] = squares[own, own ^ 1] = 0
        return together, squares.sum() / (len(labels) * (len(labels) - 2)), baseline.facts(titled)

    dssm, glas = angles(Dssm), angles(Glas)
    assert glas[0] > 0.8
    assert glas[1] < 0.5 * dssm[1]
    assert glas[2]["orthogonality"] < dssm[2]["orthogonality"]
