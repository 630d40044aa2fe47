import contextlib
import inspect
import io
import itertools
import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError
from solar_tf.rundir import (
    FORMAT,
    RunDirectory,
    atomic_folder,
    atomic_write,
    claim,
    open_run,
    read_arrays,
    read_config,
    read_json,
    sweep,
    write_arrays,
    write_json,
)

ROOT = Path(__file__).parent.parent


@contextlib.contextmanager
def child(code, *arguments):
    """A Python process that has said "ready"; killed with SIGKILL at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


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
from solar_tf.rundir import atomic_write
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
from solar_tf.rundir import atomic_folder, atomic_write
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


def test_a_folder_appears_with_the_end_of_its_block_and_not_before(tmp_path):
    path = tmp_path / "new" / "folder"
    with atomic_folder(path) as folder:
        assert names(folder) == []
        write_json(folder / "a.json", 1)
        assert not path.exists()
    assert names(path.parent) == ["folder"]
    assert read_json(path / "a.json") == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_folder_leaves_nothing(tmp_path, error):
    with pytest.raises(error), atomic_folder(tmp_path / "folder") as folder:
        (folder / "file").write_text("half")
        raise error
    assert names(tmp_path) == []


def test_a_folder_that_is_there_is_never_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("old")
    with pytest.raises(OSError), atomic_folder(tmp_path / "folder") as folder:
        (folder / "file").write_text("new")
    assert names(tmp_path) == ["folder"]
    assert (tmp_path / "folder" / "file").read_text() == "old"


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


# Claims.

HOLD = """
import signal, sys
from solar_tf.rundir import claim
with claim(sys.argv[1]) as free:
    assert free
    print("ready", flush=True)
    signal.pause()
"""


def test_a_claim_is_held_by_one_process_and_free_at_once_when_that_is_killed(tmp_path):
    path = tmp_path / "chunks" / "chunk_00.lock"
    with child(HOLD, path) as holder:
        with claim(path) as free:
            assert not free
        with claim(path) as free:  # a failed try leaves the holder's claim alone
            assert not free
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with claim(path) as free:
            assert free


def test_a_claim_ends_with_its_block(tmp_path):
    for _ in range(2):
        with claim(tmp_path / "lock") as free:
            assert free
            with claim(tmp_path / "lock") as free_again:
                assert not free_again
    with pytest.raises(ValueError), claim(tmp_path / "lock"):
        raise ValueError
    with claim(tmp_path / "lock") as free:
        assert free


# JSON and arrays.


def test_json_round_trip(tmp_path):
    content = {"a": [1, 2.5, None], "title": "Bücher"}
    write_json(tmp_path / "a.json", content)
    assert read_json(tmp_path / "a.json") == content


def test_json_that_is_not_there_is_none(tmp_path):
    assert read_json(tmp_path / "a.json") is None


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe", b"{} x"])
def test_broken_json_is_an_error_with_file_and_remedy(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"^{re.escape(str(path))}: not valid JSON .*delete it"):
        read_json(path)


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


def flipped(content, bits):
    content = bytearray(content)
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
    return bytes(content)


def test_every_bit_flipped_outside_the_numbers_is_an_error_or_harmless(tmp_path):
    """In zip's and numpy's headers and in zip's directory."""
    headers = [match.start() for match in re.finditer(b"PK\\x03\\x04", ARCHIVE)]
    assert len(headers) == len(ARRAYS)
    structure = [range(start, min(start + 130, len(ARCHIVE))) for start in headers]
    structure.append(range(ARCHIVE.index(b"PK\x01\x02"), len(ARCHIVE)))
    outcomes = {
        is_intact(tmp_path / "a.npz", flipped(ARCHIVE, [8 * byte + bit]))
        for byte in {*itertools.chain(*structure)}
        for bit in range(8)
    }
    assert outcomes == {True, False}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sets(st.integers(0, 8 * len(ARCHIVE) - 1), min_size=1, max_size=20))
def test_random_flips_are_an_error_or_harmless(tmp_path, bits):
    is_intact(tmp_path / "a.npz", flipped(ARCHIVE, bits))


def test_a_flip_in_the_numbers_is_always_an_error(tmp_path):
    start = ARCHIVE.index(ARRAYS["values"].tobytes())
    generator = random.Random(0)
    for _ in range(100):
        bit = 8 * start + generator.randrange(8 * ARRAYS["values"].nbytes)
        assert not is_intact(tmp_path / "a.npz", flipped(ARCHIVE, [bit]))


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


