"""Positions in a JetStream stream: the ranges of its messages, and whether messages after a position were lost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from attrs import asdict, frozen

from coordinators.values.canonical import Json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MessageRange(TypedDict):
    """The messages of a stream after one sequence number, up to another one.

    ``count`` is the number of the messages, and ``holes`` that of the sequence numbers there that have no message. The
    other keys are those of `StreamPosition`, for its end.
    """

    stream: str
    after: int
    count: int
    holes: int
    created: str
    upto: int
    time: int
    known: int
    gaps: int


@frozen(kw_only=True)
class StreamPosition:
    """How far a stream was read.

    Attributes:
        created: the time at which the stream was created, which identifies it.
        upto: the number of the last message.
        time: the time of that message, in microseconds since 1970; 0: it is unknown, or there is no such message.
        known: the last number that the stream had then.
        gaps: how many of the numbers after ``upto``, up to ``known``, had no message.
    """

    created: str
    upto: int
    time: int
    known: int
    gaps: int

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> StreamPosition:
        """Return the position that a cursor or the end of a range has."""
        return cls(**{name: stored[name] for name in ("created", "upto", "time", "known", "gaps")})

    @property
    def cursor(self) -> dict[str, Json]:
        """The position as JSON."""
        return asdict(self)


def micros_of(time: str) -> int:
    """Return a time as the server writes it, such as ``2026-11-28T20:05:09.12Z``, in microseconds since 1970."""
    return (datetime.fromisoformat(time) - _EPOCH) // timedelta(microseconds=1)


@frozen(kw_only=True)
class StreamLook:
    """A server's description of a stream at one moment.

    Attributes:
        created: the time at which it was created.
        retention: ``limits`` if messages stay until a limit is reached.
        is_mirror: whether it is a copy of another stream, with the numbers of that one.
        first: the number of the first message; the one after ``last`` if there are no messages.
        last: the last number that a message ever had.
        gaps: how many numbers between both have no message.
        deleted: these numbers, in order, if they were asked for.
    """

    created: str
    retention: str
    is_mirror: bool
    first: int
    last: int
    gaps: int
    deleted: tuple[int, ...]

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> StreamLook:
        """Return the look that an answer of the server is."""
        config, state = info["config"], info["state"]
        return cls(
            created=info["created"],
            retention=config["retention"],
            is_mirror="mirror" in config,
            first=max(1, state["first_seq"]),
            last=state["last_seq"],
            gaps=state.get("num_deleted", 0),
            deleted=tuple(sorted(state.get("deleted") or ())),
        )

    def position(self, upto: int, time: int) -> StreamPosition:
        """Return the position after message ``upto``, which has this time."""
        gaps = self.gaps_between(upto, self.last)
        return StreamPosition(created=self.created, upto=upto, time=time, known=self.last, gaps=gaps)

    def range(self, stream: str, begin: StreamPosition, end: StreamPosition, count: int) -> MessageRange:
        """Return the range between two positions, which has ``count`` messages."""
        return MessageRange(
            stream=stream,
            after=begin.upto,
            count=count,
            holes=self.gaps_between(begin.upto, end.upto),
            created=end.created,
            upto=end.upto,
            time=end.time,
            known=end.known,
            gaps=end.gaps,
        )

    def gaps_between(self, after: int, upto: int) -> int:
        """Return how many numbers after ``after``, up to ``upto``, have no message, or none any more."""
        before_first = max(0, min(self.first - 1, upto) - after)
        return before_first + max(0, bisect_right(self.deleted, upto) - bisect_right(self.deleted, after))

    def end_after(self, after: int, most: int) -> tuple[int, int]:
        """Return the end of the next ``most`` messages, and how many they are.

        If there are fewer, the end is the last number.
        """
        upto = after + most
        for number in self.deleted[bisect_right(self.deleted, after) :]:
            if number > upto:
                break
            upto += 1
        upto = min(upto, self.last)
        return upto, upto - after - self.gaps_between(after, upto)

    def lost_after(self, position: StreamPosition) -> str:
        """Return why messages after ``position`` can't be read any more; empty: all of them are there.

        A mirror may lack numbers that were not known yet, because its origin lacks them.
        """
        if self.created != position.created:
            return (
                f"it was created at {self.created}, and the one that was read up to message {position.upto} at "
                f"{position.created}: it was deleted and made again"
            )
        if self.last < position.upto:
            return f"it was read up to message {position.upto}, and ends at {self.last}: its server has lost messages"
        known = max(position.upto, position.known)
        lost = self.gaps_between(position.upto, known) - position.gaps
        lost += self.gaps_between(known, max(known, self.first - 1) if self.is_mirror else self.last)
        if lost <= 0:
            return ""
        way = "trimmed or purged" if self.first > position.upto + 1 else "deleted"
        return f"{lost} unread messages after message {position.upto} were {way}"

    def has_lost(self, given: MessageRange) -> bool:
        """Return whether messages of a range were trimmed, purged or deleted since it was defined."""
        after, upto = given["after"], given["upto"]
        return self.last < upto or self.gaps_between(after, upto) > given["holes"]

    def endangers(self, stored: StreamPosition) -> bool:
        """Return whether a stored position should move, though no message after it has a wanted subject.

        After a restart, all messages after it count as unread, and as lost if they are gone by then.
        """
        return stored.upto < (self.first + self.last) // 2 or bool(self.lost_after(stored))
