"""Stage 1: what its files hold, and what becomes of it when it is killed or misused."""

import json
import random
import re
import signal
import time

import numpy as np
import pytest
import tensorflow as tf
from conftest import files_of, open_titles, small_config, stage, start_stage, write_titles
from sklearn.utils import murmurhash3_32

from solar_tf.datasets import source
from solar_tf.datasets.dataset import open_files
from solar_tf.datasets.vocabulary import tokenize
from solar_tf.errors import UserError
from solar_tf.preprocessing.stage import preprocess
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_arrays
from solar_tf.run.index import load_index
from solar_tf.run.locks import try_lock


def examples(path):
    """The rows of a TFRecord file, parsed by TensorFlow's own classes."""
    for record in tf.data.TFRecordDataset(str(path)):
        feature = tf.train.Example.FromString(record.numpy()).features.feature
        ids, values = feature["ids"].int64_list.value, feature["values"].float_list.value
        yield dict(zip(ids, values, strict=True)), list(feature["buckets"].int64_list.value)


def test_records_hold_hashed_features_and_the_or_of_the_labels(titles, preprocessed):
    lines = (titles / "train.txt").read_text().splitlines()
    vocabulary = preprocessed.paths.vocabulary.read_text().splitlines()[1:]
    words = {line.split("\t")[0]: i for i, line in enumerate(vocabulary)}
    config = preprocessed.config
    for chunk in range(config.num_chunks):
        rows = list(examples(preprocessed.paths.records("train", chunk, 0)))
        assert len(rows) == len(lines)
        for line, (features, buckets) in zip(lines, rows, strict=True):
            labels, text = line.split("\t")
            expected = {}
            for word in tokenize(text):
                place = murmurhash3_32(words[word], seed=chunk) % config.feature_dim
                expected[place] = expected.get(place, 0) + 1
            assert features == expected
            assert buckets == sorted(
                {murmurhash3_32(int(i), seed=chunk) % config.num_buckets for i in labels.split(",")}
            )


def test_the_index_of_each_chunk_holds_every_label_in_its_bucket(preprocessed):
    for chunk in range(3):
        index = load_index(preprocessed.paths.index(chunk), 24, 40)
        for bucket in range(24):
            for label in index.bucket(bucket):
                assert murmurhash3_32(int(label), seed=chunk) % 24 == bucket


def test_tfidf_rows_have_the_chosen_length(titles, tmp_path):
    config = small_config(weighting="tfidf", feature_scale=3.0)
    run = preprocess(tmp_path, open_titles(titles), config, 1)
    rows = read_arrays(run.paths.rows("train", 0), "preprocess.py")
    lengths = np.sqrt(np.add.reduceat(rows["values"] ** 2, rows["feature_splits"][:-1]))
    np.testing.assert_allclose(lengths, np.full(600, 3), rtol=1e-5)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(source, "ROWS_PER_BLOCK", 100)


def test_workers_do_not_change_a_byte(titles, tmp_path, small_shards):
    runs = [
        preprocess(tmp_path / str(workers), open_titles(titles), small_config(), workers)
        for workers in (1, 2)
    ]
    one, two = (files_of(run.paths.root) for run in runs)
    assert len(one) > 30
    assert one == two


def test_only_what_is_missing_is_made_again(titles, tmp_path, small_shards):
    run = preprocess(tmp_path, open_titles(titles), small_config(), 1)
    before = files_of(tmp_path)
    kept = run.paths.records("train", 1, 0)
    stamp = kept.stat().st_mtime_ns
    for path in (run.paths.records("train", 1, 4), run.paths.index(2), run.paths.summary):
        path.unlink()
    preprocess(tmp_path, open_titles(titles), small_config(), 1)
    assert files_of(tmp_path) == before
    assert kept.stat().st_mtime_ns == stamp


def test_sparse_rows_of_the_xml_repo_keep_their_values(tmp_path):
    (tmp_path / "train.txt").write_text("3 50 7\n1,6 0:0.5 49:2\n 3:1\n0,0 7:1.25\n")
    run = preprocess(tmp_path / "run", open_files(tmp_path / "train.txt"), small_config(), 1)
    rows = read_arrays(run.paths.rows("train", 0), "preprocess.py")
    np.testing.assert_array_equal(rows["values"], np.float32([0.5, 2, 1, 1.25]))
    assert run.summary["train"] == {
        "shards": 1, "rows": 3, "unlabelled": 1, "duplicate_labels": 1, "featureless": 0,
    }  # fmt: skip
    assert run.summary["test"]["rows"] == 0
    assert run.dataset["num_labels"] == 7


