"""Lines of files as Arrow data: the work of a Spark task for a `FileSpout`.

A line ends at a line feed and nowhere else; a carriage return before that is dropped. A piece of a file owns the lines
that begin in it (the rule of Hadoop's ``LineRecordReader``), so pieces can be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import pyarrow as pa
from attrs import evolve, frozen

from trident_py.errors import SpoutError
from trident_py.rows.schema import arrow_schema
from trident_py.spouts.files.content import Content, file_errors, hash_bytes, is_compressed, seed_of
from trident_py.spouts.files.formats import LineFormat, Lines, TextLines
from trident_py.spouts.files.identity import Identity, stamp_of
from trident_py.spouts.files.whereabouts import open_same

BLOCK_BYTES = 8 * 1024 * 1024
BATCH_ROWS_MAX = 64 * 1024
_SEARCH_BYTES = 64 * 1024


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
    """Reads pieces in a Spark task: rows with the fields of the format."""

    format: LineFormat

    def __call__(self, pieces: Sequence[Piece]) -> Generator[pa.RecordBatch, None, int]:
        """Yield the lines of ``pieces``, in batches of up to 64 Ki rows or about 8 MiB; return a hash of the bytes.

        Raises:
            SpoutError: a file has changed since the batch was defined, or has lines that can't be read.
        """
        hashed = 0
        for piece in pieces:
            with file_errors(piece.path):
                hashed += yield from self._lines(piece)
        return hashed % 2**64

    def _lines(self, piece: Piece) -> Generator[pa.RecordBatch, None, int]:
        # Of the bytes alone: how they are decoded may be mended between two attempts. Old versions hashed it, too.
        text = self.format
        old = [text.encoding, text.errors] if isinstance(text, TextLines) and not piece.identity else []
        seed, hashed, schema = seed_of(piece.path, *old), 0, arrow_schema(self.format.fields)
        for position, block in _blocks_of(piece):
            hashed += hash_bytes(seed, position, block)
            rows = pa.RecordBatch.from_arrays(self.format.columns(Lines.of(piece.path, position, block)), schema=schema)
            yield from sliced(rows)
        return hashed


def sliced(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of at most `BATCH_ROWS_MAX`."""
    for row in range(0, rows.num_rows, BATCH_ROWS_MAX):
        yield rows.slice(row, BATCH_ROWS_MAX)


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
            yield from lines_between(content, 0, None, None)
            return
    position = piece.start
    if position > piece.first:
        position = line_end(content, piece.start - 1, piece.last) or piece.last
    if position < piece.end:
        yield from lines_between(content, position, piece.end, piece.last)


def _check_size(piece: Piece, content: Content) -> None:
    size = content.status.st_size
    if size < piece.last or (is_compressed(piece.path) and size != piece.last):
        raise SpoutError(
            f"file {piece.path!r} has {size} bytes, its batch was defined with {piece.last} of them: it was cut or "
            f"replaced; to fix this: restore the former content"
        )


def lines_between(content: Content, position: int, end: int | None, last: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines, block by block, each block with its position.

    Args:
        content: of the file.
        position: the beginning of the first line.
        end: lines that begin here or later are left out; None: none is.
        last: the end of the file; None: it isn't known.
    """
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
