import shutil
from dataclasses import replace

import numpy as np
import pytest

from solar_tf.config import SolarConfig
from solar_tf.retrieval import ranking
from solar_tf.retrieval.label_shards import label_ranges
from solar_tf.retrieval.rankers import FULL, RankFiles, Setting, rank_block, stack_indexes
from solar_tf.run.changes import read_delta
from solar_tf.run.directory import Run
from solar_tf.run.index import build_index, save_index
from solar_tf.run.paths import RunDirectory

NUM_LABELS, NUM_BUCKETS, NUM_QUERIES, K, FLOOR = 150, 12, 300, 20, 1e-3
CHUNKS = (0, 2, 3)  # any subset of a run's chunks will do
MS = (NUM_BUCKETS, 5, 1)


class Block:
    """A block of queries on disk as stage 3 lays it out, and the same in memory."""

    def __init__(self, folder):
        generator = np.random.default_rng(0)
        paths = RunDirectory(folder / "run")
        self.label_buckets = generator.integers(0, NUM_BUCKETS, (len(CHUNKS), NUM_LABELS))
        indexes = [build_index(buckets, NUM_BUCKETS) for buckets in self.label_buckets]
        for chunk, index in zip(CHUNKS, indexes, strict=True):
            save_index(paths.index(chunk), index)
        self.offsets = np.stack([index.offsets for index in indexes])
        self.labels = np.stack([index.labels for index in indexes])
        config = SolarConfig(num_chunks=4, num_buckets=NUM_BUCKETS)
        run = Run(paths, config, {"num_labels": NUM_LABELS}, seeds=(), summary={})
        self.run, self.delta = run, read_delta(run)
        self.files = RankFiles(folder / "scratch", CHUNKS, ((0, NUM_LABELS),))
        stack_indexes(run, self.delta, self.files, full=True, shards=[0])
        self.probabilities = generator.random(
            (NUM_QUERIES, len(CHUNKS), NUM_BUCKETS), dtype=np.float32
        )
        for i, chunk in enumerate(CHUNKS):
            buckets, values = ranking.top_buckets(self.probabilities[:, i], NUM_BUCKETS)
            np.save(self.files.queries("buckets", chunk), buckets)
            np.save(self.files.queries("values", chunk), values)
            np.save(self.files.queries("probabilities", chunk), self.probabilities[:, i])

    def scores(self, m, score):
        """Of every label for every query by plain arithmetic, [Q, N]; -inf for no candidate."""
        weights = self.probabilities.astype(np.float64)
        if score == "evidence":
            weights = np.log(np.maximum(weights, FLOOR) / FLOOR)
        if m != FULL:
            cut = np.sort(self.probabilities, axis=2)[:, :, -m, None]
            weights = np.where(self.probabilities >= cut, weights, np.nan)
        parts = [weights[:, i, buckets] for i, buckets in enumerate(self.label_buckets)]
        found = ~np.isnan(parts).all(axis=0)
        return np.where(found, np.nansum(parts, axis=0), -np.inf)


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    return Block(tmp_path_factory.mktemp("block"))


SETTINGS = [Setting(m, score) for m in (FULL, *MS) for score in ("probability", "evidence")]


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def ranked(request, block):
    results = rank_block(block.files, SETTINGS, NUM_QUERIES, K, FLOOR, request.param)
    return {setting: result for setting, *result in results}


def test_every_setting_comes_once_and_in_order_with_all_queries(ranked):
    assert list(ranked) == SETTINGS
    for ids, scores, _, spent in ranked.values():
        assert ids.shape == scores.shape == (NUM_QUERIES, K)
        assert spent > 0


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_rankings_are_those_of_plain_arithmetic(ranked, block, setting):
    ids, scores, candidates, _ = ranked[setting]
    expected = block.scores(setting.m, setting.score)
    best = -np.sort(-expected, axis=1)[:, :K]
    there = np.isfinite(best)
    np.testing.assert_allclose(scores[there], best[there], rtol=1e-4, atol=1e-5)
    rows = np.broadcast_to(np.arange(NUM_QUERIES)[:, None], ids.shape)
    np.testing.assert_allclose(expected[rows[there], ids[there]], best[there], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(candidates, np.isfinite(expected).sum(axis=1))


@pytest.mark.parametrize("score", ["probability", "evidence"])
def test_all_buckets_kept_is_the_same_as_full(ranked, score):
    full, all_kept = ranked[Setting(FULL, score)], ranked[Setting(NUM_BUCKETS, score)]
    np.testing.assert_array_equal(full[0], all_kept[0])
    np.testing.assert_array_equal(full[1], all_kept[1])


def test_stacked_indexes_are_those_of_the_chunks_chosen(block):
    np.testing.assert_array_equal(np.load(block.files.stacked("offsets", 0)), block.offsets)
    np.testing.assert_array_equal(np.load(block.files.stacked("labels", 0)), block.labels)
    np.testing.assert_array_equal(
        np.load(block.files.stacked("label_buckets", 0)), block.label_buckets
    )


def test_shards_of_the_labels_rank_as_all_of_them_do(ranked, block, tmp_path):
    shutil.copytree(block.files.folder, tmp_path, dirs_exist_ok=True)
    ranges = tuple(label_ranges(NUM_LABELS, 4))
    files = replace(block.files, folder=tmp_path, ranges=ranges)
    stack_indexes(block.run, block.delta, files, full=True, shards=range(4))
    assert np.load(files.stacked("labels", 3)).shape == (len(CHUNKS), 38)
    for setting, ids, scores, candidates, _ in rank_block(
        files, SETTINGS, NUM_QUERIES, K, FLOOR, 1
    ):
        np.testing.assert_array_equal(ids, ranked[setting][0])
        np.testing.assert_array_equal(scores, ranked[setting][1])
        np.testing.assert_array_equal(candidates, ranked[setting][2])


def test_settings_have_names_for_people_and_keys_for_files():
    assert (Setting(FULL, "evidence").name, Setting(25, "evidence").name) == ("full", "m=25")
    assert len({setting.key for setting in SETTINGS}) == len(SETTINGS)
