"""What every baseline must do, on a planted task with small settings."""

import numpy as np
import pytest

from solar_tf.baselines import BASELINES, baseline_class
from solar_tf.retrieval.metrics import evaluate

ANNEXML = {"learners": 2, "dim": 16, "neighbours": 5}
SLEEC = {"dim": 15, "label_neighbours": 20, "neighbours": 5, "projections": 10}
SLICE = {"dim": 40, "shortlist": 12}
DSSM = {"dim": 24, "epochs": 4, "batch_size": 50, "learning_rate": 1e-2}
BOTH = ("planted", "planted_dense")
# Settings of a baseline, the fixtures of its data, and the least P@1 and P@2.
CASES = [
    ("parabel", {"leaf_labels": 8}, BOTH, 90),
    ("pfastrexml", {"num_trees": 6}, BOTH, 90),
    ("sleec", SLEEC, BOTH, 90),
    ("sleec", SLEEC | {"cluster_rows": 200, "learners": 3}, BOTH[:1], 90),
    ("slice", SLICE | {"search": "exact"}, BOTH, 90),
    ("slice", SLICE | {"search": "clusters"}, BOTH, 90),
    ("annexml", ANNEXML, BOTH, 90),
    ("annexml", ANNEXML | {"part_rows": 200, "part_l1": 0.1}, BOTH[:1], 85),
    ("dssm", DSSM, ("titled",), 99),
    ("dssm", DSSM | {"loss": "softmax", "compare": "batch"}, ("titled",), 99),
    ("dssm", DSSM | {"search": "clusters", "weighting": "tfidf"}, ("titled",), 99),
    ("glas", DSSM, ("titled",), 99),
    ("knn", {"neighbours": 20}, BOTH, 90),
]


def fitted(name, settings, data, folder):
    kind = baseline_class(name)
    baseline = kind(kind.Settings(**settings))
    folder.mkdir(parents=True, exist_ok=True)
    baseline.fit(data, folder)
    return baseline


def solves(baseline, data, least):
    """Finds the planted labels, and predicts as the interface says."""
    k = 10
    ids, scores = baseline.predict(data.test.inputs, k)
    assert ids.shape == scores.shape == (len(data.test), k)
    assert (ids.dtype, scores.dtype) == (np.int32, np.float32)
    assert ids.min() >= -1 and ids.max() < data.num_labels
    for row, row_scores in zip(ids, scores, strict=True):
        found = row[row >= 0]
        assert len(set(found)) == len(found)
        assert np.all(row[len(found) :] == -1)
        assert np.all(np.diff(row_scores[: len(found)]) <= 0)
    found = evaluate(ids, data.test.labels.indptr, data.test.labels.indices, ks=(1, 2))
    assert found["P@1"] >= least and found["P@2"] >= least, found


def same_when_loaded(baseline, data, folder):
    """A saved and loaded model predicts the same, row by row and in blocks."""
    folder.mkdir(parents=True)
    baseline.save(folder)
    assert {path.suffix for path in folder.iterdir()} <= {".npy", ".json", ".cbor"}
    assert (folder / "settings.json").exists()
    loaded = type(baseline).load(folder)
    assert loaded.settings == baseline.settings
    inputs = data.test.inputs[:20]
    wanted, found = baseline.predict(inputs, 5), loaded.predict(inputs, 5)
    exact = baseline.title != "Parabel"  # omikuji sums its trees up as their threads finish
    if exact:
        np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_allclose(found[1], wanted[1], rtol=0 if exact else 1e-5)
    for row in range(5):
        alone = loaded.predict(inputs[row : row + 1], 5)
        np.testing.assert_allclose(alone[1][0], wanted[1][row], rtol=1e-5)
    silent = inputs[:1] * 0  # a query without known features is answered, whatever the answer
    assert loaded.predict(silent, 5)[0].shape == (1, 5)


@pytest.mark.parametrize(
    ("name", "settings", "kind", "least"),
    [(name, settings, kind, least) for name, settings, kinds, least in CASES for kind in kinds],
)
def test_planted_labels_are_found(name, settings, kind, least, request, tmp_path):
    if name == "parabel":
        pytest.importorskip("omikuji")
    data = request.getfixturevalue(kind)
    baseline = fitted(name, settings, data, tmp_path / "fit")
    solves(baseline, data, least)
    same_when_loaded(baseline, data, tmp_path / "model")
    if name in ("sleec", "annexml"):
        lengths = np.linalg.norm(baseline.arrays["embeddings_000"], axis=1)
        np.testing.assert_allclose(lengths, 1, rtol=1e-5)
    if "cluster_rows" in settings:
        assert baseline.arrays["part_splits_002"].tolist() == [0, 200, 400, 600]
    if "part_rows" in settings:
        assert len(baseline.arrays["part_splits_000"]) == 4
    if name == "slice":
        assert ("basis" in baseline.arrays) == (kind == "planted")


def test_every_baseline_has_a_case():
    assert {case[0] for case in CASES} | {"snrm"} == BASELINES.keys()  # test_snrm.py
