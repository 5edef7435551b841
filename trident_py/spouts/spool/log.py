"""The records of all spool files in one order: which are unread, defined, and no longer needed. Pure.

Names of files sort in the order in which they were written: by epoch, then by number.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypedDict

from attrs import define, field, frozen

from trident_py.spouts.spool.records import Record, range_hash

FILE = re.compile(r"(\d{10})-(\d{6})\.spool")
KEYS_SUFFIX = ".keys"


class SpoolRange(TypedDict):
    """Records of one file, one after the other."""

    file: str
    begin: int
    end: int
    rows: int
    hash: str


def file_name(epoch: int, number: int) -> str:
    """Return the name of a file of the leader of ``epoch``."""
    return f"{epoch:010}-{number:06}.spool"


@frozen(order=True)
class Position:
    """A place between two records."""

    file: str = ""
    offset: int = 0


def end_of(ranges: Sequence[SpoolRange]) -> Position | None:
    """Return the position after a batch; None: it is empty."""
    return Position(ranges[-1]["file"], ranges[-1]["end"]) if ranges else None


@frozen
class _Unread:
    """A record without its content, which is only in the file."""

    file: str
    begin: int
    end: int
    rows: int
    hash: bytes


@frozen
class _Defined:
    end: Position | None
    bytes: int


@define
class SpoolLog:
    """Divides records into batches, and knows which files are no longer needed.

    Attributes:
        position: the end of the last batch.
        held_bytes: the bytes of records whose batch has not succeeded.
        unread_rows: the number of rows that no batch has.
    """

    position: Position = Position()
    held_bytes: int = field(default=0, init=False)
    unread_rows: int = field(default=0, init=False)
    _unread: deque[_Unread] = field(factory=deque, init=False)
    _ends: dict[str, int] = field(factory=dict, init=False)
    _defined: dict[int, _Defined] = field(factory=dict, init=False)
    _succeeded: Position = field(factory=Position, init=False)

    @property
    def ends(self) -> dict[str, int]:
        """The end of each file that is there."""
        return dict(self._ends)

    @property
    def has_unread(self) -> bool:
        """Whether there are records for a batch."""
        return bool(self._unread)

    def add(self, file: str, records: Iterable[Record], end: int) -> None:
        """Add records at the end of a file, which comes after all others; those before the position were read."""
        self._ends[file] = end
        for record in records:
            if Position(file, record.begin) >= self.position:
                self._unread.append(_Unread(file, record.begin, record.end, record.received.rows, record.hash))
                self.held_bytes += record.end - record.begin
                self.unread_rows += record.received.rows

    def adopt(self, earlier: SpoolLog) -> None:
        """Add the batches that ``earlier``, which had the same files, knows as defined."""
        self._defined, self._succeeded = earlier._defined, earlier._succeeded
        self.held_bytes += sum(each.bytes for each in self._defined.values())

    def take(self, txid: int, bytes_max: int, rows_max: int | None) -> list[SpoolRange]:
        """Define the batch of ``txid``: at least one record, if there is one, and no more than these bytes and rows."""
        taken: list[_Unread] = []
        size = rows = 0
        while self._unread:
            first = self._unread[0]
            size, rows = size + first.end - first.begin, rows + first.rows
            if taken and (size > bytes_max or (rows_max is not None and rows > rows_max)):
                break
            taken.append(self._unread.popleft())
            self.unread_rows -= first.rows
        ranges = _ranges(taken)
        self.position = end_of(ranges) or self.position
        self._defined[txid] = _Defined(end_of(ranges), sum(each["end"] - each["begin"] for each in ranges))
        return ranges

    def define(self, txid: int, ranges: Sequence[SpoolRange]) -> None:
        """Record that the batch of ``txid`` was defined as ``ranges`` before."""
        if txid not in self._defined:
            self._defined[txid] = _Defined(end_of(ranges), sum(each["end"] - each["begin"] for each in ranges))
            self.held_bytes += self._defined[txid].bytes

    def succeed(self, txid: int) -> None:
        """Record that ``txid`` and all before are committed for good."""
        for each in [each for each in self._defined if each <= txid]:
            defined = self._defined.pop(each)
            self.held_bytes -= defined.bytes
            self._succeeded = max(self._succeeded, defined.end or self._succeeded)

    def unneeded(self, active: str) -> list[str]:
        """Return the files without a record that may be needed again, oldest first; ``active`` is being written."""
        ended = (name for name, end in self._ends.items() if Position(name, end) <= self._succeeded)
        return sorted(name for name in ended if name != active)

    def forget(self, file: str) -> None:
        """Record that a file was removed."""
        del self._ends[file]


def _ranges(taken: Sequence[_Unread]) -> list[SpoolRange]:
    found: dict[str, list[_Unread]] = {}
    for each in taken:
        found.setdefault(each.file, []).append(each)
    return [
        SpoolRange(
            file=file,
            begin=records[0].begin,
            end=records[-1].end,
            rows=sum(record.rows for record in records),
            hash=range_hash(record.hash for record in records),
        )
        for file, records in found.items()
    ]
