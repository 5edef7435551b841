"""Joins over time, kept in a state: the rows that may still find a partner, and the watermarks of both sides.

One value is the head: the progress of both watermarks, and the bins of a `TimeIndex` for each side. The rows of a key
are another one, see `JoinedKeys`. So a transaction costs by the keys that it touches, for any number of kept rows.
Everything is read from the state in each transaction, and written under its token. So a replay gives the same.

A row is over when the watermark of the other side is after its time plus ``within``: no row that isn't late can match
it any more. Then it goes. If it has found no partner, and its side is kept, it comes out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TypedDict

from attrs import field, frozen
from pyspark.sql.types import StructField

from trident_py.interfaces.states import RemovableMapState, StateFactory
from trident_py.windows.event_store import HEAD, Newest, TimedRow, judge, progress_line, progress_of
from trident_py.windows.join_keys import JoinedKeys, JoinSide, NewRows, Partners
from trident_py.windows.time_index import StoredBin, TimeIndex
from trident_py.windows.watermark import Refusal, WatermarkProgress
from trident_py.windows.window_store import value_field

NO_KEY = ""
"""The key of a row with a null in its key fields: no row matches it. Texts of keys begin with a bracket."""

_JSON = json.JSONEncoder(separators=(",", ":"), check_circular=False)


class JoinTimeOptions(TypedDict, total=False):
    """The arguments of `TridentTopology.join` for a join over time.

    Each side has a watermark: the greatest timestamp of its rows so far, less a delay. A row is late if its time is
    before the watermark of the same side, as it was after the previous transaction. A row is kept until the watermark
    of the *other* side is after its time plus ``within``. Give one value for both sides, or two for left and right.

    Attributes:
        within: rows with equal keys are joined if their times differ by at most this.
        timestamps: the field with the time of a row, on the left and on the right side. Its type is ``timestamp``.
        watermark: the delay: how much later than the newest row of its side a row may come.
        by: fields, such as the device: the watermark is the least over their values. Two names are those of the left
            and of the right side. For several fields of a side, give a list of them. None: see `EventTimeOptions`.
        idle: if a value of ``by``, or a partition, has no rows for so long, by the times of transactions, it no longer
            holds the watermark. None: it holds it forever.
        max_ahead: a row further after the time of its transaction is not joined and moves nothing; a day by default.
        store: the store of the rows: a fenced state such as `PostgresState`. None: a SQLite database in the
            ``state_dir``, under the names of the streams, or of their spouts.
    """

    within: timedelta
    timestamps: tuple[str, str]
    watermark: timedelta | tuple[timedelta, timedelta]
    by: str | tuple[str | Sequence[str] | None, str | Sequence[str] | None] | None
    idle: timedelta | tuple[timedelta | None, timedelta | None] | None
    max_ahead: timedelta | tuple[timedelta, timedelta]
    store: StateFactory | None


@frozen(kw_only=True)
class JoinFed:
    """The result of feeding the rows of a transaction.

    Attributes:
        refused: for each side, the position and reason of each row that is not joined.
        watermarks: the watermark of each side after the previous transaction.
        joined: the pairs, and rows without a partner, made during iteration. The state is complete after the last.
    """

    refused: tuple[Sequence[tuple[int, Refusal]], ...]
    watermarks: tuple[int | None, ...]
    joined: Iterator[Partners]


@frozen
class _Head:
    progress: tuple[WatermarkProgress, ...] = (WatermarkProgress(), WatermarkProgress())
    bins: tuple[Mapping[int, StoredBin], ...] = field(factory=lambda: ({}, {}))


@frozen(kw_only=True)
class TimeJoin:
    """A join of two streams by keys and times.

    Attributes:
        within: the greatest difference of the times of two rows that match, in microseconds.
        sides: the left side and the right side.
    """

    within: int
    sides: tuple[JoinSide, JoinSide]

    @property
    def slug(self) -> str:
        """The difference in microseconds as an identifier."""
        return f"join_micros_{self.within}"

    @property
    def value(self) -> StructField:
        """The value field of the state, named after the difference, and a digest of the rows' fields."""
        made_of = [
            [[(each.name, each.dataType.simpleString()) for each in side.schema], side.keys, side.timestamp]
            for side in self.sides
        ]
        return value_field(self.slug, made_of)

    def feed(
        self,
        state: RemovableMapState[bytes],
        rows: Sequence[Sequence[TimedRow]],
        now: int,
        newest: Sequence[Newest | None] | None = None,
    ) -> JoinFed:
        """Join the rows of a transaction; iterate `JoinFed.joined` to the end.

        Pairs of a key come in the order of the new rows, those of the left side first, then rows without a partner.

        Args:
            state: a state with the fields `KEYS` and `value`, in a transaction.
            rows: the rows of each side; maybe none. The key of one with a null in it is `NO_KEY`.
            now: the time of the transaction in microseconds since the epoch.
            newest: where all rows of the transaction move each side's watermark; None: ``rows`` are all.
        """
        head, newest = self._head(state), [None, None] if newest is None else newest
        judged = [
            judge(side.rules, before, given, now, before.watermark, moved)
            for side, before, given, moved in zip(self.sides, head.progress, rows, newest, strict=True)
        ]
        progress, accepted = tuple(each.progress for each in judged), [each.accepted for each in judged]
        return JoinFed(
            refused=tuple(each.refused for each in judged),
            watermarks=tuple(each.watermark for each in head.progress),
            joined=self._joined(state, head, progress, accepted),
        )

    def next_due_at(self, state: RemovableMapState[bytes]) -> int | None:
        """Return the earliest time of a transaction without rows after which a row may be over; None if none is.

        Only rows that come out then count: others may wait for a transaction.
        """
        head, found = self._head(state), []
        for number, side in enumerate(self.sides):
            least = min((each.least for each in head.bins[number].values()), default=None)
            if side.is_kept and least is not None:
                other = 1 - number
                found.append(self.sides[other].rules.passes_at(head.progress[other], least + 1))
        return min((each for each in found if each is not None), default=None)

    def watermarks(self, state: RemovableMapState[bytes]) -> tuple[int | None, ...]:
        """Return the watermark of each side after the last transaction."""
        return tuple(each.watermark for each in self._head(state).progress)

    def _joined(
        self,
        state: RemovableMapState[bytes],
        head: _Head,
        progress: tuple[WatermarkProgress, ...],
        rows: Sequence[Sequence[TimedRow]],
    ) -> Iterator[Partners]:
        due = TimeIndex.stored(state, head.bins[0], 0), TimeIndex.stored(state, head.bins[1], 1)
        bounds = progress[1].watermark, progress[0].watermark
        keys = JoinedKeys(state=state, within=self.within, sides=self.sides, due=due, bounds=bounds)
        yield from self._without_key(rows)
        yield from keys.touch(_by_key(rows))
        for each, bound in zip(due, bounds, strict=True):
            for passed in each.take(bound - 1) if bound is not None else ():
                yield from keys.touch({key: ((), ()) for _, key in passed})
        after = _Head(progress, tuple(each.bins for each in due))
        if after != head:
            state.multi_put([HEAD], [_stored(after)])

    def _without_key(self, rows: Sequence[Sequence[TimedRow]]) -> Iterator[Partners]:
        left, right = (
            [row.values for row in given if row.key == NO_KEY] if side.is_kept else []
            for side, given in zip(self.sides, rows, strict=True)
        )
        yield from ((values, None) for values in left)
        yield from ((None, values) for values in right)

    def _head(self, state: RemovableMapState[bytes]) -> _Head:
        (value,) = state.multi_get([HEAD])
        return _Head() if value is None else _restored(value)


def _by_key(rows: Sequence[Sequence[TimedRow]]) -> dict[str, NewRows]:
    """Return the rows of each key, by its text; keys in the order of their first rows."""
    found: dict[str, tuple[list[TimedRow], list[TimedRow]]] = {}
    for number, given in enumerate(rows):
        for row in given:
            if row.key != NO_KEY:
                found.setdefault(row.key, ([], []))[number].append(row)
    return dict(found)


def _stored(head: _Head) -> bytes:
    sides = [
        {
            **progress_line(progress),
            "bins": [(name, each.full, each.least) for name, each in bins.items()],
        }
        for progress, bins in zip(head.progress, head.bins, strict=True)
    ]
    return _JSON.encode({"sides": sides}).encode()


def _restored(value: bytes) -> _Head:
    found = json.loads(bytes(value))
    bins = tuple({name: StoredBin(*each) for name, *each in side["bins"]} for side in found["sides"])
    return _Head(tuple(map(progress_of, found["sides"])), bins)
