"""Files and chunks of a run at a URL: on a real S3 server, and in a plain folder by fsspec."""

import contextlib
import pickle
import socket
import threading
import zipfile

import numpy as np
import pytest
from conftest import child, files_of

from solar_tf.errors import UserError
from solar_tf.run.checksums import file_facts
from solar_tf.run.objects import Objects
from solar_tf.run.paths import RunDirectory
from solar_tf.run.remote import RemoteRun, mirror_of, name_in_mirrors, remote_run
from solar_tf.run.weights import load_weights, save_weights

SHAPES = {"hidden_kernel": (10, 4)}


def machine(url, mirror):
    """The run at a URL as a machine with this mirror sees it."""
    return RemoteRun(mirror, Objects(url))


def write_chunk(run, value=1.0, rows=10):
    run.chunk(0).mkdir(parents=True)
    weights = {"hidden_kernel": np.full((rows, 4), value, np.float32)}
    save_weights(run.chunk(0), weights, {"seconds": 1})
    return run.chunk(0)


def write_text(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture(params=["s3", "local"])
def url(request, tmp_path, monkeypatch):
    """Of a run that is not there yet: in a bucket, and in a folder by way of fsspec."""
    if request.param == "s3":
        request.getfixturevalue("s3")
        return f"s3://bucket/{tmp_path.name}"
    pytest.importorskip("fsspec", reason="fsspec is not installed: pip install solar-tf[store]")
    monkeypatch.setenv("SOLAR_MIRROR", str(tmp_path / "mirrors"))
    return f"local://{tmp_path}/store"


@pytest.fixture
def machines(url, tmp_path):
    return [machine(url, tmp_path / name) for name in ("one", "two")]


def test_a_machine_has_one_mirror_for_a_url(monkeypatch, tmp_path):
    monkeypatch.setenv("SOLAR_MIRROR", str(tmp_path))
    first, second = map(mirror_of, ("s3://bucket/a", "s3://bucket/b"))
    assert first != second
    assert first.parent == second.parent == tmp_path
    assert name_in_mirrors(first / "index" / "a.pkl") == f"{first.name}/index/a.pkl"
    assert name_in_mirrors(tmp_path) is name_in_mirrors(tmp_path / "elsewhere") is None
    monkeypatch.delenv("SOLAR_MIRROR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert mirror_of("s3://bucket/a").parent == tmp_path / "solar-tf" / "runs"


def test_a_run_in_a_folder_has_everything_in_place(tmp_path):
    here = RunDirectory(tmp_path)
    path = tmp_path / "some" / "file.txt"
    assert not here.has(path)
    write_text(path, "text")
    here.publish(path)
    here.fetch(path)
    assert here.has(path)
    assert here.location == str(tmp_path)
    assert here.incomplete({"some/file.txt": [4, ""], "other": [1, ""]}) == ["other"]
    assert here.small_files(path.parent) == path.parent
    assert here.stored(path.parent) == []
    here.drop(path)
    assert not path.exists()


def test_a_file_goes_from_machine_to_machine(machines):
    one, two = machines
    write_text(one.label_titles, "a\nb\n")
    assert not two.has(two.label_titles)
    one.publish(one.label_titles)
    assert two.has(two.label_titles)
    assert two.objects.sizes() == two.objects.sizes("labels") == {"labels/titles.txt": 4}
    two.fetch(two.label_titles, two.label_counts)  # what is not there is left out
    assert files_of(two.root) == {"labels/titles.txt": b"a\nb\n"}
    two.drop(two.label_titles)
    assert not two.label_titles.exists()
    assert one.objects.sizes() == {}


def test_what_was_not_published_before_a_kill_is_published_when_it_is_asked_for(machines):
    one, two = machines
    write_text(one.index(0), "index")
    assert one.has(one.index(0))
    assert two.has(two.index(0))


def test_the_first_file_stays_unless_it_is_a_result(machines):
    for number, run in enumerate(machines):
        run.publish(write_text(run.metrics(), f"{number}"))
    one, two = machines

    def read(**options):
        one.fetch(one.metrics(), **options)
        return one.metrics().read_text()

    assert read(fresh=True) == "0"
    two.publish(two.metrics(), replace=True)
    assert read() == "0"
    assert read(fresh=True) == "1"


def test_a_chunk_is_one_object_and_comes_out_as_it_went_in(machines):
    one, two = machines
    load_weights(write_chunk(one), SHAPES)  # leaves verified.json
    assert two.small_files(two.chunk(0)) == two.chunk(0)
    one.publish(one.chunk(0))
    assert [*two.objects.sizes()] == ["chunks/chunk_00.zip"]
    assert two.stored(two.chunks) == [two.chunk(0)]
    assert [path.name for path in two.small_files(two.chunk(0)).iterdir()] == ["state.json"]
    assert not two.chunk(0).exists()
    two.fetch(two.chunk(0))
    assert files_of(two.root, "chunks") == files_of(one.root)
    load_weights(two.chunk(0), SHAPES)


def test_the_first_complete_training_of_a_chunk_is_used_by_all(machines):
    for value, run in enumerate(machines):
        write_chunk(run, value)
        run.publish(run.chunk(0))
    for run in machines:
        run.fetch(run.chunk(0))
        assert load_weights(run.chunk(0), SHAPES)["hidden_kernel"].max() == 0.0


def test_a_mirror_of_a_run_that_was_replaced_is_emptied(machines):
    one, two = machines
    assert not two.refresh()
    for content in ("first", "second"):
        one.publish(write_text(one.config, content), replace=True)
        assert two.refresh()
        assert files_of(two.root) == {"config.json": content.encode()}
        write_text(two.index(0), content)
        assert two.refresh()
        assert len(files_of(two.root)) == 2


def test_a_remote_run_is_sent_by_its_url(url):
    sent = pickle.loads(pickle.dumps(remote_run(url)))
    assert (sent.objects.url, sent.root) == (url, mirror_of(url))


# Damage.


def test_a_changed_bit_of_a_file_is_found_before_the_file_appears(s3, tmp_path):
    one, two = (machine("s3://bucket/bits", tmp_path / name) for name in ("one", "two"))
    facts = {"index/chunk_00.pkl": file_facts(write_text(one.index(0), "0" * 1000))}
    one.publish(one.index(0))
    s3.flip("bits/index/chunk_00.pkl", 500)
    with pytest.raises(UserError, match=r"s3://bucket/bits/index/chunk_00.pkl: damaged"):
        two.fetch(two.index(0), facts=facts)
    assert files_of(two.root) == {}


def test_a_changed_bit_of_a_chunk_is_found_or_does_not_matter(tmp_path):
    """Zip files have a few fields that are never read."""
    pytest.importorskip("fsspec", reason="fsspec is not installed: pip install solar-tf[store]")
    one = machine(f"local://{tmp_path}/store", tmp_path / "one")
    one.publish(write_chunk(one))
    packed = tmp_path / "store" / "chunks" / "chunk_00.zip"
    whole, found = packed.read_bytes(), 0
    for place in range(3, len(whole), len(whole) // 30):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        packed.write_bytes(content)
        two = machine(one.objects.url, tmp_path / f"two_{place}")
        try:
            two.fetch(two.chunk(0))
            load_weights(two.chunk(0), SHAPES)
        except UserError as error:
            assert "\n" not in str(error)
            found += 1
        else:
            assert files_of(two.root) == files_of(one.root), place
    assert found > 15


def stalling(server, most):
    """The address of a proxy that stops after `most` bytes, and an event for that moment."""
    stalled, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def forward(source, target, room):
        with contextlib.suppress(OSError), target:
            while data := source.recv(65536):
                target.sendall(data[:room])
                room = max(0, room - len(data))
                if not room:
                    stalled.set()

    def accept():
        while True:
            client, _ = listener.accept()
            upstream = socket.create_connection(server)
            for pair in ((client, upstream, most), (upstream, client, 2**40)):
                threading.Thread(target=forward, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return "http://{}:{}".format(*listener.getsockname()), stalled


UPLOAD = """
import sys
from pathlib import Path
from solar_tf.run.objects import Objects
from solar_tf.run.remote import RemoteRun
print("ready", flush=True)
run = RemoteRun(Path(sys.argv[1]), Objects("s3://bucket/killed"))
run.publish(run.chunk(0))
"""


def test_a_kill_in_mid_upload_leaves_nothing_that_counts(s3, tmp_path, monkeypatch):
    one, two = (machine("s3://bucket/killed", tmp_path / name) for name in ("one", "two"))
    write_chunk(one, rows=1_000_000)
    address, stalled = stalling(s3.address, 2**20)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        with child(UPLOAD, one.root):
            assert stalled.wait(60)
    assert one.objects.sizes() == {}
    assert not two.has(two.chunk(0))
    one.publish(one.chunk(0))  # the next process brings it there, and sweeps
    assert [path.name for path in one.chunks.iterdir()] == ["chunk_00"]
    two.fetch(two.chunk(0))
    assert files_of(two.root) == files_of(one.root)


def test_a_zip_file_that_leads_out_of_its_folder_is_refused(machines, tmp_path):
    one, two = machines
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../../../evil", "evil")
    one.objects.put(tmp_path / "evil.zip", "chunks/chunk_00.zip")
    with pytest.raises(UserError, match="do not trust"):
        two.fetch(two.chunk(0))
