"""Blocks of whole lines, of plain and compressed files."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solar_tf.datasets import streams
from solar_tf.datasets.streams import block_bytes, line_blocks, pieces

from .files import PACK, assert_refused, write


def content(path):
    return b"".join(piece for piece, _ in pieces(str(path)))


@settings(deadline=None)
@given(
    data=st.binary(max_size=200).map(lambda raw: raw.replace(b"\r", b"\n")),
    lines=st.integers(1, 7),
    skip=st.integers(0, 3),
    piece=st.integers(1, 50),
    suffix=st.sampled_from(list(PACK)),
)
def test_blocks_are_the_lines_of_the_file(folder, data, lines, skip, piece, suffix):
    data = b"head\n" + data.removeprefix(streams.BYTE_ORDER_MARK)
    path = write(folder, data, f"file{suffix}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "PIECE", piece)
        blocks = list(line_blocks(path, lines, skip))
    expected = data.split(b"\n")
    expected = (expected if expected[-1] else expected[:-1])[skip:]
    found = [block_bytes(path, block) for block in blocks]
    assert b"".join(found) == b"".join(line + b"\n" for line in expected)
    assert [block.first_row for block in blocks] == list(range(0, len(expected), lines))
    assert [block.num_rows for block in blocks] == [lines.count(b"\n") for lines in found]
    assert all(block.num_rows == lines for block in blocks[:-1])


@pytest.mark.parametrize("suffix", list(PACK))
def test_a_block_says_how_much_of_the_file_is_read(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(streams, "PIECE", 1000)
    generator = random.Random(1)
    lines = [generator.randbytes(50).hex() + "\n" for _ in range(5000)]
    path = write(tmp_path, "".join(lines), f"file{suffix}")
    shares = [block.share for block in line_blocks(path, 500)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    if suffix != ".xz":  # whose blocks are larger than this file
        assert shares[4] == pytest.approx(0.5, abs=0.1)


def test_windows_line_ends_and_byte_order_mark_are_dropped(tmp_path):
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (block,) = line_blocks(str(tmp_path / "file"), 5)
    assert block_bytes("file", block) == b"one\ntwo\n"


def test_a_file_that_changes_under_its_reader_is_an_error(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n")
    (block,) = line_blocks(str(path), 5)
    for changed in (b"one two\n", b"one\n", b"\n" * 8):
        path.write_bytes(changed)
        assert_refused("changed while it was read: start again", block_bytes, "file", block)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_concatenated_streams_are_read_whole(tmp_path, suffix):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(PACK[suffix](b"one\n") + PACK[suffix](b"two\n"))
    assert content(path) == b"one\ntwo\n"
    path.write_bytes(PACK[suffix](b"one\n") + bytes(8))  # both formats allow padding
    assert content(path) == b"one\n"


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_every_truncation_of_a_compressed_file_and_rubbish_after_it_are_errors(tmp_path, suffix):
    path = tmp_path / f"file{suffix}"
    packed = PACK[suffix](b"some text\n" * 20)
    for length in range(len(packed)):
        path.write_bytes(packed[:length])
        assert_refused(r"empty|not a \.|damaged or cut short", content, path)
    path.write_bytes(packed + b"rubbish")
    assert_refused("damaged or cut short", content, path)


def test_what_is_no_file_is_an_error(tmp_path):
    assert_refused("no such file: check the path", content, tmp_path / "missing")
    assert_refused("cannot be read", content, tmp_path)
    assert_refused("not a regular file", content, "/dev/null")


def test_a_line_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "MAX_LINE", 1000)
    monkeypatch.setattr(streams, "PIECE", 100)
    blocks = line_blocks(write(tmp_path, b"short\n" + b"x" * 5000, "file"), 10)
    assert_refused("file:2: a line of more than 1000 bytes", list, blocks)
