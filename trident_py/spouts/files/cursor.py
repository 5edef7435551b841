"""One file that is read from its beginning to wherever its writer is, and what must not happen to it meanwhile."""

from __future__ import annotations

import os
from typing import BinaryIO

from attrs import define

from coordinators.canonical import Json
from trident_py.errors import SpoutError
from trident_py.spouts.files.lines import file_errors, is_compressed, last_line_end, line_end

SETTLED_SECS = 2.0
"""How long a file must be left alone until its last line is taken without a line feed, or it is taken as compressed."""

LINE_BYTES_MAX = 256 * 1024 * 1024
"""Longer lines are taken for a mistake: a task holds a line in memory several times."""


@define
class Tail:
    """How far a file was given to batches.

    Attributes:
        cursor: every byte before it was given.
        seen: the largest size that was seen.
        modified: when it was last written to, in seconds since 1970.
        searched: no line ends between the cursor and here.
        resumed: whether the cursor is known to be at the beginning of a line.
        gone: it was deleted, with nothing left to read.
    """

    path: str
    cursor: int = 0
    seen: int = 0
    modified: float = 0.0
    searched: int = 0
    resumed: bool = True
    gone: bool = False

    @classmethod
    def restored(cls, path: str, cursor: Json) -> Tail:
        """The tail with a stored cursor: an offset, or that and the size that was seen."""
        match cursor:
            case int():
                return cls(path, cursor, cursor, resumed=False)
            case [int() as offset, int() as seen]:
                return cls(path, offset, seen, resumed=False)
        raise SpoutError(f"file {path!r} has the position {cursor!r}, which is none; reset the topology")

    @property
    def compressed(self) -> bool:
        """Whether it is read whole or not at all."""
        return is_compressed(self.path)

    @property
    def unread(self) -> int:
        """How many bytes are known of and not given."""
        return self.seen - self.cursor

    def look(self, status: os.stat_result) -> None:
        """Take note of how the file is now.

        Raises:
            SpoutError: it shrank, came back after it was deleted, or is compressed and changed after it was read.
        """
        if self.gone:
            raise self._error("was read to the end, deleted, and is there again", "give new files new names")
        if status.st_size < self.seen:
            raise self._error(f"shrank to {status.st_size} bytes", "put back what was there")
        if status.st_size > self.cursor > 0 and self.compressed:
            raise self._error(f"is compressed, was read whole and has {status.st_size} bytes now", "undo that")
        self.seen, self.modified = status.st_size, status.st_mtime

    def miss(self) -> None:
        """The file isn't found any more.

        Raises:
            SpoutError: not all of it was read.
        """
        if self.unread:
            raise self._error("is gone", "put it back")
        self.gone = True

    def next_end(self, budget: int, now: float) -> int:
        """Where to read to: as many whole lines as fit into ``budget`` bytes, at least one; the cursor if none is left.

        Raises:
            SpoutError: the file goes on inside a line that was taken without a line feed, or can't be read.
        """
        with file_errors(self.path):
            if self.unread:
                self.look(os.stat(self.path))
            settled = now - self.modified >= SETTLED_SECS
            if self.compressed or self.searched == self.seen:
                return self.seen if settled else self.cursor
            with open(self.path, "rb", buffering=0) as file:
                if not self._resume(file):
                    return self.cursor
                return self._line_end(file, min(self.seen, self.cursor + budget), settled)

    def advance(self, end: int) -> None:
        """Everything before ``end`` is given now."""
        self.cursor, self.resumed = end, False

    def _line_end(self, file: BinaryIO, limit: int, settled: bool) -> int:
        if limit == self.seen and settled:
            return limit
        if found := last_line_end(file, max(self.cursor, self.searched), limit):
            return found
        found = line_end(file, max(limit, self.searched), self.seen)
        if (found or self.seen) - self.cursor > LINE_BYTES_MAX:
            raise self._error(f"has a line of more than {LINE_BYTES_MAX} bytes", "move it out of the pattern")
        if found:
            return found
        self.searched = self.seen
        return self.seen if settled else self.cursor

    def _resume(self, file: BinaryIO) -> bool:
        """Whether the cursor is at the beginning of a line, after skipping what ends the one before."""
        if not self.resumed and self.cursor:
            last, more = (os.pread(file.fileno(), size, at) for size, at in ((1, self.cursor - 1), (2, self.cursor)))
            if last != b"\n":
                if more == b"\r":
                    return False  # perhaps the first half of a line's end
                if last == b"\r" or not more.startswith((b"\n", b"\r\n")):
                    raise self._error("goes on inside its last line, which was taken when it was left alone", _RESET)
                self.cursor += more.index(b"\n") + 1
        self.resumed = True
        return True

    def _error(self, what: str, way_out: str) -> SpoutError:
        reset = way_out if way_out is _RESET else f"{way_out}, or reset the topology to read everything again"
        return SpoutError(
            f"file {self.path!r}, of which {self.cursor} bytes were read and {self.seen} were seen, {what}; {reset}"
        )


_RESET = "end files with a line feed, and reset the topology to read everything again"
