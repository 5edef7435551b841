"""Lines of files as Arrow data: what a Spark task does for a `FileSpout`.

A line ends at a line feed and nowhere else; a carriage return before that is dropped. A piece of a file owns the lines
that begin in it (the rule of Hadoop's ``LineRecordReader``), so pieces can be cut anywhere.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from attrs import frozen

from trident_py.errors import FailedException, SpoutError
from trident_py.spouts.files.hashing import hash_bytes, seed_of

SCHEMA = pa.schema(
    [
        pa.field("value", pa.string()),
        pa.field("path", pa.string()),
        pa.field("position", pa.int64()),
    ]
)
BLOCK_BYTES = 8 * 1024 * 1024
BATCH_ROWS_MAX = 64 * 1024
_SEARCH_BYTES = 64 * 1024
_LF, _CR = 10, 13

Read = Callable[[int], bytes]


def _zstd(path: str) -> pa.NativeFile:
    return pa.CompressedInputStream(pa.OSFile(path), "zstd")


_OPENERS: Mapping[str, Callable[[str], Any]] = {
    ".gz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _zstd,
}


def is_compressed(path: str) -> bool:
    """Whether the suffix says that the file is compressed: .gz, .bz2, .xz or .zst."""
    return os.path.splitext(path)[1] in _OPENERS


_AWAY = {
    getattr(errno, name)
    for name in (
        *("EIO", "ESTALE", "ENODEV", "ENXIO", "EREMOTEIO", "ENOTCONN", "ETIMEDOUT", "ECONNREFUSED", "ECONNRESET"),
        *("ECONNABORTED", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ESHUTDOWN"),
    )
    if hasattr(errno, name)
}
"""What the system says of a disk or a file server that doesn't answer; not every system has all of these."""


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Turn whatever goes wrong with a file into an error that names it.

    Raises:
        FailedException: the disk or the server that it is on is away; it will be back.
        SpoutError: it is gone, can't be read, or is damaged.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise SpoutError(
            f"file {path!r} is gone, with lines that were not read or may be needed again; put it back, or reset the "
            f"topology"
        ) from error
    except PermissionError as error:
        raise SpoutError(f"file {path!r} cannot be read: {error.strerror}; make it readable for this user") from error
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno in _AWAY:
            raise FailedException(f"file {path!r} can't be reached: {error.strerror}") from error
        raise SpoutError(f"file {path!r} cannot be read: {error}; repair it, or move it out of the pattern") from error


