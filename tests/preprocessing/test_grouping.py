"""Grouped chunks: labels with like rows in one bucket, balanced, and the same in every stage."""

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import files_of, open_titles, small_config, stage
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.config import SolarConfig
from solar_tf.datasets.arrays import open_arrays
from solar_tf.errors import UserError
from solar_tf.preprocessing import grouping, hashing
from solar_tf.preprocessing.features import scale_rows
from solar_tf.preprocessing.grouping import balanced_clusters
from solar_tf.preprocessing.stage import preprocess
from solar_tf.retrieval.evaluation import infer
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_json
from solar_tf.run.index import load_index, open_index
from solar_tf.training.stage import train

NUM_TOPICS, LABELS_OF_A_TOPIC = 8, 5


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    """Titles of eight topics; the labels of a row are two of the five of its topic."""
    folder = tmp_path_factory.mktemp("topics")
    generator = np.random.default_rng(0)
    for split, count in (("train", 600), ("test", 80)):
        with open(folder / f"{split}.txt", "w") as file:
            for _ in range(count):
                topic = generator.integers(NUM_TOPICS)
                chosen = topic + NUM_TOPICS * generator.choice(LABELS_OF_A_TOPIC, 2, replace=False)
                words = " ".join(f"sort{topic}{c}" for c in generator.choice(list("abcdef"), 3))
                labels = ",".join(map(str, sorted(chosen)))
                file.write(f"{labels}\t{words} noise{generator.integers(30)}\n")
    titles = (f"item{i} sort{i % NUM_TOPICS}a\n" for i in range(NUM_TOPICS * LABELS_OF_A_TOPIC))
    (folder / "labels.txt").write_text("".join(titles))
    return folder


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.25, [0, 4, 8]), (0, []), (0.5, [0, 2, 4, 6, 8]), (0.3, [0, 4, 7]), (1, [*range(10)])],
)
def test_grouped_chunks_are_spread_evenly(share, expected):
    config = SolarConfig(grouped_share=share)
    assert [chunk for chunk in range(10) if config.is_grouped(chunk)] == expected


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_no_more_chunks_are_grouped_than_there_are(share):
    with pytest.raises(UserError, match=r"grouped_share must be from 0 to 1, not -?\d"):
        SolarConfig(grouped_share=share)


@pytest.mark.parametrize("workers", [1, 2])
def test_labels_of_a_topic_share_a_bucket_in_grouped_chunks_alone(topics, tmp_path, workers):
    config = small_config(num_buckets=NUM_TOPICS, grouped_share=0.3)
    run = preprocess(tmp_path / "run", open_titles(topics), config, workers)
    num_labels = run.dataset["num_labels"]
    for chunk in range(config.num_chunks):
        buckets = load_index(run.paths.index(chunk)).label_buckets()
        assert np.array_equal(buckets, open_index(run, chunk).label_buckets())
        by_topic = buckets.reshape(LABELS_OF_A_TOPIC, NUM_TOPICS)
        together = np.mean([np.bincount(column).max() for column in by_topic.T])
        if chunk == 0:
            assert together > 4
            assert (np.bincount(buckets, minlength=NUM_TOPICS) == LABELS_OF_A_TOPIC).all()
        else:
            assert together < 4
            hashed = hashing.label_buckets(num_labels, run.seeds[chunk], NUM_TOPICS)
            assert np.array_equal(buckets, hashed)


def test_targets_are_those_of_the_index(topics, tmp_path):
    from solar_tf.training.batches import read_batches

    run = preprocess(tmp_path / "run", open_titles(topics), small_config(grouped_share=1), 1)
    lines = (topics / "train.txt").read_text().splitlines()
    buckets = load_index(run.paths.index(1)).label_buckets()
    batch = next(iter(read_batches(**run.sources("train", 1), batch_size=len(lines))))
    splits, found = batch["bucket_splits"].numpy(), batch["buckets"].numpy()
    for line, start, stop in zip(lines, splits, splits[1:], strict=False):
        labels = np.array(line.split("\t")[0].split(","), int)
        assert set(found[start:stop]) == set(buckets[labels])


def test_a_killed_grouping_ends_with_the_same_files(topics, tmp_path):
    config = small_config(grouped_share=1)
    whole = preprocess(tmp_path / "whole", open_titles(topics), config, 1)
    run = preprocess(tmp_path / "run", open_titles(topics), config, 1)
    for path in (run.paths.index(1), run.paths.summary, run.paths.records("train", 1, 0)):
        path.unlink()
    run = preprocess(tmp_path / "run", open_titles(topics), config, 1)
    folders = ("index", "records", "labels")
    assert files_of(run.paths.root, *folders) == files_of(whole.paths.root, *folders)


