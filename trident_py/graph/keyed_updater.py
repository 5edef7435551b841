"""The updater of a function with timers: it calls the function, and keeps the values and timers of keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from decimal import localcontext
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any

import pyarrow as pa
from attrs import define, evolve, field, frozen
from pyspark.sql.types import StructType

from coordinators.values.transaction_time import MILLIS
from trident_py.graph.event_time import EventTime
from trident_py.graph.timed_rows import WholeRows
from trident_py.graph.timed_updater import Newests, TimedUpdater, without_partition
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.keyed import KeyedFunction, KeyState, Timers
from trident_py.interfaces.operations import EXACT_DECIMALS
from trident_py.interfaces.states import Key, RemovableMapState
from trident_py.rows.moments import in_millis, moment
from trident_py.rows.row import Row, keys_in, row_class, values_of
from trident_py.rows.schema import shown
from trident_py.states.keys import decode_key, encode_keys
from trident_py.windows.event_store import judge
from trident_py.windows.keyed_store import KeyedHead, KeyedStore, KeyRecord
from trident_py.windows.time_index import Entry, TimeIndex
from trident_py.windows.windows import MICROS
from trident_py.worker.failures import in_user_code
from trident_py.worker.pipeline import Values, checked, prepared

FIRINGS_MAX = 100_000
"""So many timers of one key may fire in one transaction: this stops a function that sets timers without end."""

PORTION_KEYS = 1024
"""The number of keys whose records are in memory at the same time."""


@frozen(kw_only=True)
class KeyedCalls:
    """Calls of the function.

    Attributes:
        keys: the group fields.
        output: the fields of the results.
        value: the names of the fields of a key's value.
    """

    title: str
    function: KeyedFunction
    keys: tuple[str, ...]
    output: StructType
    value: tuple[str, ...]

    def on_rows(self, key: str, record: KeyRecord, rows: Sequence[Row], timers: Timers) -> list[Values]:
        """Return the results for the rows of a key; change its record."""
        function = self.function

        def call(group: Row, state: KeyState) -> Any:
            return function.on_rows(group, rows, state, evolve(timers, pending=record.timers))

        return self._called(key, record, call, lambda: f"over {len(rows)} rows")

    def on_timer(self, key: str, record: KeyRecord, at: datetime, timers: Timers) -> list[Values]:
        """Return the results for a timer of a key; change its record."""
        function = self.function

        def call(group: Row, state: KeyState) -> Any:
            return function.on_timer(group, at, state, evolve(timers, pending=record.timers))

        return self._called(key, record, call, lambda: f"on its timer of {at}")

    def _called(
        self, key: str, record: KeyRecord, call: Callable[[Row, KeyState], Any], place: Callable[[], str]
    ) -> list[Values]:
        group, state = row_class(self.keys)._make(decode_key(key)), KeyState(self.value, record.value)
        with self.in_code(key, place), localcontext(EXACT_DECIMALS):
            found = call(group, state)
            if found is not None and (isinstance(found, str | bytes | dict) or not isinstance(found, Iterable)):
                raise TypeError(f"{self.title} must give an iterable of tuples, lists or Rows, not {shown(found)}")
            results = checked([] if found is None else list(found), self.output, self.title)
        record.value = state.get()
        return results

    @contextmanager
    def in_code(self, key: str, place: Callable[[], str]) -> Iterator[None]:
        """Add the key and the place to exceptions of the block, which count as the function's."""
        with in_user_code(lambda: f"in {self.title}, for the key {key}, {place()}"):
            yield


@define(kw_only=True)
class _Run:
    """One transaction.

    Attributes:
        now: timers up to this time fire; None: none does.
        passed: the first timer of each key that has one which has come, and isn't in the index.
        placed: new entries for the index.
        fired: the number of timers that have fired, by key.
    """

    calls: KeyedCalls
    store: KeyedStore
    state: RemovableMapState[bytes]
    index: TimeIndex
    emit: Callable[[Values], None]
    now: int | None
    passed: list[Entry] = field(factory=list)
    placed: list[Entry] = field(factory=list)
    fired: Counter[str] = field(factory=Counter)

    def add(self, groups: Mapping[str, Sequence[Row]], timers: Timers) -> None:
        """Call the function with the rows of each key; ``timers`` has the times that it sees."""
        names = list(groups)
        for start in range(0, len(names), PORTION_KEYS):
            with self._records(names[start : start + PORTION_KEYS]) as records:
                for key, record in records.items():
                    for row in self.calls.on_rows(key, record, groups[key], timers):
                        self.emit(row)

    def fire(self, timers: Timers) -> None:
        """Fire the timers that are due, in the order of times, then of keys; also those that this sets.

        ``timers`` has the times that the function sees.
        """
        if self.now is None:
            return
        self.passed += chain.from_iterable(self.index.take(self.now))
        heapify(self.passed)
        while self.passed:
            found: dict[str, set[int]] = {}
            while self.passed and (len(found) < PORTION_KEYS or self.passed[0][1] in found):
                at, key = heappop(self.passed)
                found.setdefault(key, set()).add(at)
            end = self.passed[0] if self.passed else None
            with self._records(list(found)) as records:
                for key, record in records.items():
                    record.entries -= found[key]
                self._fire(records, self.now, end, timers)

    def finish(self) -> None:
        """Add the new entries to the index."""
        self.index.add(self.placed, self.now or 0)

    def _fire(self, records: Mapping[str, KeyRecord], now: int, end: Entry | None, timers: Timers) -> None:
        """Fire the timers of some keys, up to the first one of all other keys."""
        due = [(at, key) for key, record in records.items() for at in record.timers if at <= now]
        heapify(due)
        while due and (end is None or due[0] < end):
            at, key = heappop(due)
            record = records[key]
            if at not in record.timers:  # deleted meanwhile
                continue
            record.timers.remove(at)
            self._count(key)
            before = set(record.timers)
            for row in self.calls.on_timer(key, record, moment(at), timers):
                self.emit(row)
            for new in record.timers - before:
                if new <= now:
                    heappush(due, (new, key))

    def _count(self, key: str) -> None:
        self.fired[key] += 1
        if self.fired[key] > FIRINGS_MAX:
            with self.calls.in_code(key, lambda: "on its timers"):
                raise RuntimeError(
                    f"more than {FIRINGS_MAX} of its timers would fire in one transaction; to fix this: let on_timer "
                    f"set timers that are after the time for which it is called, and far enough apart"
                )

    @contextmanager
    def _records(self, keys: Sequence[str]) -> Iterator[Mapping[str, KeyRecord]]:
        """Read the records of keys, and store those that the block has changed."""
        records = self.store.read(self.state, keys)
        before = {key: (record.value, set(record.timers), set(record.entries)) for key, record in records.items()}
        yield records
        for key, record in records.items():
            first = min(record.timers, default=None)
            if first is not None and self.now is not None and first <= self.now:
                heappush(self.passed, (first, key))
            elif (missing := record.missing_entry) is not None:
                record.entries.add(missing)
                self.placed.append((missing, key))
        changed = {key: record for key, record in records.items() if _differs(record, before[key])}
        try:
            self.store.write(self.state, changed)
        except TypeError:
            for key, record in changed.items():
                with self.calls.in_code(key, lambda: "storing its value"):
                    self.store.check(record)
            raise


