"""The stages on a run in a real S3 store, each on a machine of its own, and its disasters."""

import signal
import time

import pytest
from conftest import files_of, open_titles, small_config, start_stage

from solar_tf.catalogue.labels import remove_labels
from solar_tf.errors import UserError
from solar_tf.operations.transfer import pull
from solar_tf.preprocessing.stage import make_run
from solar_tf.retrieval.evaluation import infer
from solar_tf.retrieval.searcher import open_searcher
from solar_tf.run.directory import open_run, run_directory
from solar_tf.run.objects import Objects
from solar_tf.training.stage import train

STAGE_1 = ("labels", "vocab", "rows", "records", "index")


@pytest.fixture
def machine(s3, tmp_path, monkeypatch):
    """Go to another machine: one without a mirror."""

    def use(name):
        monkeypatch.setenv("SOLAR_MIRROR", str(tmp_path / name))
        return s3

    return use


def weights(files):
    return {name: content for name, content in files.items() if name.endswith(".npy")}


def test_all_stages_on_a_store_make_what_they_make_on_a_disk(machine, titles, trained, tmp_path):
    url = "s3://bucket/stages"
    machine("first")
    make_run(url, open_titles(titles), small_config(), 2)
    machine("second")
    train(url, chunks=[1], trainers=1)
    machine("third")
    train(url, trainers=1)
    assert not list(run_directory(url).root.glob("chunks/chunk_01"))  # it was complete
    machine("fourth")
    rows = infer(url, top_buckets=(7,))
    expected_rows = infer(trained.paths.root, top_buckets=(7,))
    assert [row["P@1"] for row in rows] == [row["P@1"] for row in expected_rows]

    assert not pull(url, tmp_path / "pulled").problems
    found, expected = files_of(tmp_path / "pulled"), files_of(trained.paths.root)
    assert found.keys() == expected.keys()
    for name in found:
        if name.startswith((*STAGE_1, "config", "predictions")) or name.endswith(".npy"):
            assert found[name] == expected[name], name

    machine("fifth")  # all is complete: nothing is done again
    before = Objects(url).sizes()
    make_run(url, open_titles(titles), small_config(), 1)
    train(url, trainers=1)
    infer(url, top_buckets=(7,))
    root = run_directory(url).root
    assert Objects(url).sizes() == before
    assert not [*root.rglob("*.tfrecord"), *root.rglob("hidden_kernel.npy")]
    infer(url, top_buckets=(7,), full=False)  # ranks anew, by the top buckets in the store
    assert [*root.glob("topm/*.npz"), *root.glob("index/*.pkl")]
    assert not [*root.rglob("*.tfrecord"), *root.rglob("hidden_kernel.npy")]

    with pytest.raises(UserError, match="solar pull s3://bucket/stages"):
        open_run(url)
    searcher = open_searcher(url)
    assert searcher.search("topic3")[0].label == 3
    with pytest.raises(UserError, match="the mirror of a run in a store"):
        remove_labels(searcher.run.paths.root, [3])


def test_another_config_is_refused_and_another_run_at_the_url_is_seen(machine, titles):
    url = "s3://bucket/replaced"
    s3 = machine("first")
    make_run(url, open_titles(titles), small_config(), 1)
    machine("second")
    with pytest.raises(UserError, match="hidden_dim=32, not 64"):
        make_run(url, open_titles(titles), small_config(hidden_dim=64), 1)
    s3.client().delete_object(Bucket="bucket", Key="replaced/config.json")
    with pytest.raises(UserError, match="no run here"):
        open_run(url, stage=True)
    with pytest.raises(UserError, match=r"whose config.json is missing"):
        make_run(url, open_titles(titles), small_config(hidden_dim=64), 1)
    objects = Objects(url)
    objects.delete(objects.sizes())
    make_run(url, open_titles(titles), small_config(hidden_dim=64), 1)
    machine("first")
    assert open_run(url, stage=True).config.hidden_dim == 64


def test_two_that_make_other_runs_at_once_notice(machine, titles):
    url = "s3://bucket/race"
    machine("first")
    paths = run_directory(url)
    make_run(url, open_titles(titles), small_config(), 1)
    paths.require_same()
    (paths.root / "config.json").write_text("mine")
    with pytest.raises(UserError, match="another preprocess.py"):
        paths.require_same()


def test_a_damaged_object_is_named_and_made_again(machine, titles, preprocessed):
    url = "s3://bucket/damaged"
    s3 = machine("first")
    make_run(url, open_titles(titles), small_config(), 1)
    machine("second")
    name = "records/train/chunk_00/shard_00000.tfrecord"
    s3.flip(f"damaged/{name}", 1000)
    with pytest.raises(UserError, match=f"s3://bucket/damaged/{name}: damaged"):
        train(url, chunks=[0])
    Objects(url).delete([name])
    make_run(url, open_titles(titles), small_config(), 1)
    machine("third")
    run = open_run(url, stage=True)
    run.sources("train", 0)
    assert (run.paths.root / name).read_bytes() == (preprocessed.paths.root / name).read_bytes()


def test_a_killed_training_goes_on_on_another_machine(machine, titles, tmp_path, capsys):
    url, config = "s3://bucket/resumed", small_config(num_chunks=1, epochs=20)
    make_run(tmp_path / "alone", open_titles(titles), config, 1)
    train(tmp_path / "alone")
    machine("first")
    make_run(url, open_titles(titles), config, 1)
    trainer = start_stage("train", "--run", url, "--trainers", "1")
    try:
        paths = run_directory(url)
        while not paths.stored(paths.training(0)):
            assert trainer.poll() is None, trainer.stdout.read()
            time.sleep(0.01)
        trainer.send_signal(signal.SIGKILL)
    finally:
        trainer.kill()
        trainer.communicate()
    assert not paths.has(paths.chunk(0))
    machine("second")
    capsys.readouterr()
    train(url)
    said = capsys.readouterr().out
    assert "chunk 0: goes on at epoch" in said
    assert f"Next: infer.py --run {url}" in said
    paths = run_directory(url)
    assert [path.name for path in paths.stored(paths.chunks)] == ["chunk_00"]  # no checkpoints
    machine("third")
    paths = run_directory(url)
    paths.fetch(paths.chunk(0))
    expected = weights(files_of(tmp_path / "alone", "chunks"))
    assert weights(files_of(paths.root, "chunks")) == expected
    assert len(expected) == 4