def test_missing_arrays_are_an_error_that_names_the_stage(tmp_path):
    with pytest.raises(UserError, match=r"a\.npz: cannot be read .* run infer\.py again"):
        read_arrays(tmp_path / "a.npz", "infer.py")


# The run.

ARGUMENTS = {
    "split": ["train", "test"],
    "shard": [0, 1, 99_999, 100_000],
    "chunk": [0, 9, 10, 99, 100],
    "block": [0, 9_999, 10_000],
    "step": [0, 1, 10**9],
    "num_chunks": [None, 1, 10],
}


def all_paths(run):
    for name, member in inspect.getmembers(RunDirectory):
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            if isinstance(getattr(run, name), Path):  # not a tuple of paths
                yield name, getattr(run, name)
            continue
        _, *parameters = inspect.signature(member).parameters
        for values in itertools.product(*(ARGUMENTS[parameter] for parameter in parameters)):
            yield f"{name}{values}", getattr(run, name)(*values)


def test_all_paths_of_a_run_are_distinct_and_inside_it():
    paths = dict(all_paths(RunDirectory(Path("some/run"))))
    assert len(paths) > 100
    assert len({*paths.values()}) == len(paths)
    assert all(Path("some/run") in path.parents for path in paths.values())


def test_no_complete_path_looks_temporary(tmp_path):
    run = RunDirectory(tmp_path)
    paths = [path for _, path in all_paths(run)]
    folders = {folder for path in paths for folder in path.parents}
    for path in paths:
        if path in folders:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    sweep(tmp_path)
    assert all(path.exists() for path in paths)


@pytest.fixture
def run(tmp_path):
    """A run directory as preprocess.py leaves it."""
    paths = RunDirectory(tmp_path)
    content = {
        "format": FORMAT,
        "dataset": {"name": "toy", "kind": "text", "num_features": 512},
        "seeds": [0, 1, 2],
        "config": SolarConfig(num_chunks=3, feature_dim=77).to_dict(),
    }
    write_json(paths.config, content)
    write_json(paths.summary, {"train": {"rows": 5, "shards": 1}})
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


def test_a_stage_before_preprocess_is_told_to_run_it(tmp_path):
    root = tmp_path / "run"
    with pytest.raises(UserError) as caught:
        open_run(root)
    assert str(caught.value).startswith(f"{root}: no run here")
    assert str(caught.value).endswith(f": run preprocess.py --run {root}")
    assert not root.exists()


def test_a_run_is_incomplete_without_its_summary(run):
    run.summary.unlink()
    with pytest.raises(UserError, match=r"not complete: run preprocess\.py"):
        open_run(run.root)
    assert read_config(run)["config"].num_chunks == 3


@pytest.mark.parametrize("number", [FORMAT + 1, 0, None, "1"])
def test_another_format_number_is_an_error_with_a_remedy(run, number):
    write_json(run.config, read_json(run.config) | {"format": number})
    with pytest.raises(UserError, match=rf"not of format {FORMAT}.*make a new run with preprocess"):
        open_run(run.root)


@pytest.mark.parametrize("content", [[], 3, "text", None])
def test_a_config_that_is_no_object_is_an_error(run, content):
    run.config.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"config\.json|no run here"):
        open_run(run.root)


@pytest.mark.parametrize("key", ["config", "dataset", "seeds"])
def test_a_missing_part_of_the_config_is_named(run, key):
    content = read_json(run.config)
    del content[key]
    write_json(run.config, content)
    with pytest.raises(UserError, match=rf"config\.json: no {key} in it: make a new run"):
        open_run(run.root)


@pytest.mark.parametrize("config", [None, [], {"num_chunks": 3}, {"epochs": "10"}])
def test_a_config_edited_into_nonsense_is_an_error(run, config):
    content = read_json(run.config)
    if config and "epochs" in config:
        config = content["config"] | config
    write_json(run.config, content | {"config": config})
    with pytest.raises(UserError, match=r"config\.json: .*: make a new run with preprocess\.py"):
        open_run(run.root)


def test_a_broken_summary_is_an_error(run):
    run.summary.write_text("{")
    with pytest.raises(UserError, match=r"summary\.json: not valid JSON"):
        open_run(run.root)
