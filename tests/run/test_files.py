"""Files that are complete or not there, and whose damage is seen."""

import contextlib
import io
import itertools
import json
import os
import random
import re
import resource
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import child, flipped, taking_at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solar_tf.errors import UserError
from solar_tf.run.files import (
    CHECKSUM,
    TOKEN,
    atomic_folder,
    atomic_write,
    delete_folder,
    new_map,
    read_arrays,
    read_json,
    sweep,
    verify_arrays,
    write_arrays,
    write_json,
)


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


@contextlib.contextmanager
def largest_file(size):
    """What is written beyond this size fails, as on a full disk; yields the error's context."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        with pytest.raises(OSError) as caught:
            yield caught
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


# Atomic writes.


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_a_file_appears_with_the_end_of_its_block_and_not_before(tmp_path, mode):
    path = tmp_path / "new" / "folder" / "file"
    content = b"abc" if mode == "wb" else "é\n"
    with atomic_write(path, mode) as file:
        file.write(content)
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == (content if mode == "wb" else "é\n".encode())
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_failed_write_leaves_what_was_there_and_nothing_else(tmp_path, error, before):
    path = tmp_path / "file"
    if before:
        path.write_bytes(before)
    with pytest.raises(error), atomic_write(path) as file:
        file.write(b"half")
        raise error
    assert names(tmp_path) == (["file"] if before else [])
    assert not before or path.read_bytes() == before


WRITE_FOR_EVER = """
import itertools, sys
from solar_tf.run.files import atomic_write
for version in itertools.cycle(range(1, 200)):
    with atomic_write(sys.argv[1]) as file:
        for _ in range(version):
            file.write(bytes([version]) * 10_000)
            file.flush()
    if version == 1:
        print("ready", flush=True)
"""


def test_a_file_is_whole_at_every_moment_of_a_writers_life_and_after_its_kill(tmp_path):
    path = tmp_path / "file"
    for lifetime in (0.01, 0.1, 0.3):
        with child(WRITE_FOR_EVER, path):
            end = time.monotonic() + lifetime
            while time.monotonic() < end:
                content = path.read_bytes()
                assert content == content[:1] * (10_000 * content[0])
        content = path.read_bytes()
        assert content == content[:1] * (10_000 * content[0])


WRITE_HALF = """
import signal, sys
from solar_tf.run.files import atomic_folder, atomic_write
with {function}(sys.argv[1]) as target:
    with (open(target / "part", "wb") if {function} is atomic_folder else target) as file:
        file.write(b"half")
        file.flush()
        print("ready", flush=True)
        signal.pause()
"""


@pytest.mark.parametrize("function", ["atomic_write", "atomic_folder"])
def test_a_kill_in_mid_write_leaves_only_what_sweep_removes(tmp_path, function):
    target = tmp_path / "sub" / "target"
    with child(WRITE_HALF.format(function=function), target):
        pass
    assert not target.exists()
    assert len(names(target.parent)) == 1  # it was at work
    sweep(tmp_path)
    assert names(target.parent) == []


def test_a_planted_link_is_not_followed(tmp_path):
    """Whoever may write to a shared run cannot make others write elsewhere."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f"file.{os.getpid()}_{TOKEN}.tmp").symlink_to(victim)
    write_json(tmp_path / "file", 1)
    assert victim.read_text() == "precious"
    assert read_json(tmp_path / "file") == 1
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "x.1.tmp").symlink_to(tmp_path, target_is_directory=True)
    sweep(tmp_path / "run")
    assert victim.exists()
    assert names(tmp_path / "run") == []


def test_a_write_that_fails_names_its_file(tmp_path):
    with largest_file(1000) as caught:
        write_arrays(tmp_path / "a.npz", {"a": np.zeros(10_000)})
    assert caught.value.filename == str(tmp_path / "a.npz")
    with largest_file(1000) as caught, atomic_folder(tmp_path / "folder") as folder:
        (folder / "b").write_bytes(bytes(10_000))
    assert caught.value.filename == str(tmp_path / "folder")
    assert names(tmp_path) == []


def test_a_folder_appears_with_the_end_of_its_block_and_not_before(tmp_path):
    path = tmp_path / "new" / "folder"
    with atomic_folder(path) as folder:
        assert names(folder) == []
        write_json(folder / "a.json", 1)
        assert not path.exists()
    assert names(path.parent) == ["folder"]
    assert read_json(path / "a.json") == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, None])
