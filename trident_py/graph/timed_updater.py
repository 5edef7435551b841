"""Updaters of states by time: they add rows, and emit the results that follow. They may work by groups of keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
from attrs import frozen
from pyspark.sql.types import StructType

from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.states import Key, RemovableMapState
from trident_py.rows.row import Row, row_class, rows_of
from trident_py.rows.schema import arrow_schema
from trident_py.states.shards import shard_numbers
from trident_py.windows.event_store import Newest
from trident_py.windows.key_groups import GroupedState

VALUES = ("is_late", "row")
"""The fields that an updater emits in event time: the row of the stream of late rows, or of the stream of results."""

Newests: TypeAlias = Sequence[Newest]
"""For each watermark, where the rows of a transaction move it."""


class TimedUpdater(ABC):
    """Adds the rows of a batch to a state, and emits what follows from them, or from the time."""

    @abstractmethod
    def feed(
        self,
        state: RemovableMapState[bytes],
        tuples: Sequence[Row],
        time: int,
        collector: TridentCollector,
        newest: Newests | None = None,
    ) -> None:
        """Feed the rows of a batch (maybe none), at the time of its transaction, in milliseconds since 1970.

        In event time, emit `VALUES`. ``newest`` is that of the whole transaction; None: ``tuples`` are all of its rows.
        """

    @abstractmethod
    def next_window_at(self, state: RemovableMapState[bytes]) -> int | None:
        """Return the transaction time, in milliseconds since 1970, at which something is emitted without more rows.

        None if nothing is emitted by time.
        """

    @abstractmethod
    def keys(self, rows: pa.Table) -> Sequence[Key]:
        """Return the key of each row: rows of other keys don't change what follows from it, except by `newest`."""

    def newest(self, rows: pa.Table, time: int) -> Newests:
        """Return where these rows of a transaction move each watermark; nothing if there is no watermark."""
        return ()

    def watermarks(self, state: RemovableMapState[bytes]) -> dict[str, float]:
        """Return each watermark, in seconds since 1970, by the name of its metric; none before the first row."""
        return {}


def without_partition(rows: Sequence[Row]) -> list[Row]:
    """Return rows without their first field, in which they carry their partition."""
    if not rows:
        return []
    make = row_class(tuple(rows[0]._fields[1:]))._make
    return [make(row[1:]) for row in rows]


@frozen
class KeyGroups:
    """Lets an updater change a state group by group. With one group, the state is as the updater stores it.

    All groups are fed in each transaction, also without rows: the watermark of all rows moves each of them.

    Attributes:
        inputs: the fields of the rows.
        count: the number of groups; stored data depends on it.
    """

    updater: TimedUpdater
    inputs: StructType
    count: int = 1

    def feeding(
        self,
        state: RemovableMapState[bytes],
        rows: pa.Table,
        time: int,
        collector: TridentCollector,
        newest: Newests | None = None,
        among: range | None = None,
    ) -> Iterator[int]:
        """Feed the rows of a batch; yield the number of each group after its rows.

        Args:
            state: the state, in a transaction.
            rows: the rows of the groups of ``among``; without rows, their fields may be missing.
            time: see `TimedUpdater.feed`.
            collector: see `TimedUpdater.feed`.
            newest: where all rows of the transaction move each watermark; None: ``rows`` are all.
            among: the groups to feed; None: all.
        """
        rows = self._named(rows)
        tuples = rows_of(rows)
        if self.count == 1:
            self.updater.feed(state, tuples, time, collector)
            yield 0
            return
        newest = self.newest(rows, time) if newest is None else newest
        grouped, by_group = GroupedState(state), dict[int, list[Row]]()
        for number, row in zip(self.numbers(rows), tuples, strict=True):
            by_group.setdefault(number, []).append(row)
        for group in grouped.groups(range(self.count) if among is None else among):
            self.updater.feed(group, by_group.get(group.number, []), time, collector, newest)
            yield group.number
        grouped.flush()

    def numbers(self, rows: pa.Table) -> list[int]:
        """Return the number of the group of each row."""
        return shard_numbers(self.updater.keys(self._named(rows)), self.count)

    def newest(self, rows: pa.Table, time: int) -> Newests:
        """Return where rows of a transaction move each watermark."""
        return self.updater.newest(self._named(rows), time)

    def of(self, state: RemovableMapState[bytes]) -> Sequence[RemovableMapState[bytes]]:
        """Return all groups of a state."""
        return [state] if self.count == 1 else GroupedState(state).groups(range(self.count))

    def _named(self, rows: pa.Table) -> pa.Table:
        return rows.rename_columns(self.inputs.names) if rows.num_columns else arrow_schema(self.inputs).empty_table()
