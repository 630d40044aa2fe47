"""What cluster tasks leave behind; what they do is seen on a real cluster: test_cluster."""

import pytest

from solar_tf.distributed.ranking import block_of, clear_mirror, own_files
from solar_tf.retrieval.rankers import RankFiles
from solar_tf.run.directory import run_directory
from solar_tf.run.paths import RunDirectory


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A run in a store that is not there yet."""
    pytest.importorskip("fsspec", reason="fsspec is not installed: pip install solar-tf[store]")
    monkeypatch.setenv("SOLAR_MIRROR", str(tmp_path / "mirror"))
    return run_directory(f"local://{tmp_path}/store")


def write_all(paths):
    """The files of two blocks in this evaluation, and one of another."""
    other = paths.evaluation("other") / "labels_of_shard_000.npy"
    files = RankFiles(paths.evaluation("this"), (0,), ((0, 5),))
    mine = [
        files.stacked("labels", 0),
        *(RankFiles(files.folder, (0,), ((0, 5),), block).queries("values", 0) for block in (0, 1)),
    ]
    for path in (other, *mine):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return files, other, mine


def test_a_file_of_queries_names_its_block(tmp_path):
    _, other, mine = write_all(RunDirectory(tmp_path))
    assert [block_of(path) for path in (other, *mine)] == [None, None, 0, 1]


def test_a_node_deletes_what_is_done_from_its_mirror(store):
    files, other, mine = write_all(store)
    clear_mirror(store, files, first=1)
    assert [path.exists() for path in (other, *mine)] == [False, True, False, True]


def test_files_that_all_nodes_see_are_the_drivers_to_delete(tmp_path):
    paths = RunDirectory(tmp_path)
    files, other, mine = write_all(paths)
    clear_mirror(paths, files, first=1)
    assert all(path.exists() for path in (other, *mine))


def test_files_go_to_the_store_when_all_of_them_are_written(store):
    files = RankFiles(store.evaluation("this"), (0,), ((0, 5),))
    with pytest.raises(ValueError, match="broken"), own_files(store, files) as own:
        own.stacked("labels", 0).touch()
        raise ValueError("broken")
    assert not store.has(files.stacked("labels", 0))
    with own_files(store, files) as own:
        own.stacked("labels", 0).touch()
    assert [path.name for path in store.stored(files.folder)] == ["labels_of_shard_000.npy"]
    assert [path.name for path in files.folder.iterdir()] == ["labels_of_shard_000.npy"]
