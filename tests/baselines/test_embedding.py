import numpy as np

from baselines.conftest import near_rows
from solar_tf.baselines.embedding import train_embedding
from solar_tf.baselines.inputs import csr_arrays
from solar_tf.baselines.neighbours import unit_rows


def test_embeddings_keep_label_neighbours_near(planted):
    near = near_rows(planted)
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(planted.num_features, 16)).astype(np.float32)

    def share():
        embedded = unit_rows(planted.train.inputs @ weights)
        cosines = embedded @ embedded.T
        np.fill_diagonal(cosines, -1)
        nearest = np.argsort(-cosines, axis=1)[:, :5]
        labels = planted.train.labels.indices[::2]
        return np.mean(labels[nearest] == labels[:, None])

    before = share()
    arrays = csr_arrays(planted.train.inputs)
    train_embedding(*arrays, near, 10, 0.1, 10.0, 10, 0, weights)
    assert share() > max(0.95, before)
