"""The cost model against what runs really take up; times are compared in benchmarks/."""

import pytest
from conftest import open_titles, small_config

from solar_tf.config import load_preset
from solar_tf.operations import estimate, measuring


@pytest.fixture(scope="module", autouse=True)
def quick():
    patch = pytest.MonkeyPatch()
    patch.setattr(measuring, "MEASURE_SECONDS", 0.01)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def found(titles):
    return estimate.estimate(open_titles(titles), small_config(), workers=2)


def bytes_below(*folders):
    return sum(f.stat().st_size for folder in folders for f in folder.rglob("*") if f.is_file())


def test_disk_is_foreseen(found, trained):
    root = trained.paths.root
    assert found.records_bytes == pytest.approx(
        bytes_below(root / "records", root / "rows"), rel=0.25
    )
    # A pickle has a header, which counts in an index as small as this.
    assert found.index_bytes == pytest.approx(bytes_below(root / "index"), abs=3 * 400)
    weights = sum(f.stat().st_size for f in root.glob("chunks/chunk_*/*.npy"))
    assert found.weights_bytes == pytest.approx(weights, rel=0.05)


def test_times_are_positive_and_add_up(found):
    assert "does not fit" not in found.measured
    assert found.chunk_seconds == pytest.approx(found.step_seconds * 38 * 6)
    for name in ("preprocess_seconds", "ms_forward", "ms_top_m", "ms_rank"):
        assert getattr(found, name) > 0, name
    assert 0 < found.gpu_chunk_seconds["A100"] < found.gpu_chunk_seconds["V100"]


def test_the_papers_books_need_ten_gigabytes_a_trainer():
    parameters, memory, weights, index = estimate.sizes(load_preset("books"), 100_000, 1_675_657)
    assert parameters == 100_000 * 4096 + 4096 + 4096 * 30_000 + 30_000
    assert 8e9 < memory < 10e9
    assert weights == 16 * 4 * parameters
    # "Only 16 integers per label" (§5.2), and the offsets of the buckets.
    assert index == 4 * 16 * (1_675_657 + 30_001)


def test_what_does_not_fit_is_warned_of_with_a_setting_that_does(
    titles, found, monkeypatch, capsys
):
    for module in (estimate, measuring):
        monkeypatch.setattr(module, "available_memory", lambda: found.train_memory / 3)
    report = estimate.report("nowhere/yet", open_titles(titles), small_config(), 1)
    said = capsys.readouterr().out
    assert "--hidden_dim 8 would fit" in said
    assert "the full size does not fit" in report.measured


def test_a_start_along_the_gradient_takes_a_part_of_an_epoch_and_nothing_is_written(
    titles, found, monkeypatch, capsys, tmp_path
):
    """Memory that measuring has taken is not missed afterwards."""
    free, measure_queries = [2 * found.train_memory], estimate.measure_queries
    monkeypatch.setattr(estimate, "available_memory", lambda: free[-1])
    monkeypatch.setattr(
        estimate, "measure_queries", lambda *of: (free.append(0), measure_queries(*of))[-1]
    )
    config = small_config(input_start="gradient")
    report = estimate.report(tmp_path / "run", open_titles(titles), config, 1)
    epochs = 6 + estimate.START_SHARE
    assert report.chunk_seconds == pytest.approx(report.step_seconds * 38 * epochs)
    assert "would fit" not in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