def test_labels_are_counted_where_no_file_names_them(tmp_path):
    (tmp_path / "train.txt").write_text("0,3\tone two\n\ttwo\n")
    (tmp_path / "test.txt").write_text("9\tthree\n")
    dataset = open_files(tmp_path / "train.txt", tmp_path / "test.txt")
    run = preprocess(tmp_path / "run", dataset, small_config(), 1)
    assert run.dataset["num_labels"] == 10
    assert run.summary["test"]["featureless"] == 1
    np.testing.assert_array_equal(np.load(run.paths.label_counts)[:4], [1, 0, 0, 1])


def test_dense_rows_are_stored_once_and_targets_per_chunk(tmp_path):
    generator = np.random.default_rng(0)
    dense = generator.normal(size=(20, 8)).astype(np.float32)
    with open(tmp_path / "train.txt", "w") as file:
        file.write("20 8 5\n")
        for i, row in enumerate(dense):
            file.write(f"{i % 5} {' '.join(f'{value:.9g}' for value in row)}\n")
    dataset = open_files(tmp_path / "train.txt", format="dense-text")
    run = preprocess(tmp_path / "run", dataset, small_config(), 1)
    records = tf.data.TFRecordDataset(str(run.paths.inputs("train", 0)))
    stored = [tf.train.Example.FromString(r.numpy()).features.feature["dense"] for r in records]
    np.testing.assert_array_equal([row.float_list.value for row in stored], dense)
    chunk_row = next(iter(tf.data.TFRecordDataset(str(run.paths.records("train", 0, 0)))))
    assert list(tf.train.Example.FromString(chunk_row.numpy()).features.feature) == ["buckets"]
    assert run.input_dim == 8


def test_a_run_of_other_data_or_settings_is_refused_and_left_alone(titles, preprocessed, tmp_path):
    before = files_of(preprocessed.paths.root)
    other = write_titles(tmp_path / "other", num_train=50, seed=9)
    with pytest.raises(UserError, match="holds a run of other data"):
        preprocess(preprocessed.paths.root, open_titles(other), small_config(), 1)
    with pytest.raises(UserError, match="hidden_dim=32, not 64"):
        preprocess(preprocessed.paths.root, open_titles(titles), small_config(hidden_dim=64), 1)
    assert files_of(preprocessed.paths.root) == before


def test_two_at_once_do_not_mix(titles, preprocessed):
    with try_lock(preprocessed.paths.preprocess_lock) as free:
        assert free
        with pytest.raises(UserError, match=r"another preprocess.py is at work"):
            preprocess(preprocessed.paths.root, open_titles(titles), small_config(), 1)


def test_config_json_says_everything_needed_to_repeat_the_run(preprocessed):
    content = json.loads(preprocessed.paths.config.read_text())
    assert content["seeds"] == [0, 1, 2]
    assert content["dataset"]["files"]["train"]["sha256"]
    assert content["versions"].keys() >= {"python", "numpy", "scikit-learn"}
    assert content["config"] == preprocessed.config.to_dict()
    assert open_run(preprocessed.paths.root) == preprocessed


FLAGS = [f"--{name}={value}" for name, value in small_config().to_dict().items()]


def data_flags(folder):
    return [f"--{name}={folder}/{name}.txt" for name in ("train", "test", "labels")]


def test_killed_at_any_moment_it_ends_as_if_unbroken(tmp_path):
    data = write_titles(tmp_path / "data", num_train=40_000, num_test=20_000)
    flags = [*FLAGS, *data_flags(data), "--workers=2"]
    started = time.perf_counter()
    stage("preprocess", *flags, "--run", tmp_path / "whole")
    duration = time.perf_counter() - started
    random.seed(1)
    for _ in range(4):
        process = start_stage("preprocess", *flags, "--run", tmp_path / "broken")
        time.sleep(random.uniform(0.3, 0.9) * duration)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    stage("preprocess", *flags, "--run", tmp_path / "broken")
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")


