"""A function whose rows say what it does, and a plain fold that tells what it must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from attrs import define, field, frozen

from tests.unit.trident_py.windows.event_model import expected_watermark
from trident_py.graph.keyed import KeyedState
from trident_py.interfaces.keyed import KeyedFunction, KeyState, Timers
from trident_py.rows.moments import micros_of, moment
from trident_py.rows.row import row_class
from trident_py.states.keys import encode_key
from trident_py.windows.watermark import Watermark

SCHEMA = "word string, act int, more int, at timestamp"


class Script(KeyedFunction):
    """Does with the value and the timers what its rows say; a timer too does something, as the value says."""

    output_schema = "word string, what string, at timestamp, n bigint, words array<string>, pending bigint"
    state_schema = "n bigint, words array<string>"

    def on_rows(self, key: Any, rows: Sequence[Any], state: KeyState, timers: Timers) -> Iterator[Sequence[Any]]:
        for row in rows:
            self._act(row.act, timedelta(seconds=row.more), row.at or timers.now, state, timers)
        yield self._seen(key, "rows", timers.watermark or timers.now, state, timers)

    def on_timer(self, key: Any, at: datetime, state: KeyState, timers: Timers) -> Iterator[Sequence[Any]]:
        yield self._seen(key, "timer", at, state, timers)
        value = state.get()
        if value and value.n > 0:
            self._act(value.n % 7, timedelta(seconds=value.n), at, state, timers)
            if state.get():
                state.update((value.n - 1, value.words))

    def _act(self, act: int, more: timedelta, at: datetime, state: KeyState, timers: Timers) -> None:
        match act:
            case 0 | 1:
                n, words = state.get() or (0, [])
                state.update((n + 1 + more.seconds, [*words, "new"][-3:]))
            case 2:
                timers.set(at + more)
                timers.set(at + more)
            case 3:
                timers.set(at - more)
            case 4:
                for each in timers.pending[:1]:
                    timers.delete(each)
            case 5:
                timers.set(at + 1000 * more)
            case 6:
                state.clear()

    def _seen(self, key: Any, what: str, at: datetime, state: KeyState, timers: Timers) -> Sequence[Any]:
        n, words = state.get() or (None, None)
        return (key.word, what, at, n, words, len(timers.pending))


class Given(NamedTuple):
    """A transaction: its time in microseconds, and its rows."""

    now: int
    rows: Sequence[tuple[str, int, int, datetime | None]]


@define
class _Key:
    value: Any = None
    timers: set[int] = field(factory=set)


@frozen
class Fold:
    """The function over the history of all transactions; nothing is kept from one to the next."""

    operation: KeyedState

    @property
    def rules(self) -> Watermark | None:
        return self.operation.event_time.rules if self.operation.event_time else None

    def outcome(self, history: Sequence[Given]) -> tuple[list[Any], list[Any]]:
        """What the last transaction gives: results, and late rows with their reasons."""
        keys: dict[str, _Key] = {}
        results: list[Any] = []
        late: list[Any] = []
        for number, given in enumerate(history):
            before, after = self.time(history[:number]), self.time(history[: number + 1])
            judged = [(row, self._refusal(row, given.now, before)) for row in given.rows]
            late = [(*row, why) for row, why in judged if why]
            results = list(self._transaction(keys, [row for row, why in judged if not why], given.now, before, after))
        return results, late

    def time(self, history: Sequence[Given]) -> int | None:
        """The time up to which timers have fired."""
        if self.rules is None or not history:
            return history[-1].now if history else None
        newest = []
        for now, rows in history:
            timed = [(row[0], micros_of(row[3])) for row in rows if row[3]]
            moving = sorted(row for row in timed if row[1] <= now + self.rules.max_ahead)
            newest.append((now, dict(moving if self._by_word else [("", at) for at in sorted(at for _, at in moving)])))
        return expected_watermark(self.rules, newest)

    @property
    def _by_word(self) -> bool:
        return bool(self.operation.event_time and self.operation.event_time.by)

    def _refusal(self, row: Any, now: int, before: int | None) -> str:
        if self.rules is None:
            return ""
        if row[3] is None:
            return "no timestamp"
        at = micros_of(row[3])
        if at > now + self.rules.max_ahead:
            return "too far ahead"
        return "late" if before is not None and at < before else ""

    def _transaction(
        self, keys: dict[str, _Key], rows: Sequence[Any], now: int, before: int | None, after: int | None
    ) -> Iterator[Any]:
        make = row_class(("word", "act", "more", "at"))._make
        for word in dict.fromkeys(row[0] for row in rows):
            own = [make(row) for row in rows if row[0] == word]
            yield from self._call(
                keys, word, lambda *given, own=own: Script().on_rows(given[0], own, *given[1:]), now, before
            )
        while after is not None:
            due = [(at, encode_key([w]), w) for w, key in keys.items() for at in key.timers if at <= after]
            if not due:
                return
            at, _, word = min(due)
            keys[word].timers.remove(at)
            yield from self._call(
                keys,
                word,
                lambda *given, at=at: Script().on_timer(given[0], moment(at), *given[1:]),
                now,
                after,
            )

    def _call(self, keys: dict[str, _Key], word: str, call: Any, now: int, watermark: int | None) -> Iterator[Any]:
        key = keys.setdefault(word, _Key())
        state = KeyState(("n", "words"), key.value)
        seen = None if watermark is None or self.rules is None else moment(watermark)
        timers = Timers(now=moment(now), watermark=seen, pending=key.timers)
        yield from call(row_class(("word",))._make([word]), state, timers)
        key.value = state.get()
