"""URLs, and errors of the user that are one line."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT, run_solar, stage

from solar_tf.errors import UserError
from solar_tf.run.directory import open_run
from solar_tf.run.objects import Objects, local_path, url_of


def test_a_run_is_at_a_path_or_at_a_url():
    assert url_of("runs/a") is None
    assert url_of("file:///runs/a") is None
    assert url_of("s3://bucket/run/") == "s3://bucket/run"
    assert local_path("runs/a") == "runs/a"
    assert local_path("file:///my%20run") == "/my run"
    with pytest.raises(UserError, match="three slashes"):
        url_of("file://host/run")


def test_no_password_is_shown():
    assert str(Objects("ftp://me:secret@host/run")) == "ftp://host/run"


def test_what_is_being_written_to_a_file_system_does_not_count(tmp_path):
    pytest.importorskip("fsspec", reason="fsspec is not installed: pip install solar-tf[store]")
    (tmp_path / "store" / "index").mkdir(parents=True)
    (tmp_path / "store" / "index" / "chunk_00.pkl.12_ab.tmp").write_text("hal")
    objects = Objects(f"local://{tmp_path}/store")
    assert objects.sizes() == {}
    assert not objects.has("index/chunk_00.pkl")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("xyz://bucket/run", "xyz://bucket/run: Protocol not known: xyz"),
        ("oci://bucket/run", "install ocifs|Install ocifs"),
        ("s3://no-such-bucket/run", "no run here"),
    ],
)
def test_a_bad_url_is_one_line(s3, url, message):
    with pytest.raises(UserError, match=message) as caught:
        open_run(url, stage=True)
    assert "\n" not in str(caught.value)


def test_a_bucket_that_is_not_there_is_to_be_made(s3, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"s3://no-such-bucket/run: .*: make it first"):
        Objects("s3://no-such-bucket/run").put(tmp_path / "file", "file")


def test_a_stage_ends_with_one_line(s3):
    done = stage("train", "--run", "xyz://bucket/run", check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: xyz://bucket/run: Protocol not known: xyz")
    assert done.stderr.count("\n") == 1


def test_a_server_that_is_not_there_is_one_line(s3):
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}
    done = run_solar("pull", "s3://bucket/run", "anywhere", env=env)
    assert done.returncode == 1
    assert re.fullmatch(r"error: s3://bucket/run: .*: see that it is there.*\n", done.stderr)


def test_local_runs_need_no_fsspec(preprocessed):
    code = (
        "import sys\n"
        "sys.modules['fsspec'] = None\n"
        "from solar_tf.run.directory import open_run\n"
        "open_run(sys.argv[1]).sources('train', 0)\n"
        "from solar_tf.errors import UserError\n"
        "try:\n"
        "    open_run('s3://bucket/run', stage=True)\n"
        "except UserError as error:\n"
        "    assert 'pip install solar-tf[store]' in str(error)\n"
    )
    command = [sys.executable, "-c", code, preprocessed.paths.root]
    subprocess.run(command, cwd=ROOT, check=True)
