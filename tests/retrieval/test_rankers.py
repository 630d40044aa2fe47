import shutil
from dataclasses import replace

import numpy as np
import pytest

from solar_tf.config import SolarConfig
from solar_tf.retrieval import ranking
from solar_tf.retrieval.label_table import LabelTable
from solar_tf.retrieval.options import SearchOptions
from solar_tf.retrieval.rankers import RankFiles, rank_block, stack_indexes
from solar_tf.retrieval.reference import rank_simple
from solar_tf.run.changes import read_delta
from solar_tf.run.directory import Run
from solar_tf.run.index import build_index, save_index
from solar_tf.run.paths import RunDirectory

NUM_LABELS, NUM_BUCKETS, NUM_QUERIES, K, FLOOR = 150, 12, 300, 20, 1e-3
CHUNKS = (0, 2, 3)  # any subset of a run's chunks will do


class Block:
    """A block of queries on disk as stage 3 lays it out, and the same in memory."""

    def __init__(self, folder):
        generator = np.random.default_rng(0)
        paths = RunDirectory(folder / "run")
        self.label_buckets = generator.integers(0, NUM_BUCKETS, (len(CHUNKS), NUM_LABELS))
        indexes = [build_index(buckets, NUM_BUCKETS) for buckets in self.label_buckets]
        for chunk, index in zip(CHUNKS, indexes, strict=True):
            save_index(paths.index(chunk), index)
        self.labels = LabelTable.stack(indexes, len(CHUNKS))
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

    def expected(self, query, options):
        """The ranking of one query by the reference."""
        table, of = self.labels, (options.k, options.m, options.score, options.floor)
        return rank_simple(self.probabilities[query], table.offsets, table.labels, *of)


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    return Block(tmp_path_factory.mktemp("block"))


SETTINGS = [
    SearchOptions(K, m, score, floor=FLOOR)
    for m in (None, NUM_BUCKETS, 5, 1)
    for score in ranking.SCORES
]


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def ranked(request, block):
    results = rank_block(block.files, SETTINGS, NUM_QUERIES, request.param)
    return {setting: result for setting, *result in results}


def test_every_setting_comes_once_and_in_order_with_all_queries(ranked):
    assert list(ranked) == SETTINGS
    for ids, scores, _, spent in ranked.values():
        assert ids.shape == scores.shape == (NUM_QUERIES, K)
        assert spent > 0


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_rankings_are_those_of_the_reference(ranked, block, setting):
    ids, scores, candidates, _ = ranked[setting]
    for query in range(NUM_QUERIES):
        best, sums, count = block.expected(query, setting)
        np.testing.assert_array_equal(ids[query, : len(best)], best)
        np.testing.assert_array_equal(scores[query, : len(best)], sums)
        assert (ids[query, len(best) :] == -1).all() and candidates[query] == count


def test_stacked_indexes_are_those_of_the_chunks_chosen(block):
    for name in ("offsets", "labels", "label_buckets"):
        stacked = np.load(block.files.stacked(name, 0))
        np.testing.assert_array_equal(stacked, getattr(block.labels, name))


def test_labels_that_were_removed_are_not_ranked(block, tmp_path):
    shutil.copytree(block.files.folder, tmp_path, dirs_exist_ok=True)
    delta = replace(block.delta, removed=np.arange(0, NUM_LABELS, 2, dtype=np.int32))
    files = replace(block.files, folder=tmp_path)
    stack_indexes(block.run, delta, files, full=True, shards=[0])
    for _, ids, _, candidates, _ in rank_block(files, SETTINGS, NUM_QUERIES, 1):
        assert (ids[ids >= 0] % 2 == 1).all()
        assert (candidates <= NUM_LABELS // 2).all()


def test_settings_have_names_for_people_and_keys_for_files():
    assert (SearchOptions(m=None).setting, SearchOptions(m=25).setting) == ("full", "m=25")
    assert len({setting.key for setting in SETTINGS}) == len(SETTINGS)
