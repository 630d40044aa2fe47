"""Bytes of plain, gzip and xz files, streamed and cut into blocks of whole lines."""

import gzip
import lzma
import os
import stat
import zlib
from dataclasses import dataclass

import numpy as np

from solar_tf.datasets.source import Block, fail

PIECE = 1 << 20  # bytes read at a time
MAX_LINE = 1 << 26  # bytes; beyond it a file is no text, and memory would not be bounded
MAGIC = {b"\x1f\x8b": "gz", b"\xfd7zXZ\0": "xz"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _gz_pieces(file):
    with gzip.open(file) as stream:
        while piece := stream.read(PIECE):
            yield piece


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


def _plain_pieces(file):
    while piece := file.read(PIECE):
        yield piece


def open_regular(path):
    """Open a file for reading bytes; UserError where that cannot be."""
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
    """Yield the decompressed bytes of a file."""
    with open_regular(path) as file:
        yield from _decompressed(path, file)


def _decompressed(path, file):
    decompress = {"gz": _gz_pieces, "xz": _xz_pieces, None: _plain_pieces}[compression(path)]
    try:
        for number, piece in enumerate(decompress(file)):
            yield piece if number else piece.removeprefix(BYTE_ORDER_MARK)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        fail(path, None, f"damaged or cut short ({error})", "download or compress it again")


def head(path, num_bytes=1 << 16):
    """The first (decompressed) bytes of a file, of which there is at least one."""
    start = b""
    for piece in pieces(path):
        start += piece[:num_bytes]
        if len(start) >= num_bytes:
            break
    if not start:
        fail(path, None, "the file is empty", "download or build it again")
    return start[:num_bytes]


def _after_lines(stream, skip):
    for piece in stream:
        while skip and piece:
            _, newline, piece = piece.partition(b"\n")
            skip -= len(newline)
        if piece:
            yield piece


@dataclass(frozen=True)
class Span:
    """Lines of a plain file by their place, for another process to read: cheap to send."""

    path: str
    start: int
    stop: int

    def read(self):
        with open_regular(self.path) as file:
            file.seek(self.start)
            return file.read(self.stop - self.start)


def _spans(path, skip):
    """A function from the pieces of the next lines to their Span."""
    with open_regular(path) as file:
        file.seek(len(BYTE_ORDER_MARK) if file.read(3) == BYTE_ORDER_MARK else 0)
        for _ in range(skip):
            file.readline(MAX_LINE)
        place = file.tell()

    def span(parts):
        nonlocal place
        start, place = place, place + sum(map(len, parts))
        return Span(path, start, place)

    return span


def line_blocks(path, lines_per_block, skip=0):
    """Yield Blocks of `lines_per_block` whole lines, after the first `skip` lines.

    See `block_bytes` for what is in them.
    """
    pack = b"".join if compression(path) else _spans(path, skip)
    first, count = 0, 0  # the block's first line, its complete lines so far
    parts, open_bytes = [], 0  # the block's bytes so far, those of its last, unfinished line
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        for piece in map(memoryview, _after_lines(_decompressed(path, file), skip)):
            share = file.tell() / size
            ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + 1
            start = 0
            for end in ends[lines_per_block - count - 1 :: lines_per_block].tolist():
                yield Block(first, lines_per_block, (pack([*parts, piece[start:end]]),), share)
                first, parts, start = first + lines_per_block, [], end
            parts.append(piece[start:])
            count = (count + len(ends)) % lines_per_block
            open_bytes = len(piece) - int(ends[-1]) if len(ends) else open_bytes + len(piece)
            if open_bytes > MAX_LINE:
                line = skip + first + count + 1
                fail(path, line, f"a line of more than {MAX_LINE} bytes", "give a file of text")
    if num_lines := count + (open_bytes > 0):
        yield Block(first, num_lines, (pack(parts),), 1.0)


def block_bytes(path, block):
    """The lines of a block of `line_blocks`; each ends in a newline, CR LF counts as one."""
    (data,) = block.parts
    if isinstance(data, Span):
        data = data.read()
    if not data.endswith(b"\n"):
        data += b"\n"
    if data.count(b"\n") != block.num_rows:  # the kernels rely on it
        fail(path, None, "the file changed while it was read", "start again")
    # A search for CR alone is ten times as fast as one for CR LF.
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def decode(path, block, skip=0):
    """The lines of a block of `line_blocks` as str, without their ends."""
    data = block_bytes(path, block)
    try:
        return data.decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        line = skip + block.first_row + data.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 (byte 0x{data[error.start]:02x})"
        fail(path, line, what, "convert the file, for example with iconv")
