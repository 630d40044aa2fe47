import dataclasses
import sys

import pytest
import scipy.sparse as sp

from solar_tf.baselines.inputs import Split
from solar_tf.baselines.parabel import Parabel
from solar_tf.errors import UserError

pytest.importorskip("omikuji")


def test_finished_trees_are_not_grown_again(planted, tmp_path, capfd):
    Parabel().fit(planted, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("tree_*/*")}
    assert len(before) == 6
    baseline = Parabel()
    baseline.fit(planted, tmp_path)  # a killed process left all of it
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("tree_*/*")}
    assert len(list((tmp_path / "forest").glob("tree*.cbor"))) == 3
    (tmp_path / "model").mkdir()
    baseline.save(tmp_path / "model")
    Parabel.load(tmp_path / "model").predict(planted.test.inputs, 5)
    assert capfd.readouterr() == ("", "")  # omikuji's own words go to its log


def test_rows_without_features_or_labels_are_left_out(planted, tmp_path):
    inputs, labels = planted.train.inputs[:52].toarray(), planted.train.labels[:52].toarray()
    inputs[50:] = labels[49] = 0
    inputs, labels = sp.csr_matrix(inputs), sp.csr_matrix(labels)
    data = dataclasses.replace(planted, train=Split(inputs, labels))
    Parabel(Parabel.Settings(num_trees=1)).fit(data, tmp_path)
    lines = (tmp_path / "train.txt").read_text().splitlines()
    assert lines[0] == f"49 {inputs.shape[1]} 40" and len(lines) == 50
    own, *features = lines[1].split(" ")
    assert own.split(",") == [str(label) for label in labels[0].indices]
    pairs = [feature.split(":") for feature in features]
    assert {int(i): float(value) for i, value in pairs} == pytest.approx(
        dict(zip(inputs[0].indices.tolist(), inputs[0].data.tolist(), strict=True))
    )


def test_without_omikuji_the_error_names_the_extra(planted, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "omikuji", None)
    with pytest.raises(UserError, match=r"solar-tf\[baselines\]"):
        Parabel().fit(planted, tmp_path)
