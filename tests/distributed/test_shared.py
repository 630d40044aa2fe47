import pickle
from pathlib import Path

import pytest

from solar_tf.distributed import shared
from solar_tf.errors import UserError
from solar_tf.run.directory import run_directory
from solar_tf.run.paths import RunDirectory


def test_a_path_travels_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    paths = pickle.loads(shared.dumps({"run": RunDirectory(Path("run")), "number": 3}))
    assert paths == {"run": RunDirectory(tmp_path / "run"), "number": 3}


def test_below_the_shared_root_it_arrives_below_the_other_machines(monkeypatch):
    monkeypatch.setenv(shared.VARIABLE, "/mnt/here")
    message = shared.dumps([Path("/mnt/here/runs/a"), Path("/elsewhere/b")])
    monkeypatch.setenv(shared.VARIABLE, "/data/there")
    assert pickle.loads(message) == [Path("/data/there/runs/a"), Path("/elsewhere/b")]
    monkeypatch.delenv(shared.VARIABLE)  # a machine that mounts it where the sender does
    assert pickle.loads(message) == [Path("/mnt/here/runs/a"), Path("/elsewhere/b")]


def test_in_a_mirror_it_arrives_in_the_other_machines_mirror(monkeypatch, tmp_path):
    monkeypatch.setenv("SOLAR_MIRROR", str(tmp_path / "here"))
    paths = run_directory("s3://bucket/run")
    message = shared.dumps([paths.root, paths.scratch, tmp_path])
    monkeypatch.setenv("SOLAR_MIRROR", str(tmp_path / "there"))
    other = run_directory("s3://bucket/run")
    assert paths.root != other.root
    assert pickle.loads(message) == [other.root, other.scratch, tmp_path]


def test_the_mark_of_a_run_stays_and_a_machine_that_sees_another_says_so(tmp_path):
    assert shared.mark("s3://bucket/run") is None  # a store needs none
    path, content = shared.mark(tmp_path / "run")
    assert shared.mark(tmp_path / "run") == (path, content)
    shared.require_mark(path, content)
    assert shared.mark(tmp_path / "other")[1] != content
    path.write_text("of another disk")
    with pytest.raises(UserError, match="another directory of this name.*SOLAR_SHARED"):
        shared.require_mark(path, content)
    path.unlink()
    with pytest.raises(UserError, match="does not see the run there"):
        shared.require_mark(path, content)
