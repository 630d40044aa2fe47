import numpy as np
import pytest

from solar_tf.baselines.knn import Knn


@pytest.mark.parametrize("kind", ["planted", "planted_dense"])
def test_votes_are_the_powers_of_the_cosines_with_the_nearest_rows(kind, request, tmp_path):
    data = request.getfixturevalue(kind)
    baseline = Knn(Knn.Settings(neighbours=7, power=2.0))
    baseline.fit(data, tmp_path)
    ids, scores = baseline.predict(data.test.inputs[:9], 40)
    dense = [np.asarray(getattr(m, "toarray", lambda m=m: m)())
             for m in (data.test.inputs[:9], data.train.inputs)]  # fmt: skip
    cosines = dense[0] @ dense[1].T
    for row, of in enumerate(cosines):
        nearest = np.lexsort((np.arange(len(of)), -of))[:7]
        wanted = np.zeros(data.num_labels)
        for other in nearest:
            wanted[data.train.labels[other].indices] += of[other] ** 2
        found = ids[row] >= 0
        assert sorted(ids[row][found]) == np.flatnonzero(wanted).tolist()
        np.testing.assert_allclose(scores[row][found], wanted[ids[row][found]], rtol=1e-5)
