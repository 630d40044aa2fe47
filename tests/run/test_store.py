"""Objects of a run, on a real S3 server and in a plain folder by fsspec."""

import contextlib
import pickle
import re
import socket
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
from conftest import ROOT, child, files_of, run_solar, stage

from solar_tf.errors import UserError
from solar_tf.run.checksums import file_facts
from solar_tf.run.store import Store
from solar_tf.run.urls import mirror_of
from solar_tf.run.weights import load_weights, save_weights

CHUNK = "chunks/chunk_00"


def write_chunk(mirror, value=1.0, rows=10):
    folder = mirror / CHUNK
    folder.mkdir(parents=True)
    save_weights(folder, {"hidden_kernel": np.full((rows, 4), value, np.float32)}, {"seconds": 1})
    return folder


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
    """The store as two machines see it, each with a mirror of its own."""
    return [Store(url, tmp_path / name) for name in ("one", "two")]


def test_no_password_is_shown():
    assert str(Store("ftp://me:secret@host/run", "anywhere")) == "ftp://host/run"


def test_a_file_goes_from_machine_to_machine(machines):
    one, two = machines
    (one.mirror / "labels").mkdir(parents=True)
    (one.mirror / "labels" / "titles.txt").write_text("a\nb\n")
    assert not two.has("labels/titles.txt")
    one.publish(["labels/titles.txt"])
    assert two.has("labels/titles.txt")
    assert two.sizes() == two.sizes("labels") == {"labels/titles.txt": 4}
    two.fetch(["labels/titles.txt", "labels/counts.npy"])  # what is not there is left out
    assert files_of(two.mirror) == {"labels/titles.txt": b"a\nb\n"}
    two.drop(["labels/titles.txt"])
    assert not two.has("labels/titles.txt")
    assert Store(one.url).sizes() == {}


def test_the_first_file_stays_unless_it_is_a_result(machines):
    for number, store in enumerate(machines):
        store.mirror.mkdir()
        (store.mirror / "metrics.json").write_text(f"{number}")
        store.publish(["metrics.json"])
    assert machines[0].read("metrics.json") == b"0"
    machines[1].publish(["metrics.json"], replace=True)
    machines[0].fetch(["metrics.json"])
    assert files_of(machines[0].mirror) == {"metrics.json": b"0"}
    machines[0].fetch(["metrics.json"], fresh=True)
    assert files_of(machines[0].mirror) == {"metrics.json": b"1"}


def test_a_chunk_is_one_object_and_comes_out_as_it_went_in(machines):
    one, two = machines
    folder = write_chunk(one.mirror)
    load_weights(folder, {"hidden_kernel": (10, 4)})
    one.publish([CHUNK])
    assert [*two.sizes()] == [f"{CHUNK}.zip"]
    two.fetch([CHUNK])
    assert files_of(two.mirror) == files_of(one.mirror)
    load_weights(two.mirror / CHUNK, {"hidden_kernel": (10, 4)})


def test_small_files_of_a_chunk_come_without_its_arrays(machines):
    one, two = machines
    write_chunk(one.mirror)
    assert two.facts(CHUNK) is None
    one.publish([CHUNK])
    assert [path.name for path in two.facts(CHUNK).iterdir()] == ["state.json"]
    assert not (two.mirror / CHUNK).exists()


def test_of_two_trainings_of_a_chunk_the_first_to_be_complete_is_everybodys(machines):
    one, two = machines
    write_chunk(one.mirror, 1.0)
    write_chunk(two.mirror, 2.0)
    one.publish([CHUNK])
    two.publish([CHUNK])
    for store in machines:
        store.fetch([CHUNK])
    assert files_of(two.mirror) == files_of(one.mirror)
    weights = load_weights(two.mirror / CHUNK, {"hidden_kernel": (10, 4)})
    assert weights["hidden_kernel"].max() == 1.0


def test_a_mirror_of_a_run_that_was_replaced_is_emptied(machines, url):
    one, two = machines
    assert not two.refresh()
    for content, old in ((b"first", "first"), (b"second", "second")):
        one.mirror.mkdir(exist_ok=True)
        (one.mirror / "config.json").write_bytes(content)
        one.publish(["config.json"], replace=True)
        assert two.refresh()
        assert files_of(two.mirror) == {"config.json": content}
        (two.mirror / "index").mkdir()
        (two.mirror / "index" / "chunk_00.pkl").write_text(old)
        assert two.refresh()
        assert len(files_of(two.mirror)) == 2