def _differs(record: KeyRecord, before: tuple[Row | None, set[int], set[int]]) -> bool:
    value, timers, entries = before
    return record.value is not value or record.timers != timers or record.entries != entries


@frozen(kw_only=True)
class KeyedUpdater(TimedUpdater):
    """Calls a function with timers.

    Attributes:
        event_time: None: timers go by the times of transactions.
    """

    calls: KeyedCalls
    store: KeyedStore
    event_time: EventTime | None

    def feed(
        self,
        state: RemovableMapState[bytes],
        tuples: Sequence[Row],
        time: int,
        collector: TridentCollector,
        newest: Newests | None = None,
    ) -> None:
        """Call the function with the rows, then fire the timers that are due."""
        head, now = self.store.head(state), time * (MICROS // MILLIS)
        if self.event_time is None:
            at = max(head.time or now, now) if head.bins else now
            self._run(state, tuples, head, KeyedHead(time=at), Timers(now=moment(at)), at, collector.emit)
            return
        before = head.progress.watermark
        seen = Timers(now=moment(now), watermark=None if before is None else moment(before))
        moved = newest[0] if newest else None
        judged = judge(self.event_time.rules, head.progress, self._timed(self.event_time)(tuples), now, before, moved)
        tuples = without_partition(tuples) if self.event_time.is_carrying else tuples
        for number, why in judged.refused:
            collector.emit((True, (*tuples[number], why.value, seen.watermark)))
        refused = {number for number, _ in judged.refused}
        rows = [row for number, row in enumerate(tuples) if number not in refused]
        after = KeyedHead(judged.progress)
        self._run(state, rows, head, after, seen, judged.progress.watermark, lambda row: collector.emit((False, row)))

    def keys(self, rows: pa.Table) -> Sequence[Key]:
        return keys_in(rows, self.calls.keys)

    def newest(self, rows: pa.Table, time: int) -> Newests:
        found = self.event_time
        return [] if found is None else [self._timed(found).newest(rows, found.rules, time * (MICROS // MILLIS))]

    def next_window_at(self, state: RemovableMapState[bytes]) -> int | None:
        """Return when the first entry of the index is reached, which may be one of a deleted timer."""
        head = self.store.head(state)
        if head.first is None or self.event_time is None:
            return in_millis(head.first)
        return in_millis(self.event_time.rules.passes_at(head.progress, head.first))

    def watermarks(self, state: RemovableMapState[bytes]) -> dict[str, float]:
        found = self.store.head(state).progress.watermark
        return {} if found is None else {"watermark": found / MICROS}

    def _timed(self, time: EventTime) -> WholeRows:
        return WholeRows(by=time.by, timestamp=time.timestamp, keys=self.calls.keys, fields=())

    def _run(
        self,
        state: RemovableMapState[bytes],
        rows: Sequence[Row],
        head: KeyedHead,
        after: KeyedHead,
        seen: Timers,
        fires_upto: int | None,
        emit: Callable[[Values], None],
    ) -> None:
        """Run one transaction.

        Args:
            state: the state, in the transaction.
            rows: the rows that aren't late.
            head: the stored head.
            after: the new head, without the bins of the index.
            seen: the times that ``on_rows`` sees.
            fires_upto: timers up to this time fire.
            emit: receives the results.
        """
        index = TimeIndex.stored(state, head.bins)
        run = _Run(calls=self.calls, store=self.store, state=state, index=index, emit=emit, now=fires_upto)
        is_due = head.first is not None and fires_upto is not None and head.first <= fires_upto
        with prepared([self.calls.function], self.calls.title) if rows or is_due else nullcontext():
            run.add(self._groups(rows), seen)
            run.fire(
                seen if self.event_time is None or fires_upto is None else evolve(seen, watermark=moment(fires_upto))
            )
        run.finish()
        after = evolve(after, bins=index.bins)
        if after != head:
            self.store.put_head(state, after)

    def _groups(self, rows: Sequence[Row]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for key, row in zip(encode_keys(values_of(rows, self.calls.keys)), rows, strict=True):
            found.setdefault(key, []).append(row)
        return found
