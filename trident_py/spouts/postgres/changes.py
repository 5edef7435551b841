"""Positions in PostgreSQL's log, the changes after one, and how they are divided into batches. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, evolve, field, frozen

from trident_py.errors import SpoutError
from trident_py.spouts.postgres.pgoutput import Begin, Commit, Relation, message_of

_ROWS = frozenset({b"I", b"U", b"D", b"T"})
_POSITION = re.compile(r"([0-9A-F]{1,8})/([0-9A-F]{1,8})(?:\+([0-9]+))?")


@frozen(order=True)
class Position:
    """A place between two changes.

    Attributes:
        lsn: transactions whose commit begins before it are done.
        n: of the transaction whose commit begins at ``lsn``, so many changes are done, too.
    """

    lsn: int
    n: int = 0

    @classmethod
    def of(cls, text: str) -> Position:
        """Return the position that `str` has written.

        Raises:
            SpoutError: it is not one.
        """
        found = _POSITION.fullmatch(text)
        if found is None:
            raise SpoutError(f"{text!r} is not a position in PostgreSQL's log, such as '16/B374D848+3'")
        high, low, n = found.groups()
        return cls(int(high, 16) << 32 | int(low, 16), int(n or 0))

    def __str__(self) -> str:
        return f"{self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}{f'+{self.n}' if self.n else ''}"


@frozen
class Change:
    """A change as it was logged.

    Attributes:
        data: the message.
        relations: the tables that were described before it, by id.
        at: where its transaction commits, and its number there, from 1 on.
        after: the position after it.
    """

    data: bytes
    relations: Mapping[int, Relation]
    at: Position
    after: Position


def changes_after(position: Position, messages: Iterable[bytes]) -> Iterator[Change]:
    """Yield the changes after ``position``; ``messages`` are those of whole transactions, in the order of commits.

    Raises:
        SpoutError: a message can't be read, or the last transaction has no end.
    """
    return (change for change in _changes(messages) if change.at > position)


def _changes(messages: Iterable[bytes]) -> Iterator[Change]:
    relations: Mapping[int, Relation] = {}
    last: Change | None = None
    at = Position(0)
    for data in messages:
        if data[:1] in _ROWS:
            if last is not None:
                yield last
            at = evolve(at, n=at.n + 1)
            last = Change(data, relations, at, at)
            continue
        match message_of(data):
            case Begin(lsn):
                at = Position(lsn)
            case Commit(_, end) if last is not None:
                yield evolve(last, after=Position(end))
                last = None
            case Relation() as relation:
                relations = {**relations, relation.id: relation}
    if last is not None:
        raise SpoutError(f"the transaction that commits at {Position(at.lsn)} was sent without its end")


@define
class Cutter:
    """Divides changes into batches of whole transactions. A transaction that is too large is a series of batches.

    Attributes:
        changes: the changes to divide.
        bytes_max: a batch ends with the change that reaches so many bytes.
    """

    changes: Iterator[Change]
    bytes_max: int
    _ahead: list[Change] = field(factory=list, init=False)  # those that were read and are in no batch

    def next_batch(self, most: int) -> list[Change]:
        """Return the next changes, at most ``most``; empty: there are no more."""
        taken, size = self._ahead, sum(len(each.data) for each in self._ahead)
        while len(taken) < most and size < self.bytes_max:
            change = next(self.changes, None)
            if change is None:
                break
            taken.append(change)
            size += len(change.data)
        taken, rest = taken[:most], taken[most:]
        ends = [number for number, change in enumerate(taken, 1) if not change.after.n]
        if ends:
            taken, rest = taken[: ends[-1]], taken[ends[-1] :] + rest
        self._ahead = rest
        return taken
