"""Checksums, and what is remembered of them."""

import hashlib
import json
import os
import time
from unittest import mock

import numpy as np
import pytest

from solar_tf.errors import UserError
from solar_tf.run import checksums
from solar_tf.run.checksums import VERIFIED, HashedFile, file_facts, incomplete, inside, verify


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two files and their facts; what was verified is remembered at once."""
    monkeypatch.setattr(checksums, "SETTLED", -1.0)
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.bin").write_bytes(b"content")
    (tmp_path / "deep" / "b.bin").write_bytes(b"more")
    return tmp_path


def facts_of(folder):
    return {name: file_facts(folder / name) for name in ("a.bin", "deep/b.bin")}


def reads(folder, files, **options):
    """How often `verify` reads a file through."""
    with mock.patch.object(checksums, "file_facts", wraps=checksums.file_facts) as counted:
        verify(folder, files, "make it again", **options)
    return counted.call_count


def test_facts_are_size_and_sha256_and_known_as_a_file_is_written(tmp_path):
    with open(tmp_path / "a", "wb") as file:
        hashed = HashedFile(file)
        hashed.write(b"abc")
        hashed.write(np.arange(2, dtype=np.uint8))
        hashed.write(np.zeros(3, np.int32))
    digest = hashlib.sha256(b"abc\0\1" + bytes(12)).hexdigest()
    assert hashed.facts == file_facts(tmp_path / "a") == [17, digest]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda path: path.write_bytes(b"cantent"), "damaged, its sha256 is wrong"),
        (lambda path: path.write_bytes(b"conten"), "6 bytes, where 7 belong"),
        (lambda path: path.unlink(), "No such file or directory"),
    ],
    ids=["flipped", "cut", "missing"],
)
@pytest.mark.parametrize("verified_before", [False, True])
def test_damage_is_named_with_its_remedy(folder, damage, complaint, verified_before):
    files = facts_of(folder)
    if verified_before:
        verify(folder, files, "make it again")
        time.sleep(0.02)  # more than a tick of the file system's clock
    damage(folder / "a.bin")
    with pytest.raises(UserError) as caught:
        verify(folder, files, "make it again")
    assert str(caught.value) == f"{folder / 'a.bin'}: {complaint}: make it again"


def test_what_was_verified_is_not_read_again_until_it_changes(folder):
    files = facts_of(folder)
    assert reads(folder, files) == 2
    assert reads(folder, files) == 0
    assert reads(folder, files, remember=False) == 2
    os.utime(folder / "a.bin")
    assert reads(folder, files) == 1
    (folder / "a.bin").rename(folder / "c.bin")
    (folder / "a.bin").write_bytes(b"content")  # as a copy of the run would be
    assert reads(folder, files) == 1
    assert reads(folder, files) == 0


def test_a_memory_of_other_facts_does_not_count(folder):
    files = facts_of(folder)
    verify(folder, files, "make it again")
    files["a.bin"][1] = "0" * 64
    with pytest.raises(UserError, match="sha256 is wrong"):
        verify(folder, files, "make it again")


def test_a_file_that_has_just_been_written_is_not_remembered(folder, monkeypatch):
    """Within a tick of the clock a second change would not show."""
    monkeypatch.setattr(checksums, "SETTLED", 60.0)
    assert reads(folder, facts_of(folder)) == 2
    assert not (folder / VERIFIED).exists()


def test_a_clock_that_jumps_back_costs_time_and_nothing_else(folder, monkeypatch):
    monkeypatch.setattr(checksums, "SETTLED", 2.0)
    future = time.time() + 1e8
    os.utime(folder / "a.bin", (future, future))
    files = facts_of(folder)
    assert reads(folder, files) == reads(folder, files) == 2


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a.bin": 3}', '{"a.bin": []}', "\0"])
def test_a_damaged_memory_is_no_memory(folder, content):
    (folder / VERIFIED).write_text(content)
    assert reads(folder, facts_of(folder)) == 2
    assert json.loads((folder / VERIFIED).read_text()).keys() >= {"a.bin", "deep/b.bin"}


def test_a_planted_link_is_not_written_through(folder):
    (folder / "precious").write_text("precious")
    (folder / VERIFIED).symlink_to(folder / "precious")
    assert reads(folder, facts_of(folder)) == 2
    assert (folder / "precious").read_text() == "precious"


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../secret", "a/../../secret", "..", "a\0b", None, 3, ["a"]]
)
def test_names_that_lead_out_of_the_folder_are_refused(folder, name):
    with pytest.raises(UserError, match="do not trust this folder"):
        inside(folder, name)
    if isinstance(name, str):
        for function in (incomplete, lambda *arguments: verify(*arguments, "make it again")):
            with pytest.raises(UserError, match="do not trust this folder"):
                function(folder, {name: [1, ""]})


def test_incomplete_files_are_missing_or_of_another_size(folder):
    files = facts_of(folder)
    assert incomplete(folder, files) == []
    (folder / "a.bin").write_bytes(b"cantent")
    assert incomplete(folder, files) == []  # of the same size: only reading tells
    (folder / "a.bin").write_bytes(b"cut")
    (folder / "deep" / "b.bin").unlink()
    assert incomplete(folder, files) == ["a.bin", "deep/b.bin"]
