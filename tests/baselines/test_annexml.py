import pytest

from baselines.agreement import same_when_loaded, solves
from solar_tf.baselines.annexml import AnnexML

SMALL = {"learners": 2, "dim": 16, "neighbours": 5}


@pytest.mark.parametrize("kind", ["planted", "planted_dense"])
def test_planted_labels_are_found(kind, request, tmp_path):
    data = request.getfixturevalue(kind)
    baseline = solves(AnnexML(AnnexML.Settings(**SMALL)), data, tmp_path / "fit")
    same_when_loaded(baseline, data, tmp_path / "model")


def test_several_parts_work_as_well(planted, tmp_path):
    few = AnnexML.Settings(**SMALL, part_rows=200, part_l1=0.1)
    baseline = solves(AnnexML(few), planted, tmp_path, 85.0)
    assert len(baseline.arrays["part_splits_000"]) == 4
