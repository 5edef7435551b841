"""Which rows of a table are new, by a cursor column and the rows that were seen shortly before. Pure.

Ids and times are drawn before a transaction of the database commits: id 7 may be visible after id 8 was read. So each
batch reads again from some distance before its position, the lookback, and leaves out the rows that it has seen there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from struct import pack, unpack
from typing import Any

from attrs import define, field, frozen

from coordinators.values.canonical import Json
from trident_py.errors import SpoutError

SEEN_MAX = 10_000
"""The number of rows within the lookback that a position can name: 8 bytes each are stored with each batch."""

Row = Sequence[Any]


class Cursor(ABC):
    """The column by which rows are read.

    Attributes:
        place: its position in a row.
    """

    place: int

    @abstractmethod
    def before(self, value: Any) -> Any:
        """Return the value from which to read again if the position is at ``value``; it is left out itself."""

    @abstractmethod
    def stored(self, value: Any) -> Json:
        """Return the JSON for a value."""

    @abstractmethod
    def loaded(self, stored: Any) -> Any:
        """Return the value of a JSON."""

    @abstractmethod
    def name_of(self, row: Row) -> int:
        """Return a number of 64 bits that tells rows apart within the lookback."""


@frozen
class IdCursor(Cursor):
    """A column of rising numbers, one for each row, such as an auto-increment.

    Attributes:
        lookback: how many numbers below the position are read again.
    """

    place: int
    lookback: int

    def before(self, value: Any) -> int:
        return int(value) - self.lookback

    def stored(self, value: Any) -> Json:
        return int(value)

    def loaded(self, stored: Any) -> int:
        return int(stored)

    def name_of(self, row: Row) -> int:
        return int(row[self.place])


@frozen
class TimeCursor(Cursor):
    """A column of the time at which each row was changed. A row that changes is new again.

    Attributes:
        lookback: the time before the position that is read again.
        kind: the type of its values; a `str` is a time in ISO 8601.
    """

    place: int
    lookback: timedelta
    kind: type[datetime | date | str] = datetime

    def before(self, value: Any) -> Any:
        """Return an earlier time, as a value of the same type."""
        if isinstance(value, str):
            at = self._parsed(value)
            return (at - self.lookback).isoformat(value[10:11] or " ", "auto")
        return value - self.lookback

    def stored(self, value: Any) -> Json:
        return value if isinstance(value, str) else str(value.isoformat())

    def loaded(self, stored: Any) -> Any:
        return stored if self.kind is str else self.kind.fromisoformat(stored)  # type: ignore[union-attr]

    def name_of(self, row: Row) -> int:
        """Return a hash of all values: the same row with another value is another version."""
        digest = blake2b("\0".join(map(_text, row)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)

    def _parsed(self, text: str) -> datetime:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            raise SpoutError(
                f"the cursor has the text {text!r}, which is no time like '2026-11-28 12:00:00'; to fix this: use a "
                f"column of times or of numbers"
            ) from None


def _text(value: Any) -> str:
    return f"{type(value).__name__} {value}"


@frozen
class Position:
    """How far a table was read.

    Attributes:
        upto: the greatest value of the cursor that was read; None: nothing was read.
        seen: the names of the rows that were read within the lookback, and how often each was.
    """

    upto: Any = None
    seen: Mapping[int, int] = field(factory=dict)

    @classmethod
    def of(cls, stored: Any, cursor: Cursor) -> Position:
        """Return the position that `stored` has stored; None: the beginning."""
        if stored is None:
            return cls()
        packed = b64decode(stored["seen"])
        return cls(cursor.loaded(stored["upto"]), Counter(unpack(f">{len(packed) // 8}q", packed)))

    def stored(self, cursor: Cursor) -> Json:
        """Return it as JSON."""
        names = sorted(Counter(self.seen).elements())
        packed = pack(f">{len(names)}q", *names)
        return {"upto": cursor.stored(self.upto), "seen": b64encode(packed).decode("ascii")}


@define
class Scan:
    """Reads rows in the order of the cursor, from `begin` on, and yields those that are new.

    Attributes:
        position: where the batch before ended.
        most: so many rows make a batch; rows with the same value of the cursor stay together.
    """

    cursor: Cursor
    position: Position
    most: int
    _read: list[tuple[Any, int]] = field(factory=list, init=False)
    _new: int = field(default=0, init=False)
    _ahead: Counter[int] = field(factory=Counter, init=False)  # seen rows that may come after the last one

    @property
    def begin(self) -> Any:
        """The value after which to read; None: from the beginning."""
        return None if self.position.upto is None else self.cursor.before(self.position.upto)

    def new_rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the new ones among ``rows``, until there are enough."""
        seen, last = Counter(self.position.seen), None
        for row in rows:
            value, name = row[self.cursor.place], self.cursor.name_of(row)
            if self._new >= self.most and value != last:
                self._ahead = +seen
                return
            last = value
            self._read.append((value, name))
            if seen[name] > 0:
                seen[name] -= 1
                continue
            self._new += 1
            yield row

    @property
    def end(self) -> Position:
        """The position after the rows that were read.

        Raises:
            SpoutError: the lookback has too many rows.
        """
        upto = self._read[-1][0] if self._read else None
        if self.position.upto is not None and (upto is None or not self._is_after(upto)):
            upto = self.position.upto
        if upto is None:
            return self.position
        begin = self.cursor.before(upto)
        seen = self._ahead + Counter(name for value, name in self._read if _comparable(value) > _comparable(begin))
        if seen.total() > SEEN_MAX:
            raise SpoutError(
                f"{seen.total():,} rows are within the lookback of the cursor, and at most {SEEN_MAX:,} can be told "
                f"apart; to fix this: give a shorter lookback"
            )
        return Position(upto, seen)

    def _is_after(self, value: Any) -> bool:
        return bool(_comparable(value) > _comparable(self.position.upto))


def _comparable(value: Any) -> Any:
    """Return a value that can be compared with a stored one, which may be the text of a time."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return Decimal(value)
