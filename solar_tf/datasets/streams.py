"""Bytes of plain, gzip and xz files, streamed and cut into blocks of whole lines."""

import gzip
import lzma
import os
import stat
import zlib
from dataclasses import dataclass
from functools import partial

import numpy as np

from solar_tf.datasets.source import Block, fail

PIECE = 1 << 20  # bytes read at a time
BUFFER = 1 << 18  # bytes read at a time where none are kept: it stays in the L2 cache
MAX_LINE = 1 << 26  # bytes; a longer line means that the file is no text, and bounds memory
MAGIC = {b"\x1f\x8b": "gz", b"\xfd7zXZ\0": "xz"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _plain_pieces(file):
    return iter(partial(file.read, PIECE), b"")


def _gz_pieces(file):
    with gzip.open(file) as stream:
        yield from _plain_pieces(stream)


def _xz_pieces(file):
    """Unlike lzma.open, refuses rubbish after a stream instead of ending there in silence."""
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    while True:
        data = b""
        if decoder.eof:
            data = (decoder.unused_data or file.read(PIECE)).lstrip(b"\0")  # padding of streams
            if not data and not (data := file.read(PIECE).lstrip(b"\0")):
                return
            decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        elif decoder.needs_input and not (data := file.read(PIECE)):
            raise EOFError("the end of the stream is missing")
        if piece := decoder.decompress(data, max_length=PIECE):
            yield piece


def open_regular(path):
    """Open a file for reading bytes, or raise a UserError."""
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        fail(path, None, "no such file", "check the path")
    except (OSError, ValueError) as error:
        fail(path, None, f"cannot be read ({error})", "check the path and its permissions")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        fail(path, None, "not a regular file", "save the data to a file first")
    return file


def compression(path):
    """ "gz", "xz" or None, by content; a name that says otherwise is an error."""
    with open_regular(path) as file:
        magic = file.read(6)
    found = next((name for mark, name in MAGIC.items() if magic.startswith(mark)), None)
    named = os.path.splitext(path)[1][1:]
    if not magic:
        fail(path, None, "the file is empty", "download or build it again")
    if named in MAGIC.values() and named != found:
        fail(path, None, f"not a .{named} file", "rename it, or download it again")
    return found


def pieces(path):
    """Yield the decompressed bytes of a file, and the share of it that has been read."""
    decompress = {"gz": _gz_pieces, "xz": _xz_pieces, None: _plain_pieces}[compression(path)]
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            for number, piece in enumerate(decompress(file)):
                piece = piece if number else piece.removeprefix(BYTE_ORDER_MARK)
                yield piece, file.tell() / size
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            fail(path, None, f"damaged or cut short ({error})", "download or compress it again")


def head(path, num_bytes=1 << 16):
    """The first (decompressed) bytes of a file, at least one."""
    start = b""
    for piece, _ in pieces(path):
        start += piece[:num_bytes]
        if len(start) >= num_bytes:
            break
    if not start:
        fail(path, None, "the file is empty", "download or build it again")
    return start[:num_bytes]


@dataclass(frozen=True)
class Span:
    """The place of some lines in a plain file: cheap to send to the process that reads them."""

    path: str
    start: int
    stop: int

    def read(self):
        with open_regular(self.path) as file:
            file.seek(self.start)
            return file.read(self.stop - self.start)


def line_blocks(path, lines_per_block, skip=0):
    """Blocks of `lines_per_block` whole lines, after the first `skip` lines.

    `block_bytes` returns the lines of a block.
    """
    cut = _cut_stream if compression(path) else _cut_plain
    return cut(_Lines(path, lines_per_block, skip))


def where(data, byte):
    """Which bytes of the data equal this one: bool [bytes]."""
    return np.frombuffer(data, np.uint8) == ord(byte)


def count(data, byte):
    """How often a byte occurs; five times as fast as bytes.count."""
    return int(np.count_nonzero(where(data, byte)))


class _Lines:
    """Finds where blocks of lines end in the pieces of a file."""

    def __init__(self, path, lines_per_block, skip):
        self.path, self.lines_per_block, self.skip = path, lines_per_block, skip
        self.first = self.count = 0  # the block's first line, its complete lines so far
        self.open_bytes = 0  # of the last, unfinished line, or up to a piece more

    def ends(self, piece):
        """The places in a piece where blocks end."""
        ends = where(piece, b"\n")
        num_lines, step, places = np.count_nonzero(ends), self.lines_per_block, []
        if self.count + num_lines >= step:
            places = (np.flatnonzero(ends)[step - self.count - 1 :: step] + 1).tolist()
        self.count += num_lines
        # The whole piece counts, also where a line begins within it: finding its start is slow.
        begun = 0 if num_lines else self.open_bytes
        self.open_bytes = 0 if ends[-1] else begun + len(piece)
        if self.open_bytes > MAX_LINE:
            line = self.skip + self.first + self.count + 1
            fail(self.path, line, f"a line of more than {MAX_LINE} bytes", "give a file of text")
        return places

    def block(self, part, share):
        """The next block of full size."""
        first, self.first = self.first, self.first + self.lines_per_block
        self.count -= self.lines_per_block
        return Block(first, self.lines_per_block, (part,), share)

    def rest(self, part):
        """The last block, if anything is left for it."""
        if num_lines := self.count + (self.open_bytes > 0):
            yield Block(self.first, num_lines, (part,), 1.0)


def _cut_stream(lines):
    """Blocks of a compressed file, which hold their lines."""
    skip, parts = lines.skip, []
    for piece, share in pieces(lines.path):
        while skip and piece:
            _, newline, piece = piece.partition(b"\n")
            skip -= len(newline)
        if not piece:
            continue
        start, piece = 0, memoryview(piece)
        for end in lines.ends(piece):
            yield lines.block(b"".join([*parts, piece[start:end]]), share)
            parts, start = [], end
        parts.append(piece[start:])
    yield from lines.rest(b"".join(parts))


def _cut_plain(lines):
    """Blocks of a plain file, which hold the Span of their lines.

    One process cuts for all others, so this loop must be fast: one buffer, no copies.
    """
    buffer = np.empty(BUFFER, np.uint8)
    with open_regular(lines.path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(len(BYTE_ORDER_MARK) if file.read(3) == BYTE_ORDER_MARK else 0)
        for _ in range(lines.skip):
            file.readline(MAX_LINE)
        start = place = file.tell()
        while num_bytes := file.readinto(buffer):
            for end in lines.ends(buffer[:num_bytes]):
                yield lines.block(Span(lines.path, start, place + end), (place + end) / size)
                start = place + end
            place += num_bytes
    yield from lines.rest(Span(lines.path, start, place))


def block_bytes(path, block):
    """The lines of a block of `line_blocks`; each ends in a newline, CR LF counts as one."""
    (data,) = block.parts
    if isinstance(data, Span):
        data = data.read()
    if not data.endswith(b"\n"):
        data += b"\n"
    if count(data, b"\n") != block.num_rows:  # the kernels rely on it
        fail(path, None, "the file changed while it was read", "start again")
    # A search for CR alone is ten times as fast as one for CR LF.
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def decode(path, block):
    """The lines of a block of `line_blocks` as str, without their ends."""
    data = block_bytes(path, block)
    try:
        return data.decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        line = block.first_row + data.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 (byte 0x{data[error.start]:02x})"
        fail(path, line, what, "convert the file, for example with iconv")


def numbered_lines(path):
    """Yield the number, from 1, and the text of every line of a file."""
    for block in line_blocks(path, 100_000):
        yield from enumerate(decode(path, block), block.first_row + 1)
