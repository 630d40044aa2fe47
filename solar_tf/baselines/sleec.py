"""SLEEC (Bhatia et al., NIPS 2015): embeddings that keep the nearest neighbours of label vectors.

The rows are clustered by features. In a cluster, low-rank embeddings keep the inner products of
each row's label vector with those of its nearest neighbours (singular value projection); ridge
regression maps features to embeddings. Clusters are balanced and their number grows with the
rows, so that comparing all rows of a cluster is linear in all rows. Cost of a learner:
O(n * cluster_rows * labels of a row) for the neighbours, O(n * neighbours * dim) for each pass of
the projection, O(nnz * dim) for each of the regression.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from solar_tf.baselines.interface import Settings, setting
from solar_tf.baselines.kernels.vectors import dot, fast
from solar_tf.baselines.neighbours import NeighbourBaseline, learn_parts, unit_rows
from solar_tf.preprocessing.features import scale_rows
from solar_tf.preprocessing.grouping import balanced_clusters

ROWS_PER_PRODUCT = 500  # of a cluster; bounds the dense block of similarities
SMALL = "for one cluster, else"


@dataclass(frozen=True)
class SleecSettings(Settings):
    """0 stands for the paper's choice, which depends on the number of clusters."""

    cluster_rows: int = setting(6000, "SLEEC's paper", "rows of a cluster, approximately")
    learners: int = setting(
        0, "SLEEC's paper", f"learners in the ensemble; 0: 1 {SMALL} 20", least=0
    )
    label_neighbours: int = setting(
        0, "SLEEC's paper", f"neighbours in label space, for a row; 0: 250 {SMALL} 25", least=0
    )
    dim: int = setting(0, "SLEEC's paper", f"embedding dimension; 0: 100 {SMALL} 50", least=0)
    neighbours: int = setting(
        0, "SLEEC's paper", f"nearest rows of a query; 0: 25 {SMALL} 5", least=0
    )
    projections: int = setting(20, "ours", "passes of the singular value projection")
    ridge: float = setting(1.0, "ours, docs/baselines.md", "weight of the regression's L2 penalty")
    l1: float = setting(
        0.0, "ours", "weight of the paper's L1 penalty on embeddings, by ADMM; 0: none", least=0
    )
    rho: float = setting(0.001, "SLEEC's program", "step size of ADMM")
    admm_passes: int = setting(10, "SLEEC's program", "passes of ADMM")
    smallest: float = setting(1e-4, "ours", "weights below it are zeroed", least=0)


class Sleec(NeighbourBaseline):
    title = "SLEEC"
    Settings = SleecSettings

    def plan(self, data):
        s = self.settings
        clusters = max(1, round(len(data.train) / s.cluster_rows))
        single = clusters == 1
        return {
            "clusters": clusters,
            "learners": s.learners or (1 if single else 20),
            "label_neighbours": s.label_neighbours or (250 if single else 25),
            "dim": s.dim or (100 if single else 50),
            "neighbours": s.neighbours or (25 if single else 5),
        }

    def learn(self, i, data, plan):
        s, generator = self.settings, np.random.default_rng([self.settings.seed, i])
        inputs = sp.csr_matrix(data.train.inputs)
        labels = scale_rows(data.train.labels.copy())
        splits, rows = balanced_clusters(inputs, plan["clusters"], generator)

        def project(_, members, inputs):
            graph = neighbour_graph(labels[members], plan["label_neighbours"])
            wanted = keep_products(graph, plan["dim"], s.projections, generator)
            weights = regress(inputs, wanted, s.ridge, s.l1, s.rho, s.admm_passes)
            weights[np.abs(weights) < s.smallest] = 0
            return weights

        clusters = (inputs[rows[first:last]] for first, last in itertools.pairwise(splits))
        sums = [np.asarray(part.sum(axis=0), np.float32).ravel() for part in clusters]
        units = np.ascontiguousarray(unit_rows(np.stack(sums)).T)
        return learn_parts(inputs, units, splits, rows, project)


