"""Opening a run, and what it offers."""

import pytest

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError
from solar_tf.run.checksums import file_facts
from solar_tf.run.directory import open_run
from solar_tf.run.files import read_json, write_json
from solar_tf.run.manifest import FORMAT
from solar_tf.run.paths import RunDirectory


@pytest.fixture
def run(tmp_path):
    """A run directory as preprocess.py leaves it."""
    paths = RunDirectory(tmp_path)
    paths.vocabulary.parent.mkdir()
    paths.vocabulary.write_text("words")
    files = {"vocab/words.txt": file_facts(paths.vocabulary)}
    dataset = {"name": "toy", "kind": "text", "num_features": 512, "num_labels": 9}
    content = {
        "format": FORMAT,
        "dataset": dataset | {"propensity": [0.55, 1.5], "files": {}},
        "seeds": [0, 1, 2],
        "config": SolarConfig(num_chunks=3, feature_dim=77).to_dict(),
        "files": files,
    }
    write_json(paths.config, content)
    facts = {}
    for path in (paths.records("train", 1, 0), paths.inputs("train", 0)):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"rows")
        facts[paths.name_of(path)] = file_facts(path)
    counts = {"train": {"rows": 5, "shards": 1}, "test": {"rows": 0, "shards": 0}}
    write_json(paths.summary, counts | {"files": facts})
    return paths


def test_a_complete_run_opens_with_what_was_written(run):
    opened = open_run(run.root)
    assert opened.config == SolarConfig(num_chunks=3, feature_dim=77)
    assert opened.seeds == (0, 1, 2)
    assert opened.summary["train"]["rows"] == 5
    assert opened.trained_chunks() == []
    run.chunk(2).mkdir(parents=True)
    run.training(0).mkdir()
    assert opened.trained_chunks() == [2]


def test_any_number_of_trained_chunks_is_a_smaller_model(run):
    opened = open_run(run.root)
    with pytest.raises(UserError, match=r"0 of 3 chunks are trained: run train\.py --run \S+$"):
        opened.choose_chunks()
    for chunk in (0, 2):
        run.chunk(chunk).mkdir(parents=True)
    with pytest.raises(UserError, match=r"2 of 3 .* or use those with --num_chunks 2$"):
        opened.choose_chunks()
    assert opened.choose_chunks(2) == (0, 2)
    assert opened.choose_chunks(1) == (0,)
    run.chunk(1).mkdir()
    assert opened.choose_chunks() == opened.choose_chunks(3) == (0, 1, 2)
    with pytest.raises(UserError, match=r"--num_chunks 4: this run has 3 chunks"):
        opened.choose_chunks(4)


@pytest.mark.parametrize(("kind", "dim"), [("text", 77), ("sparse", 77), ("dense", 512)])
def test_dense_inputs_keep_their_width_and_others_are_hashed(run, kind, dim):
    content = read_json(run.config)
    content["dataset"]["kind"] = kind
    write_json(run.config, content)
    assert open_run(run.root).input_dim == dim


def test_a_stage_before_preprocess_is_told_to_run_it(run, tmp_path):
    root = tmp_path / "run"
    with pytest.raises(
        UserError, match=f"^{root}: no run here .*: run preprocess.py --run {root}$"
    ):
        open_run(root)
    assert not root.exists()
    run.summary.unlink()
    with pytest.raises(UserError, match=r"not complete: run preprocess\.py"):
        open_run(run.root)


def test_what_is_used_whole_is_verified_when_a_run_is_opened(run):
    run.vocabulary.write_text("w0rds")
    with pytest.raises(UserError, match=r"words\.txt: damaged.*delete it and run preprocess\.py"):
        open_run(run.root)
    run.vocabulary.unlink()
    with pytest.raises(UserError, match=r"words\.txt: No such file.*run preprocess\.py again"):
        open_run(run.root)


def test_the_files_of_rows_are_whole_by_their_sizes(run):
    records = run.records("train", 1, 0)
    assert open_run(run.root).sources("train", 1) == {"paths": [records]}
    assert open_run(run.root).sources("test", 1) == {"paths": []}
    records.write_bytes(b"row")
    with pytest.raises(UserError, match=r"shard_00000\.tfrecord: missing or cut short: run prepro"):
        open_run(run.root).sources("train", 1)
    with pytest.raises(UserError, match=r"missing or cut short"):  # the manifest has no chunk 2
        open_run(run.root).sources("train", 2)


def test_dense_inputs_are_a_source_of_every_chunk(run):
    content = read_json(run.config)
    content["dataset"]["kind"] = "dense"
    write_json(run.config, content)
    sources = open_run(run.root).sources("train", 1)
    assert (sources["dense_paths"], sources["dense_dim"]) == ([run.inputs("train", 0)], 512)
    run.inputs("train", 0).unlink()
    with pytest.raises(UserError, match=r"inputs/shard_00000\.tfrecord: missing or cut short"):
        open_run(run.root).sources("train", 1)
