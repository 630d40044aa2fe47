"""The load and geometry report: measured figures beside the paper's, of a real run."""

import json
import math

import numpy as np
import pytest
from conftest import run_solar, small_config

from solar_tf.analysis import geometry
from solar_tf.errors import UserError
from solar_tf.preprocessing import hashing
from solar_tf.run.directory import Run
from solar_tf.run.files import write_arrays, write_json
from solar_tf.run.index import build_index, save_index
from solar_tf.run.paths import RunDirectory


def make_run(root, num_labels=20_000, bucket_of=hashing.label_buckets):
    config = small_config(num_chunks=8, num_buckets=500)
    paths = RunDirectory(root)
    for chunk in range(config.num_chunks):
        buckets = bucket_of(num_labels, chunk, config.num_buckets)
        save_index(paths.index(chunk), build_index(buckets, config.num_buckets))
    dataset = {"name": "planted", "kind": "text", "num_labels": num_labels}
    return Run(paths, config, dataset, tuple(range(config.num_chunks)), {})


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path)


def test_hashed_labels_are_balanced_near_orthogonal_and_small(run):
    facts = geometry.measure(run, pairs=200_000)
    load, overlap = facts["load"], facts["overlap"]
    assert load["measured"]["mean"] == load["binomial"]["mean"] == pytest.approx(40)
    assert load["measured"]["std"] == pytest.approx(load["binomial"]["std"], rel=0.1)
    assert load["measured"]["p99"] == pytest.approx(load["binomial"]["p99"], abs=2)
    histogram = load["histogram"]
    assert sum(histogram["measured"]) == 8 * 500
    assert sum(histogram["binomial"]) == pytest.approx(8 * 500, rel=0.01)
    assert np.all(np.diff(histogram["edges"]) == np.diff(histogram["edges"])[0])
    assert overlap["expected_mean"] == 8 / 500
    error = abs(overlap["measured_mean"] - 8 / 500)
    assert error < 5 * overlap["standard_error"]
    assert sum(overlap["measured"]) == overlap["pairs"] == 200_000
    assert overlap["standard_error"] == pytest.approx(math.sqrt(8 / 500 * (1 - 1 / 500) / 200_000))
    memory = facts["memory"]
    assert memory["index_bytes"] == sum(run.paths.index(c).stat().st_size for c in range(8))
    assert memory["paper_bytes_per_label"] == 32
    assert memory["index_bytes_per_label"] == pytest.approx(32, rel=0.05)
    assert memory["dense_bytes_per_label"] == 4000


def test_a_lopsided_index_stands_out(tmp_path):
    def lopsided(num_labels, seed, num_buckets):
        return np.minimum(np.arange(num_labels) // 4, num_buckets - 1).astype(np.int32)

    facts = geometry.measure(make_run(tmp_path, 4000, lopsided), pairs=50_000)
    assert facts["load"]["measured"]["max"] == 2004
    assert facts["load"]["binomial"]["max"] < 40
    overlap = facts["overlap"]
    assert overlap["measured_mean"] > overlap["expected_mean"] + 100 * overlap["standard_error"]
    assert max(i for i, count in enumerate(overlap["measured"]) if count) == 8
    assert "standard errors from K/B" in geometry.render(facts)


def test_no_label_is_paired_with_itself():
    first, second = geometry._sample_pairs(3, 10_000, 0)
    assert not np.any(first == second)
    counts = np.bincount(first * 3 + second, minlength=9).reshape(3, 3)
    np.testing.assert_array_equal(np.diag(counts), 0)
    np.testing.assert_allclose(counts[~np.eye(3, dtype=bool)], 10_000 / 6, rtol=0.1)
    assert len(geometry._sample_pairs(1, 10, 0)[0]) == 0


def test_the_papers_own_example_of_operations():
    """§3.3: N=1M, K=16, m=50, B=30K."""
    nothing = {"postings": None, "candidates": None}
    found = geometry.operations(10**6, 16, 30_000, 50, nothing)
    worst = 16 * 50 * 10**6 / 30_000
    assert found["worst_candidates"] == pytest.approx(worst)
    assert found["formula_operations"] == pytest.approx(
        30_000 * math.log2(50) + worst + worst * math.log2(5)
    )
    assert found["dense_operations"] == pytest.approx(10**6 * 800 + 10**6 * math.log2(5))
    assert found["measured_operations"] is None
    lookups = worst * (1 + math.log2(5))
    assert found["dense_operations"] / lookups == pytest.approx(
        30_000 / (1 + math.log2(5)), rel=0.01
    )


def test_queries_are_measured_where_infer_has_been(run):
    facts = geometry.measure(run, pairs=100)
    assert [row["m"] for row in facts["queries"]] == [100, 50, 25]
    assert "Measured figures need infer.py" in geometry.render(facts)
    generator = np.random.default_rng(0)
    sizes = []
    for chunk in range(8):
        buckets = np.argsort(generator.random((30, 500)), axis=1)[:, :20].astype(np.int32)
        write_arrays(run.paths.topm(0, chunk), {"buckets": buckets})
        index = hashing.label_buckets(20_000, chunk, 500)
        sizes.append(np.bincount(index, minlength=500)[buckets[:, :10]].sum(axis=1))
    rows = [
        {"setting": "full", "score": "probability", "candidates": 20_000},
        {"setting": "m=10", "score": "probability", "candidates": 2500.5},
        {"setting": "m=10", "score": "evidence", "candidates": 2500.5},
    ]
    write_json(run.paths.metrics(), {"rows": rows})
    (row,) = geometry.measure(run, pairs=100)["queries"]
    assert row["candidates"] == 2500.5
    assert row["postings"] == pytest.approx(np.sum(sizes, axis=0).mean())
    assert row["measured_operations"] == pytest.approx(
        500 * math.log2(10) + row["postings"] + 2500.5 * math.log2(5)
    )
    assert row["random_candidates"] == pytest.approx(20_000 * (1 - (1 - 10 / 500) ** 8))
    shown = geometry.render(geometry.measure(run, pairs=100))
    assert "2,500" in shown
    assert "Measured figures need" not in shown


def test_the_report_as_a_program(preprocessed, tmp_path):
    done = run_solar("geometry", preprocessed.paths.root, "--pairs", 1000)
    assert (done.returncode, done.stderr) == (0, "")
    assert "N=40, K=3, B=24" in done.stdout
    assert all(len(line) < 160 for line in done.stdout.splitlines())
    done = run_solar("geometry", preprocessed.paths.root, "--json", "--pairs", 1000)
    assert json.loads(done.stdout) == geometry.measure(preprocessed, pairs=1000)
    done = run_solar("geometry", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}: no run here")


def test_a_damaged_index_is_an_error(run):
    run.paths.index(3).write_bytes(b"rubbish")
    with pytest.raises(UserError, match=r"chunk_03.pkl: .*run preprocess.py again"):
        geometry.measure(run, pairs=100)
