import math

import pytest

from solar_tf.analysis.theory import work


def test_operations_are_the_papers_formula():
    found = work.query_work(2000, 4, 100, 10)
    lookups = 4 * 10 * 2000 / 100
    expected = 100 * math.log2(10) + lookups * (1 + math.log2(5))
    assert found["formula"] == pytest.approx(expected)
    assert found["formula_all_chunks"] == pytest.approx(expected + 3 * 100 * math.log2(10))
    assert found["dense"] == pytest.approx(2000 * 40 + 2000 * math.log2(5))
    assert 0 < found["candidates"] <= lookups
    assert min(found["ms_select"], found["ms_rank"], found["ms_dense"]) > 0


def test_networks_and_labels_break_even_where_it_says():
    found = work.memory(1)
    at = work.memory(round(found["break_even"]))
    solar = at["index_bytes"] + at["network_bytes"]
    assert solar == pytest.approx(at["dense_bytes"], rel=1e-5)
    assert found["label_bytes"] == 64
    parameters = 100_000 * 4096 + 4096 + 4096 * 30_000 + 30_000
    assert found["network_bytes"] == 4 * 16 * parameters
