"""What every baseline must do; each one's test file calls it with small settings."""

import numpy as np

from solar_tf.retrieval.metrics import evaluate


def solves(baseline, data, folder, least=90.0):
    """Fit, find the planted labels, and predict as the interface says."""
    folder.mkdir(parents=True, exist_ok=True)
    baseline.fit(data, folder)
    k = 10
    ids, scores = baseline.predict(data.test.inputs, k)
    num_rows = len(data.test)
    assert ids.shape == scores.shape == (num_rows, k)
    assert (ids.dtype, scores.dtype) == (np.int32, np.float32)
    assert ids.min() >= -1 and ids.max() < data.num_labels
    for row, row_scores in zip(ids, scores, strict=True):
        found = row[row >= 0]
        assert len(set(found)) == len(found)
        assert np.all(row[len(found) :] == -1)
        assert np.all(np.diff(row_scores[: len(found)]) <= 0)
    found = evaluate(ids, data.test.labels.indptr, data.test.labels.indices, ks=(1, 2))
    assert found["P@1"] >= least and found["P@2"] >= least, found
    return baseline


def same_when_loaded(baseline, data, folder, exact=True):
    """A saved and loaded model predicts the same, row by row and in blocks.

    Not exactly so where trees are summed up as their threads finish.
    """
    folder.mkdir(parents=True)
    baseline.save(folder)
    assert not [path for path in folder.iterdir() if path.suffix in (".pkl", ".pickle")]
    loaded = type(baseline).load(folder)
    assert loaded.settings == baseline.settings
    inputs = data.test.inputs[:20]
    wanted, found = baseline.predict(inputs, 5), loaded.predict(inputs, 5)
    if exact:
        np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_allclose(found[1], wanted[1], rtol=0 if exact else 1e-5)
    for row in range(5):
        alone = loaded.predict(inputs[row : row + 1], 5)
        np.testing.assert_allclose(alone[1][0], wanted[1][row], rtol=1e-5)
    silent = inputs[:1] * 0  # a query without known features is answered, whatever the answer
    assert loaded.predict(silent, 5)[0].shape == (1, 5)
