import numpy as np
import pytest
import scipy.sparse as sp

from solar_tf.baselines.sleec import Sleec, keep_products, neighbour_graph, regress
from solar_tf.preprocessing.features import scale_rows

SMALL = {"dim": 15, "label_neighbours": 20, "neighbours": 5, "projections": 10}


@pytest.mark.parametrize(("rows", "learners", "dim"), [(600, 1, 100), (12_001, 20, 50)])
def test_sizes_follow_the_papers_settings(planted, rows, learners, dim):
    class Rows:
        train = range(rows)

    plan = Sleec().plan(Rows)
    assert (plan["learners"], plan["dim"], plan["clusters"]) == (
        learners,
        dim,
        max(1, rows // 6000),
    )


def test_embeddings_keep_the_products_of_label_neighbours(planted):
    labels = scale_rows(planted.train.labels.copy())
    graph = neighbour_graph(labels, 20)
    assert (abs(graph - graph.T) > 1e-6).nnz == 0
    exact = (labels @ labels.T).toarray()
    rows, columns = graph.nonzero()
    np.testing.assert_allclose(
        np.asarray(graph[rows, columns]).ravel(), exact[rows, columns], rtol=1e-5
    )
    embedded = keep_products(graph, 20, 30, np.random.default_rng(0))
    products = np.einsum("id,id->i", embedded[rows], embedded[columns])
    assert np.abs(products - exact[rows, columns]).mean() < 0.05


def test_regression_is_ridge_regression():
    generator = np.random.default_rng(0)
    inputs, wanted = generator.normal(size=(50, 8)), generator.normal(size=(50, 3))
    found = regress(sp.csr_matrix(inputs), wanted, 0.7)
    exact = np.linalg.solve(inputs.T @ inputs + 0.7 * np.eye(8), inputs.T @ wanted)
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-4)


def test_the_l1_penalty_shrinks_embeddings():
    generator = np.random.default_rng(0)
    inputs = sp.csr_matrix(generator.normal(size=(50, 8)))
    wanted = generator.normal(size=(50, 3))

    def size(l1):
        return np.abs(inputs @ regress(inputs, wanted, 0.1, l1, rho=1.0, passes=50)).sum()

    assert size(0.0) > size(0.3) > size(3.0)