def test_a_failed_folder_leaves_nothing_and_replaces_nothing(tmp_path, error):
    if error is None:  # the folder is there already
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "file").write_text("old")
    with pytest.raises(error or OSError), atomic_folder(tmp_path / "folder") as folder:
        (folder / "file").write_text("new")
        if error:
            raise error
    assert names(tmp_path) == ([] if error else ["folder"])
    assert error or (tmp_path / "folder" / "file").read_text() == "old"


def test_a_deleted_folder_is_gone_with_all_that_is_in_it(tmp_path):
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    delete_folder(tmp_path / "folder")
    delete_folder(tmp_path / "never there")
    assert names(tmp_path) == []


def test_sweep_keeps_all_that_is_complete(tmp_path):
    (tmp_path / "a" / "b.77.tmp" / "c").mkdir(parents=True)
    (tmp_path / "a" / "b.77.tmp" / "c" / "d.78.tmp").touch()
    (tmp_path / "a" / "kept.npz").touch()
    (tmp_path / "a" / "tmp").touch()
    (tmp_path / "e.json.79.tmp").touch()
    sweep(tmp_path)
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == ["kept.npz", "tmp"]
    sweep(tmp_path / "missing")


# JSON and arrays.


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe", b"{} x"])
def test_broken_json_is_an_error_with_file_and_remedy(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"^{re.escape(str(path))}: not valid JSON .*delete it"):
        read_json(path)


def test_an_object_carries_a_checksum_that_its_reader_does_not_see(tmp_path):
    assert read_json(tmp_path / "a.json") is None  # nothing is there
    content = {"b": [1, 2.5, None, float("inf")], 3: "Bücher"}
    write_json(tmp_path / "a.json", content)
    assert [*json.loads((tmp_path / "a.json").read_text())] == ["b", "3", CHECKSUM]
    assert read_json(tmp_path / "a.json") == {"b": content["b"], "3": "Bücher"}
    write_json(tmp_path / "b.json", read_json(tmp_path / "a.json"))
    assert read_json(tmp_path / "b.json") == read_json(tmp_path / "a.json")
    (tmp_path / "c.json").write_text('{"a": 1}')
    assert read_json(tmp_path / "c.json") == {"a": 1}  # an object without a checksum


def test_every_flipped_bit_of_a_json_object_is_an_error_or_harmless(tmp_path):
    path, content = tmp_path / "a.json", {"rows": 120, "loss": 0.1, "name": "x"}
    write_json(path, content)
    whole = path.read_bytes()
    refused = 0
    for bit in range(8 * len(whole)):
        path.unlink()
        path.write_bytes(flipped(whole, bit))
        try:
            found = read_json(path)
        except UserError as error:
            assert "delete it and run its stage again" in str(error)
            refused += 1
        else:
            assert {name: found.get(name) for name in content} == content
    assert refused > 0.9 * 8 * (len(whole) - 75)  # in the checksum's own key it is harmless


def archive(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


ARRAYS = {  # large enough that nothing reads an array and its checksum in one go
    "splits": np.arange(599, dtype=np.int64),
    "values": np.linspace(0, 1, 1177, dtype=np.float32),
    "empty": np.zeros((0, 3), np.int32),
}
ARCHIVE = archive(**ARRAYS)


def is_intact(path, content):
    """Whether damaged content reads as ARRAYS all the same; UserError otherwise."""
    path.unlink(missing_ok=True)  # many times faster than to write over it
    path.write_bytes(content)
    try:
        arrays = read_arrays(path, "preprocess.py")
    except UserError as error:
        assert str(error).startswith(f"{path}: cannot be read (")
        assert str(error).endswith("): delete it and run preprocess.py again")
        return False
    assert list(arrays) == list(ARRAYS)
    for name, array in arrays.items():
        assert array.dtype == ARRAYS[name].dtype
        np.testing.assert_array_equal(array, ARRAYS[name], strict=True)
    return True


def test_arrays_round_trip(tmp_path):
    write_arrays(tmp_path / "a.npz", ARRAYS)
    assert is_intact(tmp_path / "b.npz", (tmp_path / "a.npz").read_bytes())


def test_truncated_arrays_are_an_error_wherever_they_end(tmp_path):
    ends = {*range(200), *range(len(ARCHIVE) - 300, len(ARCHIVE)), *range(0, len(ARCHIVE), 97)}
    assert not any(is_intact(tmp_path / "a.npz", ARCHIVE[:end]) for end in ends)


def test_every_bit_flipped_outside_the_numbers_is_an_error_or_harmless(tmp_path):
    """In zip's and numpy's headers and in zip's directory."""
    headers = [match.start() for match in re.finditer(b"PK\\x03\\x04", ARCHIVE)]
    assert len(headers) == len(ARRAYS)
    structure = [range(start, min(start + 130, len(ARCHIVE))) for start in headers]
    structure.append(range(ARCHIVE.index(b"PK\x01\x02"), len(ARCHIVE)))
    outcomes = {
        is_intact(tmp_path / "a.npz", flipped(ARCHIVE, 8 * byte + bit))
        for byte in {*itertools.chain(*structure)}
        for bit in range(8)
    }
    assert outcomes == {True, False}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sets(st.integers(0, 8 * len(ARCHIVE) - 1), min_size=1, max_size=20))
