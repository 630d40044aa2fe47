"""The transformation lemma and the law of deferred orthogonality (§4, appendix C), numerically.

Vectors are columns, as in the paper: A = [a_1 ... a_n], B = [b_1 ... b_n].
"""

import numpy as np
from scipy.linalg import hadamard

KERNELS = {  # positive semi-definite; the first three see only inner products and lengths
    "inner product": lambda u, v: u.T @ v,
    "(1 + inner product)^2": lambda u, v: (1 + u.T @ v) ** 2,
    "Gaussian": lambda u, v: np.exp(
        -((u**2).sum(0)[:, None] + (v**2).sum(0)[None] - 2 * u.T @ v) / 2
    ),
    "sum of u_i^2 v_i^2": lambda u, v: (u**2).T @ v**2,
}


def basis(n, generator):
    """A random orthonormal basis, as columns [n, n]."""
    q, r = np.linalg.qr(generator.normal(size=(n, n)))
    return q * np.sign(np.diag(r))


def transformation(n, seed=0):
    """Lemma 1: largest errors of A = P B with P = A B^T, of P P^T = I, and of the paper's P."""
    generator = np.random.default_rng(seed)
    a, b = basis(n, generator), basis(n, generator)
    p = a @ b.T
    written = a.T @ b  # P_i^j = a_i . b_j, as appendix C has it

    def error(x, y):
        return float(np.abs(x - y).max())

    return {
        "n": n,
        "A = PB, P = A B^T": error(p @ b, a),
        "P P^T = I": error(p @ p.T, np.eye(n)),
        "A = PB, P_ij = a_i.b_j": error(written @ b, a),
        "A = B P^T, P_ij = a_i.b_j": error(b @ written.T, a),
    }


def deferred(n=64, queries=32, seed=0):
    """Theorem 1 for some kernels: S(f_I(x), f_L(y)) against S(P f_I(x), R(y)), largest error."""
    generator = np.random.default_rng(seed)
    learned, fixed = basis(n, generator), basis(n, generator)
    inputs = generator.normal(size=(n, queries)) / np.sqrt(n)
    moved = fixed @ learned.T @ inputs
    rows = []
    for name, kernel in KERNELS.items():
        vectors = np.concatenate([inputs, learned, fixed], axis=1)
        eigenvalues = np.linalg.eigvalsh(kernel(vectors, vectors))
        rows.append(
            {
                "kernel": name,
                "error": float(np.abs(kernel(inputs, learned) - kernel(moved, fixed)).max()),
                "smallest_eigenvalue": float(eigenvalues[0] / eigenvalues[-1]),
            }
        )
    return rows


def counterexample(n=64, queries=32, seed=0):
    """For sum u_i^2 v_i^2 no f works: with Hadamard's basis, all labels score the same.

    f_L is the standard basis, R Hadamard's, both orthonormal: S(f(x), R(y)) = |f(x)|^2 / n for
    every label y, whatever f is, where S(f_I(x), f_L(y)) differs from label to label.
    """
    kernel = KERNELS["sum of u_i^2 v_i^2"]
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(n, queries))
    fixed = hadamard(n) / np.sqrt(n)

    def spread(scores):
        return float((scores.std(axis=1) / scores.mean(axis=1)).max())

    return {
        "orthonormal": float(np.abs(fixed.T @ fixed - np.eye(n)).max()),
        "spread_learned": spread(kernel(inputs, np.eye(n))),
        "spread_fixed": spread(kernel(generator.normal(size=(n, queries)), fixed)),
    }
