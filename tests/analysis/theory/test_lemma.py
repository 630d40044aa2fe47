import pytest

from solar_tf.analysis.theory import lemma


@pytest.mark.parametrize("n", [2, 9, 50])
def test_the_lemma_holds_but_not_with_the_matrix_as_written(n):
    found = lemma.transformation(n)
    assert found["A = PB, P = A B^T"] < 1e-12
    assert found["P P^T = I"] < 1e-12
    assert found["A = B P^T, P_ij = a_i.b_j"] < 1e-12
    assert found["A = PB, P_ij = a_i.b_j"] > 0.1


def test_the_theorem_holds_for_kernels_of_inner_products_only():
    rows = {row["kernel"]: row for row in lemma.deferred(32, 16)}
    odd = rows.pop("sum of u_i^2 v_i^2")
    assert all(row["error"] < 1e-12 for row in rows.values())
    assert odd["error"] > 1e-3
    for row in (*rows.values(), odd):
        assert row["smallest_eigenvalue"] > -1e-12  # positive semi-definite, all of them


def test_the_counterexample_gives_all_labels_one_score():
    found = lemma.counterexample(16)
    assert found["orthonormal"] < 1e-12
    assert found["spread_fixed"] < 1e-12
    assert found["spread_learned"] > 0.5