def neighbour_graph(labels, count):
    """Cosines of unit label vectors with the `count` nearest, symmetric CSR [n, n]."""
    rows, columns, values = [], [], []
    for start in range(0, labels.shape[0], ROWS_PER_PRODUCT):
        block = (labels[start : start + ROWS_PER_PRODUCT] @ labels.T).toarray()
        width = min(count, block.shape[1])
        best = np.argpartition(-block, width - 1, axis=1)[:, :width]
        rows.append(np.repeat(np.arange(start, start + len(block)), width))
        columns.append(best.ravel())
        values.append(np.take_along_axis(block, best, axis=1).ravel())
    # Products of zero are kept: they hold rows apart that share no label.
    values = np.concatenate(values) + 1  # scipy would drop zeros
    shape = labels.shape[0], labels.shape[0]
    graph = sp.csr_matrix((values, (np.concatenate(rows), np.concatenate(columns))), shape)
    graph = sp.csr_matrix(graph.maximum(graph.T), dtype=np.float32)
    graph.data -= 1
    return graph


def keep_products(graph, dim, passes, generator):
    """Embeddings Z [n, dim] whose products Z Z^T are those of the graph, where it has any.

    Singular value projection: X <- the best rank-dim positive part of X + (graph - X on its
    places), each by a step of subspace iteration from the last.
    """
    num_rows = graph.shape[0]
    dim = min(dim, num_rows)
    basis = np.linalg.qr(generator.standard_normal((num_rows, dim)).astype(np.float32))[0]
    embedded = np.zeros((num_rows, dim), np.float32)
    residual = graph.copy()
    for _ in range(passes):
        for _ in range(2):
            basis = np.linalg.qr(residual @ basis + embedded @ (embedded.T @ basis))[0]
        image = residual @ basis + embedded @ (embedded.T @ basis)
        values, vectors = np.linalg.eigh(basis.T @ image)
        embedded = (basis @ vectors) * np.sqrt(np.maximum(values, 0))
        embedded = np.ascontiguousarray(embedded, np.float32)
        _subtract_products(graph.indptr, graph.indices, graph.data, embedded, residual.data)
    return embedded


@fast
def _subtract_products(splits, columns, values, embedded, residual):
    for row in range(len(splits) - 1):
        for at in range(splits[row], splits[row + 1]):
            residual[at] = values[at] - dot(embedded[row], embedded[columns[at]])


def regress(inputs, wanted, ridge, l1=0.0, rho=0.001, passes=10):
    """V [F, dim] of min |Z - X V|^2 + ridge |V|^2 + l1 |X V|_1, the last term by ADMM."""
    weights = _ridge(inputs, wanted, ridge, np.zeros((inputs.shape[1], wanted.shape[1])))
    if l1:
        dual = np.zeros_like(wanted)
        for _ in range(passes):
            product = inputs @ weights + dual
            sparse = np.sign(product) * np.maximum(np.abs(product) - l1 / rho, 0)
            dual = product - sparse
            target = (wanted + rho * (sparse - dual)) / (1 + rho)
            weights = _ridge(inputs, target, ridge / (1 + rho), weights)
    return weights


def _ridge(inputs, wanted, ridge, weights, passes=50, tolerance=1e-4):
    """Conjugate gradients for all columns of `wanted` at once, from `weights` on.

    scikit-learn's Ridge takes 2.8 times as long by the same method, a column at a time.
    """
    residual = inputs.T @ wanted - inputs.T @ (inputs @ weights) - ridge * weights
    direction = residual.copy()
    square = np.einsum("ij,ij->j", residual, residual)
    enough = tolerance**2 * np.maximum(square, 1e-12)
    for _ in range(passes):
        image = inputs.T @ (inputs @ direction) + ridge * direction
        step = square / np.maximum(np.einsum("ij,ij->j", direction, image), 1e-30)
        weights = weights + step * direction
        residual -= step * image
        before, square = square, np.einsum("ij,ij->j", residual, residual)
        if np.all(square <= enough):
            break
        direction = residual + (square / np.maximum(before, 1e-30)) * direction
    return weights
