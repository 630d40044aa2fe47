"""Changes of a catalogue on disk: appended, compacted, killed and damaged."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT, flipped
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.config import SolarConfig
from solar_tf.errors import UserError
from solar_tf.run import changes
from solar_tf.run.checksums import file_facts
from solar_tf.run.files import read_json, write_arrays, write_json
from solar_tf.run.index import build_index
from solar_tf.run.paths import RunDirectory

NUM_LABELS, NUM_CHUNKS, NUM_BUCKETS = 20, 2, 7


def make_run(folder):
    config = SolarConfig(num_chunks=NUM_CHUNKS, num_buckets=NUM_BUCKETS)
    dataset = {"num_labels": NUM_LABELS}
    return SimpleNamespace(paths=RunDirectory(folder), config=config, dataset=dataset)


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path)


def add(run, titles=(), removed=(), attributes=None):
    with changes.changing(run) as before:
        first = before.num_labels
        buckets = (np.arange(len(titles)) + first + np.array([[0], [3]])) % NUM_BUCKETS
        changes.append(run, before, titles, buckets, removed, attributes)


def content(found):
    return found.num_labels, found.titles, found.buckets.tolist(), found.removed.tolist()


def test_a_run_without_changes_has_an_empty_delta(run):
    found = changes.read_delta(run)
    assert content(found) == (NUM_LABELS, b"", [[], []], [])
    assert found.allowed() is None
    index = build_index(np.arange(NUM_LABELS) % NUM_BUCKETS, NUM_BUCKETS)
    assert found.extend(index, 0) is index


def test_attributes_of_new_labels_are_kept_and_survive_compaction(run):
    add(run, ["one", "two"], attributes={21: {"section": "wéb"}})
    add(run, ["three"])
    add(run, ["four"], attributes={23: {"year": "1990"}})
    kept = {21: {"section": "wéb"}, 23: {"year": "1990"}}
    assert changes.read_delta(run).attributes == kept
    assert changes.compact(run) == 3
    assert changes.read_delta(run).attributes == kept


@pytest.mark.parametrize(
    "attributes", [{25: {"a": "b"}}, {20: {"a": 3}}, {20: "a"}, {"x": {}}, [3]]
)
def test_attributes_that_do_not_fit_are_damage(run, attributes):
    add(run, ["one"], attributes=attributes)
    with pytest.raises(UserError, match="does not fit this run's catalogue"):
        changes.read_delta(run)


def test_changes_add_up_and_compaction_changes_nothing(run):
    add(run, ["one", "two\nlines"])
    add(run, removed=[20, 3])
    add(run, ["three"], removed=[3, 22])
    found = changes.read_delta(run)
    assert found.titles == b"one\ntwo lines\nthree\n"
    assert found.removed.tolist() == [3, 20, 22]
    assert np.flatnonzero(~found.allowed()).tolist() == [3, 20, 22]
    assert changes.compact(run) == 3
    compacted = changes.read_delta(run)
    assert content(compacted) == content(found) and compacted.key != found.key
    assert len(list(run.paths.catalogue.glob("segment_*"))) == len(compacted.segments) == 1
    assert changes.compact(run) == 1
    add(run, ["four"])
    assert changes.read_delta(run).num_labels == 24


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, NUM_BUCKETS - 1), max_size=30))
def test_an_extended_index_is_the_index_of_all_labels(added):
    base = np.random.default_rng(0).integers(0, NUM_BUCKETS, NUM_LABELS)
    buckets = np.array([added, added], np.int32).reshape(2, -1)
    delta = changes.Delta(NUM_LABELS, b"", buckets, np.zeros(0, np.int32))
    found = delta.extend(build_index(base, NUM_BUCKETS), 1)
    expected = build_index(np.concatenate([base, buckets[1]]).astype(np.int64), NUM_BUCKETS)
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert (found.offsets.dtype, found.labels.dtype) == (np.uint32, np.int32)


def run_code(code, folder):
    """Run code with this module's names in another process."""
    start = "import os, sys; sys.path.insert(0, 'tests')\nfrom pathlib import Path\n"
    start += "from run.test_changes import *\n"
    command = [sys.executable, "-c", start + code, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


KILLS = """
def killed_after(steps):
    def killing(function):
        def wrapped(*arguments):
            nonlocal steps
            steps -= 1
            if steps < 0:
                os._exit(9)
            return function(*arguments)
        return wrapped
    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, killing(getattr(os, name)))
    add(run, ["three"])
    changes.compact(run)
    os._exit(0)

for steps in range(100):
    run = make_run(Path(sys.argv[1], str(steps)))
    add(run, ["one"])
    add(run, ["two"], removed=[5])
    before = content(changes.read_delta(run))
    child = os.fork()
    if not child:
        killed_after(steps)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = content(changes.read_delta(run))
    assert found == before or found[:2] == (23, b"one\\ntwo\\nthree\\n"), found
    changes.compact(run)  # goes on after a kill
    assert content(changes.read_delta(run)) == found
    assert not list(run.paths.root.rglob("*.tmp"))
    assert len(list(run.paths.catalogue.glob("segment_*"))) == 1
    if code == 0:
        print(steps)
        break
    assert code == 9
"""


def test_a_writer_killed_anywhere_leaves_the_catalogue_before_or_after(tmp_path):
    done = run_code(KILLS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10  # kills


def test_damage_is_found(run):
    add(run, ["one"])
    add(run, ["two"])
    segment = run.paths.catalogue_segment(1)
    whole = segment.read_bytes()
    for damaged in (whole[:-1], b"", flipped(whole, 8 * 200)):
        segment.write_bytes(damaged)
        with pytest.raises(UserError, match="segment_000001.*restore it from a copy"):
            changes.read_delta(run, remember=False)
    segment.unlink()
    with pytest.raises(UserError, match="segment_000001.*No such file"):
        changes.read_delta(run)
    segment.write_bytes(whole)
    manifest = read_json(run.paths.catalogue_manifest)
    for change in ({"format": 2}, {"segments": []}, {"tuned": "x"}, {"more": 1}):
        write_json(run.paths.catalogue_manifest, manifest | change)
        with pytest.raises(UserError, match="not a catalogue of format 1"):
            changes.read_delta(run)


@pytest.mark.parametrize(
    "change",
    [
        {"first": np.int64(19)},
        {"buckets": np.full((2, 1), 7, np.int32)},
        {"buckets": np.full((2, 1), -1, np.int32)},
        {"buckets": np.zeros((1, 1), np.int32)},
        {"buckets": np.zeros((2, 2), np.int32)},
        {"removed": np.array([21], np.int32)},
        {"removed": np.array([0.5])},
        {"titles": np.frombuffer(b"\xff\n", np.uint8)},
        {"titles": np.frombuffer(b"\nx", np.uint8)},
    ],
)
def test_a_segment_that_does_not_fit_is_refused(run, change):
    arrays = {
        "first": np.int64(20),
        "titles": np.frombuffer(b"x\n", np.uint8),
        "buckets": np.zeros((2, 1), np.int32),
        "removed": np.zeros(0, np.int32),
    } | change
    path = run.paths.catalogue_segment(1)
    write_arrays(path, arrays)
    changes._write_manifest(run, {run.paths.name_of(path): file_facts(path)}, 2, None)
    with pytest.raises(UserError, match="does not fit this run's catalogue"):
        changes.read_delta(run)


def test_a_reader_whose_segments_are_compacted_reads_again(run, monkeypatch):
    add(run, ["one"])
    add(run, ["two"])
    stale = changes._read_manifest(run)
    changes.compact(run)
    fresh = changes._read_manifest(run)
    manifests = [stale, fresh]
    monkeypatch.setattr(changes, "_read_manifest", lambda run: manifests.pop(0))
    assert changes.read_delta(run).titles == b"one\ntwo\n"


def test_one_writer_at_a_time(run):
    with changes.changing(run):
        done = run_code("add(make_run(Path(sys.argv[1])), ['x'])", run.paths.root)
    assert "its catalogue is being changed: try again" in done.stderr