def test_random_flips_are_an_error_or_harmless(tmp_path, bits):
    is_intact(tmp_path / "a.npz", flipped(ARCHIVE, *bits))


def test_a_flip_in_the_numbers_is_always_an_error(tmp_path):
    start = ARCHIVE.index(ARRAYS["values"].tobytes())
    generator = random.Random(0)
    for _ in range(100):
        bit = 8 * start + generator.randrange(8 * ARRAYS["values"].nbytes)
        assert not is_intact(tmp_path / "a.npz", flipped(ARCHIVE, bit))


def npy():
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"", b"not an archive", archive(), archive(a=np.array([{}], object)), npy()],
    ids=["empty", "text", "no arrays", "pickled objects", "npy"],
)
def test_what_is_no_archive_of_plain_arrays_is_an_error(tmp_path, content):
    assert not is_intact(tmp_path / "a.npz", content)


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/b", "..\\evil", "a/../../evil"])
def test_names_that_lead_out_of_an_archive_are_refused(tmp_path, name):
    folder = tmp_path / "run"
    folder.mkdir()
    write_arrays(folder / "arrays.npz", {name: np.arange(3)})
    with pytest.raises(UserError, match=r"is no name of an array\): delete it and run infer.py"):
        read_arrays(folder / "arrays.npz", "infer.py")
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "arrays.npz"]


def test_arrays_are_verified_without_loading_them(tmp_path):
    path, start = tmp_path / "a.npz", ARCHIVE.index(ARRAYS["values"].tobytes())
    path.write_bytes(ARCHIVE)
    verify_arrays(path, "infer.py")
    path.write_bytes(flipped(ARCHIVE, 8 * start + 77))
    for _ in range(2):
        for function in (read_arrays, verify_arrays):
            with pytest.raises(UserError, match=r"a\.npz: cannot be read .* run infer\.py again"):
                function(path, "infer.py")
        path.unlink(missing_ok=True)  # missing arrays are an error, too


def test_a_new_map_has_its_room_or_is_an_error(tmp_path):
    array = new_map(tmp_path / "a.npy", np.float32, (300, 1000))
    array[7] = 5
    array.flush()
    assert (tmp_path / "a.npy").stat().st_blocks * 512 >= array.nbytes
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), array)
    with largest_file(10_000) as caught:
        new_map(tmp_path / "b.npy", np.float32, (300, 1000))
    assert caught.value.filename == str(tmp_path / "b.npy")


def bomb(kind):
    """A small archive, right in all its checksums, that would take gigabytes of memory."""
    buffer, header = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2**31,)}
    )
    pack = zipfile.ZIP_DEFLATED if kind == "packed" else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", pack) as content, content.open("a.npy", "w") as member:
        member.write(header.getvalue())
        for _ in range(200 if kind == "packed" else 0):
            member.write(bytes(1 << 20))
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["packed", "declared"])
def test_memory_bombs_are_refused_cheaply(tmp_path, kind):
    (tmp_path / "a.npz").write_bytes(bomb(kind))
    with taking_at_most(5_000_000), pytest.raises(UserError, match="its sizes are wrong"):
        read_arrays(tmp_path / "a.npz", "infer.py")
