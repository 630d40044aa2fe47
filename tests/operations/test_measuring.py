"""What is measured before a run: samples of the right size, whatever the machine's speed."""

import itertools
import types

import numpy as np
import pytest
from conftest import open_titles, small_config

from solar_tf.operations import measuring
from solar_tf.retrieval import forward


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(measuring, "MEASURE_SECONDS", 0.01)


@pytest.fixture(scope="module")
def sample(titles, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    return measuring.take_sample(open_titles(titles), small_config(), 1, folder)


def test_a_sample_tells_the_counts_of_all_rows(sample):
    assert (sample.num_rows, sample.num_queries, sample.num_labels) == (600, 120, 40)
    assert sample.tokens == pytest.approx(3, abs=0.5)  # two topics and a noise
    assert len(sample.batch["bucket_splits"]) == small_config().batch_size + 1


def test_a_batch_is_repeated_until_it_is_large_enough():
    splits = np.array([0, 1, 3], np.int32), np.arange(3, dtype=np.int32)
    batch = {"ids": np.array([7, 8, 9]), "row_splits": splits[0], "buckets": np.array([4, 5])}
    batch["bucket_splits"] = splits[1]
    large = measuring._of_size(batch, 5)
    assert large["row_splits"].tolist() == [0, 1, 3, 4, 6, 7, 9]
    assert large["ids"].tolist() == [7, 8, 9] * 3
    assert large["bucket_splits"].tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_ranking_among_more_labels_than_are_indexed_is_scaled(monkeypatch, tmp_path):
    ranked, real = [], measuring.rank_block

    def rank_block(*of):
        ranked.extend(real(*of))
        return [(*ranked[-1][:-1], measuring.RANKED / 1000)]

    monkeypatch.setattr(measuring, "MEASURED_LABELS", 100)
    monkeypatch.setattr(measuring, "rank_block", rank_block)
    for num_labels, seconds in (50, 0.001), (1000, 0.01):
        found = measuring.measure_rank(small_config(), num_labels, 1, tmp_path)
        assert found == pytest.approx(seconds)
    for (setting, ids, scores, candidates, spent), size in zip(ranked, (50, 100), strict=True):
        assert (setting.m, setting.score) == (small_config().num_buckets, "evidence")
        assert ids.shape == (measuring.RANKED, size)
        assert ids.max() == size - 1 and (candidates == size).all()  # all buckets are hit
        assert scores.min() > 0 and spent > 0


def test_forward_passes_are_those_of_all_queries_in_all_chunks(sample, monkeypatch):
    config = small_config()
    assert measuring.narrow(config, 4).hidden_dim == config.hidden_dim // 4
    ticks = itertools.count().__next__  # by this clock each pass takes a second
    clock = types.SimpleNamespace(perf_counter=ticks, thread_time=lambda: 0.0)
    monkeypatch.setattr(forward, "time", clock)
    monkeypatch.setattr(forward, "STREAMS", 1)

    def seconds(num_queries):
        inputs = config, config.feature_dim, False, sample.batch
        return measuring.measure_queries(*inputs, num_queries)[0]

    assert seconds(1) == seconds(1000) == config.num_chunks
    assert seconds(1001) == 2 * config.num_chunks
    assert seconds(1_000_000) == 1000 * config.num_chunks  # of which a few are measured