def test_a_grouped_run_goes_through_all_stages(topics, tmp_path):
    flags = [f"--{name}={topics / name}.txt" for name in ("train", "test", "labels")]
    flags += ["--num_buckets=16", "--num_chunks=4", "--hidden_dim=16", "--feature_dim=64"]
    flags += ["--bias_start=log_odds", "--grouped_share=0.5", "--epochs=6", "--batch_size=32"]
    run = f"--run={tmp_path / 'run'}"
    stage("preprocess", *flags, run)
    stage("train", run)
    stage("infer", run)
    rows = {
        (row["setting"], row["score"]): row
        for row in read_json(tmp_path / "run" / "metrics.json")["rows"]
    }
    assert rows["full", "evidence"]["R@100"] == 100  # of 40 labels
    stage("infer", run, "--nogrouped", "--top_buckets=3")
    alone = read_json(tmp_path / "run" / "metrics_2_random_chunks.json")
    assert alone["num_chunks"] == 2
    whole = read_json(tmp_path / "run" / "metrics.json")
    assert whole["num_chunks"] == 4  # left as it was
    opened = open_run(tmp_path / "run")
    assert opened.config.grouped_share == 0.5
    assert opened.choose_chunks() == (0, 1, 2, 3)
    assert opened.choose_chunks(grouped=False) == (1, 3)
    answers = stage("infer", run, "--nogrouped", "--query=sort3a").stdout
    found_in = {line.split("|")[-2].strip() for line in answers.splitlines() if "item" in line}
    assert found_in == {"2"}  # of the four chunks
    refused = stage("infer", run, "--nogrouped", "--num_chunks=3", check=False)
    assert "--num_chunks 3: this run has 2 chunks that are not grouped" in refused.stderr


def test_dense_rows_are_grouped_as_well(tmp_path):
    generator = np.random.default_rng(0)
    topics = generator.integers(4, size=200)
    rows = np.eye(8)[topics] + generator.normal(0, 0.05, (200, 8))
    labels = topics + 4 * generator.integers(3, size=200)
    sums = grouping.sum_by_label(rows, np.arange(201), labels, 12)
    assert np.allclose(sums, np.eye(12)[labels].T @ rows)
    config = small_config(num_buckets=4, grouped_share=1)
    run = preprocess(tmp_path / "run", open_arrays(rows, labels[:, None].tolist()), config, 1)
    for chunk in range(config.num_chunks):
        buckets = load_index(run.paths.index(chunk)).label_buckets()
        assert all(len(set(buckets[topic::4])) == 1 for topic in range(4))
        assert (np.bincount(buckets) == 3).all()


def test_profiles_keep_the_heaviest_features_of_a_row():
    splits = np.array([0, 20, 20, 22])
    ids = np.concatenate([np.arange(20), [3, 5]]).astype(np.int32)
    values = np.concatenate([np.arange(20), [2, 1]]).astype(np.float32)
    kept = grouping.heaviest(splits, ids, values, 30).toarray()
    assert np.array_equal(np.flatnonzero(kept[0]), np.arange(20 - grouping.HEAVIEST, 20))
    assert not kept[1].any() and kept[2, 3] == 2 and kept[2, 5] == 1
    lengths = np.linalg.norm(scale_rows(sp.csr_matrix(kept)).toarray(), axis=1)
    assert np.allclose(lengths, [1, 0, 1])


def test_grouped_chunks_help_where_labels_go_together(topics, tmp_path):
    """Four random chunks of few buckets confuse topics; with a grouped one they do so less."""
    found = {}
    for share in (0, 0.5):
        root = tmp_path / f"run{share}"
        config = small_config(
            num_chunks=2, num_buckets=8, grouped_share=share, bias_start="log_odds", epochs=10
        )
        preprocess(root, open_titles(topics), config, 1)
        train(root)
        infer(root, top_buckets=(3,), full=True, workers=1)
        rows = read_json(open_run(root).paths.metrics())["rows"]
        found[share] = next(
            row["P@5"] for row in rows if (row["setting"], row["score"]) == ("full", "evidence")
        )
    assert found[0.5] > found[0]


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 80), count=st.integers(1, 20), seed=st.integers(0, 99))
def test_clusters_partition_the_rows_evenly(rows, count, seed):
    generator = np.random.default_rng(seed)
    splits, order = balanced_clusters(generator.normal(size=(rows, 4)), count, generator)
    assert sorted(order) == list(range(rows))
    sizes = np.diff(splits)
    assert len(sizes) == count and splits[0] == 0 and splits[-1] == rows
    assert sizes.max() - sizes.min() <= np.ceil(np.log2(count)) + 1


@pytest.mark.parametrize("sparse", [False, True])
def test_like_rows_share_a_cluster(sparse):
    generator = np.random.default_rng(0)
    topics = generator.integers(20, size=600)
    rows = np.zeros((600, 50), np.float32)
    rows[np.arange(600), topics] = 1
    rows[np.arange(600), 20 + generator.integers(30, size=600)] = 0.7  # noise
    inputs = sp.csr_matrix(rows) if sparse else rows
    splits, order = balanced_clusters(inputs, 4, np.random.default_rng(0))
    clusters = np.empty(600, int)
    clusters[order] = np.repeat(np.arange(4), np.diff(splits))
    shares = [np.bincount(clusters[topics == t]).max() / np.sum(topics == t) for t in range(20)]
    assert np.mean(shares) > 0.8  # at random it would be a quarter and a little
