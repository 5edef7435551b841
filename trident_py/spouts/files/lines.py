"""Lines of files as Arrow data: the work of a Spark task for a `FileSpout`.

A line ends at a line feed and nowhere else; a carriage return before that is dropped. A piece of a file owns the lines
that begin in it (the rule of Hadoop's ``LineRecordReader``), so pieces can be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import numpy as np
import pyarrow as pa
from attrs import evolve, frozen

from trident_py.errors import SpoutError
from trident_py.spouts.files.content import Content, file_errors, hash_bytes, is_compressed, seed_of
from trident_py.spouts.files.identity import Identity, stamp_of
from trident_py.spouts.files.whereabouts import open_same

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


@frozen
class Piece:
    """The lines that begin in ``[start, end)`` of a file, for one task.

    Attributes:
        first: the beginning of the batch's part of the file, at the beginning of a line.
        last: the end of the batch's part; nothing from here on is read.
        identity: identifies the file, under any name. None: an old version defined the batch. Then all of a compressed
            file is read, and ``last`` is its size on disk.
    """

    path: str
    first: int
    last: int
    start: int
    end: int
    identity: Identity | None = None

    @property
    def size(self) -> int:
        """The number of bytes, about."""
        return self.end - self.start


@frozen
class LineReader:
    """Reads pieces in a Spark task: rows of ``value``, ``path`` and ``position``.

    Attributes:
        encoding: the encoding of the files.
        errors: how to treat a line that is not in that encoding, as in ``open``.
    """

    encoding: str
    errors: str

    def __call__(self, pieces: Sequence[Piece]) -> Generator[pa.RecordBatch, None, int]:
        """Yield the lines of ``pieces``, in batches of up to 64 Ki rows or about 8 MiB; return a hash of the bytes.

        Raises:
            SpoutError: a file has changed since the batch was defined, or its text is not in the encoding.
        """
        hashed = 0
        for piece in pieces:
            with file_errors(piece.path):
                hashed += yield from self._lines(piece)
        return hashed % 2**64

    def _lines(self, piece: Piece) -> Generator[pa.RecordBatch, None, int]:
        # Of the bytes alone: how they are decoded may be mended between two attempts. Old versions hashed it, too.
        seed, hashed = seed_of(piece.path, *([] if piece.identity else [self.encoding, self.errors])), 0
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
                    f"to fix this: give FileSpout its encoding=, or errors='replace'"
                ) from error
        return pa.array(lines, pa.string())


def line_bounds(block: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the beginnings of ``block``'s lines, and the ends of their texts; only the last may lack a line feed."""
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


class _CutShortError(EOFError):
    """The file ends before the batch does."""


def _blocks_of(piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines that begin in the piece, block by block, each block with its position."""
    while True:
        with open_same(piece.path, piece.identity) as content:
            stamp = stamp_of(content.status)
            try:
                for position, block in _blocks(content, piece):
                    yield position, block
                    piece = evolve(piece, first=position + len(block), start=position + len(block))
            except _CutShortError:
                if piece.identity is None:
                    raise
                continue  # its writer cut it after a copy was made, which has the rest
            if piece.identity and stamp_of(content.status) != stamp and not piece.identity.fits(content):
                raise SpoutError(
                    f"file {piece.path!r} was rewritten while it was read; to fix this: start the topology again"
                )
            return


def _blocks(content: Content, piece: Piece) -> Iterator[tuple[int, bytes]]:
    if piece.identity is None:
        _check_size(piece, content)
        if is_compressed(piece.path):
            yield from _lines_between(content, 0, None, None)
            return
    position = piece.start
    if position > piece.first:
        position = line_end(content, piece.start - 1, piece.last) or piece.last
    if position < piece.end:
        yield from _lines_between(content, position, piece.end, piece.last)


def _check_size(piece: Piece, content: Content) -> None:
    size = content.status.st_size
    if size < piece.last or (is_compressed(piece.path) and size != piece.last):
        raise SpoutError(
            f"file {piece.path!r} has {size} bytes, its batch was defined with {piece.last} of them: it was cut or "
            f"replaced; to fix this: restore the former content"
        )


def _lines_between(content: Content, position: int, end: int | None, last: int | None) -> Iterator[tuple[int, bytes]]:
    pending = b""  # the beginning of a line, at `position`
    while True:
        at = position + len(pending)
        ending = end is not None and at >= end  # only the line that began before the end is missing
        if (ending and not pending) or at == last:
            break
        limit = last if ending else end
        chunk = content.read_at(at, BLOCK_BYTES if limit is None else min(BLOCK_BYTES, limit - at))
        if not chunk and limit is not None:
            raise _CutShortError(f"it ends at byte {at} now, before {limit}")
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


def line_end(content: Content, start: int, stop: int) -> int | None:
    """Return the end of the first line that ends in ``[start, stop)``; None: no line does."""
    while start < stop:
        found = content.read_at(start, min(_SEARCH_BYTES, stop - start))
        if not found:
            return None
        if (index := found.find(b"\n")) >= 0:
            return start + index + 1
        start += len(found)
    return None


def last_line_end(content: Content, start: int, stop: int) -> int | None:
    """Return the end of the last line that ends in ``[start, stop)``; None: no line does."""
    while start < stop:
        begin = max(start, stop - _SEARCH_BYTES)
        if (index := content.read_at(begin, stop - begin).rfind(b"\n")) >= 0:
            return begin + index + 1
        stop = begin
    return None
