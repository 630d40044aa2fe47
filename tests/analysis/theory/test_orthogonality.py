import numpy as np
import pytest

from solar_tf.analysis.theory import orthogonality as checked


@pytest.mark.parametrize(("labels", "chunks", "buckets"), [(60, 3, 7), (40, 1, 40), (30, 5, 2)])
def test_the_mean_of_all_pairs_is_that_of_a_loop_over_them(labels, chunks, buckets):
    codes = checked.codes(labels, chunks, buckets)
    dots = (codes[:, :, None] == codes[:, None, :]).sum(axis=0)
    above = dots[np.triu_indices(labels, 1)]
    found = checked.overlap(labels, chunks, buckets)
    assert found["measured"] == pytest.approx(above.mean())
    assert found["most"] <= above.max()


def test_interference_is_that_of_the_gram_matrix():
    found = checked.overlap(40, 4, 10)
    codes = checked.codes(40, 4, 10)
    gram = (codes[:, :, None] == codes[:, None, :]).sum(axis=0) / 4
    np.fill_diagonal(gram, 0)
    assert found["interference"] == pytest.approx((gram**2).sum(axis=1).mean())  # sample: all


def test_real_hashes_keep_to_chance():
    found = checked.overlap(20_000, 16, 1000)
    assert abs(found["deviations"]) < 4
    assert found["interference"] == pytest.approx(found["expected_interference"], rel=0.1)


def test_scores_are_in_reach_up_to_the_dimension_and_not_beyond():
    few, many = (checked.independence(n, 4, 50) for n in (100, 600))
    assert few["rank"] == 100
    assert few["residual"] == pytest.approx(0, abs=1e-9)
    assert many["rank"] <= many["most_rank"] == 197
    assert many["residual"] == pytest.approx(many["expected_residual"], abs=0.03)


def test_every_chunk_divides_the_mistakes_of_a_perfect_query():
    one, two = (checked.decoding(20_000, k, 100, 3) for k in (1, 2))
    for found in (one, two):
        assert found["measured"] == pytest.approx(found["expected"], rel=0.15)
    assert one["expected"] / two["expected"] == pytest.approx(100 / 3, rel=0.02)