A = "--train=a.txt"
BAD_INPUT = {  # flags, the content of a.txt, what the error must say
    "missing file": (["--train=nowhere.txt"], None, "nowhere.txt"),
    "empty file": ([A], "", "a.txt.*empty"),
    "too few rows": ([A], "3 5 5\n1 1:1\n", "a.txt.*3 rows"),
    "too many rows": ([A], "1 5 5\n1 1:1\n2 2:1\n", "a.txt:3: more rows"),
    "feature out of range": ([A], "1 50 5\n1 99:1\n", "a.txt:2: feature.*99.*50"),
    "label out of range": ([A], "1 5 5\n7 1:1\n", "a.txt:2: label.*7.*5"),
    "label without title": ([A, "--labels=labels.txt"], "0\tx\n2\ty\n", "a.txt:2: label.*2"),
    "non-numeric token": ([A], "1 5 5\n1 1:x\n", "a.txt:2: "),
    "non-numeric label": ([A, "--format=titles"], "0\tx\nb\ty\n", "a.txt:2: label"),
    "no tab": ([A, "--format=titles"], "0\tx\n1 y\n", "a.txt:2: "),
    "non-UTF-8 title": ([A], b"0\tx\n1\t\xff\xfe\n", "a.txt:2: .*UTF-8"),
    "no labels at all": ([A], "\tx\n\ty\n", "a.txt.*no row has a label"),
    "no words at all": ([A], "0\t!\n1\t-\n", "a.txt.*no words"),
    "unknown dataset": (["--dataset=nonsense"], None, "nonsense.*debian"),
    "unknown preset": (["--preset=nonsense"], None, "nonsense.*debian"),
    "unknown format": ([A, "--format=nonsense"], "0\tx\n", "nonsense.*titles"),
    "unknown flag": (["--nonsense"], None, "nonsense"),
    "stray argument": (["nonsense"], None, "nonsense.*--help"),
    "bad value": (["--num_chunks=0"], None, "num_chunks must be above 0"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_one_clear_line(name, tmp_path):
    flags, content, message = BAD_INPUT[name]
    (tmp_path / "labels.txt").write_text("one\ntwo\n")
    if content is not None:
        raw = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "a.txt").write_bytes(raw)
    done = stage("preprocess", *flags, "--run=run", check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith(("error:", "FATAL"))]
    assert len(lines) == 1, done.stderr
    assert re.search(message, lines[0]), lines[0]
    left = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert all(path.suffix == ".lock" for path in left), left


def test_what_was_lost_or_cut_short_is_made_again(titles, tmp_path, small_shards):
    run = preprocess(tmp_path, open_titles(titles), small_config(weighting="tfidf"), 1)
    before = files_of(tmp_path)
    assert {*run.files} == {*before} - {"config.json", "records/summary.json"}
    cut = run.paths.records("train", 2, 3)
    cut.write_bytes(cut.read_bytes()[:-1])
    for path in (run.paths.index(1), run.paths.vocabulary, run.paths.label_counts):
        path.unlink()
    run.paths.rows("test", 0).unlink()
    preprocess(tmp_path, open_titles(titles), small_config(weighting="tfidf"), 1)
    assert files_of(tmp_path) == before


def test_records_without_their_config_are_not_mixed_with_others(titles, tmp_path):
    run = preprocess(tmp_path, open_titles(titles), small_config(), 1)
    run.paths.config.unlink()
    with pytest.raises(UserError, match=r"records: belongs to a run whose config\.json is missing"):
        preprocess(tmp_path, open_titles(titles), small_config(num_buckets=5), 1)


def test_an_unfinished_run_of_an_older_format_is_refused(titles, tmp_path):
    run = preprocess(tmp_path, open_titles(titles), small_config(), 1)
    content = json.loads(run.paths.config.read_text())
    del content["checksum"], content["files"]
    run.paths.config.write_text(json.dumps(content | {"format": 1}))
    run.paths.summary.unlink()
    with pytest.raises(UserError, match=r"unfinished run of an older version: delete it"):
        preprocess(tmp_path, open_titles(titles), small_config(), 1)


@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
def test_values_too_large_for_float32_are_named_by_their_row(tmp_path, weighting):
    rows = ["1 0:1", "1 0:3e38 1:3e38 2:3e38 3:3e38"]
    (tmp_path / "train.txt").write_text("2 4 2\n" + "\n".join(rows) + "\n")
    config = small_config(feature_dim=1, weighting=weighting)
    with pytest.raises(UserError, match=r"train\.txt: row 2: its features are too large"):
        preprocess(tmp_path / "run", open_files(tmp_path / "train.txt"), config, 1)