@frozen
class Piece:
    """The lines that begin in ``[start, end)`` of a file, for one task.

    Attributes:
        first: where the batch's part of the file begins, at the beginning of a line.
        last: where it ends; nothing from here on is looked at. Of a compressed file: its size.
    """

    path: str
    first: int
    last: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes, more or less."""
        return self.end - self.start


@frozen
class LineReader:
    """Reads pieces in a Spark task: rows of ``value``, ``path`` and ``position``.

    Attributes:
        encoding: of the files.
        errors: what to do where a line is not in that encoding, as in ``open``.
    """

    encoding: str
    errors: str

    def __call__(self, pieces: Sequence[Piece]) -> Generator[pa.RecordBatch, None, int]:
        """The lines of ``pieces``, in batches of up to 64 Ki rows or about 8 MiB; returns a hash of what was read.

        Raises:
            SpoutError: a file is not what it was when the batch was defined, or not what it is said to be.
        """
        hashed = 0
        for piece in pieces:
            with file_errors(piece.path):
                hashed += yield from self._lines(piece)
        return hashed % 2**64

    def _lines(self, piece: Piece) -> Generator[pa.RecordBatch, None, int]:
        seed, hashed = seed_of(piece.path, self.encoding, self.errors), 0
        for position, block in _blocks_of(piece):
            hashed += hash_bytes(seed, position, block)
            starts, ends = line_bounds(block)
            values = self._decoded(piece.path, position, block, starts, ends)
            positions = pa.array(starts + position)
            for row in range(0, len(values), BATCH_ROWS_MAX):
                part = values.slice(row, BATCH_ROWS_MAX)
                columns = [part, pa.repeat(piece.path, len(part)), positions.slice(row, BATCH_ROWS_MAX)]
                yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        return hashed

    def _decoded(self, path: str, position: int, block: bytes, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
        if self.encoding == "utf-8" and _is_utf8(block):
            offsets = np.zeros(len(starts) + 1, np.int32)
            np.cumsum(ends - starts, out=offsets[1:])
            text = block.replace(b"\r\n", b"\n").translate(None, b"\n")
            return pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(text))
        lines = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            try:
                lines.append(block[start:end].decode(self.encoding, self.errors))
            except UnicodeDecodeError as error:
                raise SpoutError(
                    f"file {path!r} is not {self.encoding} at byte {position + start + error.start} ({error.reason}); "
                    f"give FileSpout its encoding=, or errors='replace'"
                ) from error
        return pa.array(lines, pa.string())


def line_bounds(block: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Where the lines of ``block`` begin, and where their text ends; only the last may lack its end."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _LF)
    starts = np.concatenate(([0], ends + 1))
    if block.endswith(b"\n"):
        starts = starts[:-1]
    returns = (ends > 0) & (data[ends - 1] == _CR)
    ends = ends - returns
    if len(starts) > len(ends):
        ends = np.append(ends, len(block))
    return starts, ends


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _blocks_of(piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Whole lines, block by block, each with its position; those that begin in the piece."""
    compressed = is_compressed(piece.path)
    _check_size(piece, compressed)
    if compressed:
        with _OPENERS[os.path.splitext(piece.path)[1]](piece.path) as stream:
            yield from _blocks(stream.read, 0, None, None)
        return
    with open(piece.path, "rb", buffering=0) as file:
        position = piece.start
        if position > piece.first:
            position = line_end(file, piece.start - 1, piece.last) or piece.last
        file.seek(position)
        if position < piece.end:
            yield from _blocks(file.read, position, piece.end, piece.last)


def _check_size(piece: Piece, compressed: bool) -> None:
    size = os.stat(piece.path).st_size
    if size < piece.last or (compressed and size != piece.last):
        raise SpoutError(
            f"file {piece.path!r} has {size} bytes, its batch was defined with {piece.last} of them: it was cut or "
            f"replaced; put back what was there, or reset the topology"
        )


def _blocks(read: Read, position: int, end: int | None, last: int | None) -> Iterator[tuple[int, bytes]]:
    pending = b""  # the beginning of a line, at `position`
    while True:
        at = position + len(pending)
        ending = end is not None and at >= end  # only the line that began before the end is missing
        if (ending and not pending) or at == last:
            break
        limit = last if ending else end
        chunk = read(BLOCK_BYTES if limit is None else min(BLOCK_BYTES, limit - at))
        if not chunk and limit is not None:
            raise EOFError(f"it ends at byte {at} now, before {limit}")
        if not chunk:
            break
        cut = 1 + (chunk.find(b"\n") if ending else chunk.rfind(b"\n"))
        if cut:
            yield position, pending + chunk[:cut]
            position, pending = at + cut, b"" if ending else chunk[cut:]
            if ending:
                return
        else:
            pending += chunk
    if pending:
        yield position, pending


def line_end(file: io.FileIO | BinaryIO, start: int, stop: int) -> int | None:
    """Where the first line that ends in ``[start, stop)`` ends; None: none does."""
    while start < stop:
        found = os.pread(file.fileno(), min(_SEARCH_BYTES, stop - start), start)
        if not found:
            return None
        if (index := found.find(b"\n")) >= 0:
            return start + index + 1
        start += len(found)
    return None


def last_line_end(file: io.FileIO | BinaryIO, start: int, stop: int) -> int | None:
    """Where the last line that ends in ``[start, stop)`` ends; None: none does."""
    while start < stop:
        begin = max(start, stop - _SEARCH_BYTES)
        if (index := os.pread(file.fileno(), stop - begin, begin).rfind(b"\n")) >= 0:
            return begin + index + 1
        stop = begin
    return None
