import pytest
from solar_tf.run.urls import local_path, mirror_of, mirrored, url_of

from solar_tf.errors import UserError


def test_a_run_is_at_a_path_or_at_a_url():
    assert url_of("runs/a") is None
    assert url_of("file:///runs/a") is None
    assert url_of("s3://bucket/run/") == "s3://bucket/run"
    assert local_path("runs/a") == "runs/a"
    assert local_path("file:///my%20run") == "/my run"
    with pytest.raises(UserError, match="three slashes"):
        url_of("file://host/run")


def test_a_machine_has_one_mirror_for_a_url(monkeypatch, tmp_path):
    monkeypatch.setenv("SOLAR_MIRROR", str(tmp_path))
    first, second = map(mirror_of, ("s3://bucket/a", "s3://bucket/b"))
    assert first != second
    assert first.parent == second.parent == tmp_path
    assert mirrored(first / "index" / "chunk_00.pkl") == ("s3://bucket/a", "index/chunk_00.pkl")
    assert mirrored(tmp_path / "elsewhere") is None


def test_without_a_folder_of_their_own_mirrors_are_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("SOLAR_MIRROR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert mirror_of("s3://bucket/a").parent == tmp_path / "solar-tf" / "runs"