def test_a_store_is_sent_by_its_url(url):
    sent = pickle.loads(pickle.dumps(Store(url)))
    assert (sent.url, sent.mirror) == (url, mirror_of(url))


# Damage.


def test_a_changed_bit_of_a_file_is_found_before_the_file_appears(s3, tmp_path):
    one, two = (Store("s3://bucket/bits", tmp_path / name) for name in ("one", "two"))
    (one.mirror / "index").mkdir(parents=True)
    path = one.mirror / "index" / "chunk_00.pkl"
    path.write_bytes(bytes(1000))
    facts = {"index/chunk_00.pkl": file_facts(path)}
    one.publish(facts)
    s3.flip("bits/index/chunk_00.pkl", 500)
    with pytest.raises(UserError, match=r"s3://bucket/bits/index/chunk_00.pkl: damaged"):
        two.fetch(facts, facts)
    assert files_of(two.mirror) == {}


def test_a_changed_bit_of_a_chunk_is_found_or_does_not_matter(tmp_path):
    """Zip files have a few fields that nobody reads."""
    pytest.importorskip("fsspec", reason="fsspec is not installed: pip install solar-tf[store]")
    one = Store(f"local://{tmp_path}/store", tmp_path / "one")
    write_chunk(one.mirror)
    one.publish([CHUNK])
    packed = tmp_path / "store" / f"{CHUNK}.zip"
    whole, found = packed.read_bytes(), 0
    for place in range(3, len(whole), len(whole) // 30):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        packed.write_bytes(content)
        two = Store(one.url, tmp_path / f"two_{place}")
        try:
            two.fetch([CHUNK])
            load_weights(two.mirror / CHUNK, {"hidden_kernel": (10, 4)})
        except UserError as error:
            assert "\n" not in str(error)
            found += 1
        else:
            assert files_of(two.mirror) == files_of(one.mirror), place
    assert found > 15


def stalling(server, most):
    """The address of a proxy that passes on only so many bytes, and an event for that moment."""
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
from solar_tf.run.store import Store
print("ready", flush=True)
Store("s3://bucket/killed", sys.argv[1]).publish(["chunks/chunk_00"])
"""


def test_a_kill_in_mid_upload_leaves_nothing_that_counts(s3, tmp_path, monkeypatch):
    store = Store("s3://bucket/killed", tmp_path / "one")
    write_chunk(store.mirror, rows=1_000_000)
    address, stalled = stalling(s3.address, 2**20)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        with child(UPLOAD, store.mirror):
            assert stalled.wait(60)
    assert store.sizes() == {}
    assert not store.has(CHUNK)
    store.publish([CHUNK])  # the next process brings it there, and sweeps
    assert [path.name for path in (store.mirror / "chunks").iterdir()] == ["chunk_00"]
    other = Store(store.url, tmp_path / "two")
    other.fetch([CHUNK])
    assert files_of(other.mirror) == files_of(store.mirror)


def test_what_is_being_written_to_a_file_system_does_not_count(tmp_path):
    pytest.importorskip("fsspec", reason="fsspec is not installed: pip install solar-tf[store]")
    store = Store(f"local://{tmp_path}/store", tmp_path / "mirror")
    (tmp_path / "store" / "index").mkdir(parents=True)
    (tmp_path / "store" / "index" / "chunk_00.pkl.12_ab.tmp").write_text("hal")
    assert store.sizes() == {}
    assert not store.has("index/chunk_00.pkl")


def test_a_zip_file_that_leads_out_of_its_folder_is_refused(machines):
    one, two = machines
    one.mirror.mkdir()
    with zipfile.ZipFile(one.mirror / "evil.zip", "w") as archive:
        archive.writestr("../../../evil", "evil")
    one._put(one.mirror / "evil.zip", f"{CHUNK}.zip")
    with pytest.raises(UserError, match="do not trust"):
        two.fetch([CHUNK])


# Errors of the user.


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("xyz://bucket/run", "xyz://bucket/run: Protocol not known: xyz"),
        ("oci://bucket/run", "install ocifs|Install ocifs"),
        ("s3://no-such-bucket/run", "no run here"),
    ],
)
def test_a_bad_url_is_one_line(s3, url, message):
    from solar_tf.run.directory import open_run

    with pytest.raises(UserError, match=message):
        open_run(url, stage=True)


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
