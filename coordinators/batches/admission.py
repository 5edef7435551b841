"""Admission: the transactions that may start at a moment, the next definitions to ask for, and the next moment to act.

A transaction starts with the definitions of the spouts. If a time window ends before any spout has input, an empty
transaction starts, in which no spout has a part. So the window closes on time, with or without input.

A parked transaction that waits for its release starts before anything new. A transaction that is being parked needs no
definition, because its attempts are empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from attrs import define, evolve, field

from coordinators.batches.bad_rows import BadRowsOfAttempts
from coordinators.batches.definitions import Definitions
from coordinators.batches.failures import Failures
from coordinators.batches.spout_coordinator import Ask
from coordinators.protocol.master import MasterBatchCoordinator
from coordinators.record.record import Bindings, Empty, Released
from coordinators.values.canonical import Json
from coordinators.values.transaction_time import TransactionTimes


@define(kw_only=True)
class Admission:
    """Decides for one leadership. Pure: clocks are arguments.

    Attributes:
        machine: the state machine; only read.
        bindings: the bindings of all attempted transactions.
        bad_rows: the rows that attempts leave out.
        batch_interval: seconds between two new batches, at least; an operator may wish for more.
    """

    machine: MasterBatchCoordinator
    definitions: Definitions
    times: TransactionTimes
    failures: Failures
    bindings: Bindings
    bad_rows: BadRowsOfAttempts
    batch_interval: float
    _last_batch_at: float = field(default=-math.inf, init=False)  # when the last new one started
    _window_at: int | None = field(default=None, init=False)
    _empty: int | None = field(default=None, init=False)  # the transaction that starts now without a definition

    def ready(self, now: float, window_at: int | None) -> list[int]:
        """Return the transactions to admit now, lowest first; all of them will be admitted, unless there is a pause.

        ``window_at`` is when the next time window ends, as `BatchStreams.next_window_at` returns it. It is valid until
        the next call, because a turn follows every change of it.
        """
        self._window_at, self._empty, idle = window_at, None, self._idle
        if not idle:
            return []
        release = self._next_release
        ready = list(self._defined(idle, now, release))
        following = idle[len(ready) : len(ready) + 1]
        if release in following:
            return [*ready, release]
        is_closing = any(self._is_unbound(txid) for txid in ready)  # its time is now
        if window_at is not None and self.times.at(now) >= window_at and not is_closing:
            self._empty = next((txid for txid in following if self._waits_for_window(txid, window_at)), None)
        return ready if self._empty is None else [*ready, self._empty]

    def _defined(self, idle: range, now: float, release: int) -> Iterator[int]:
        """Yield the first transactions of ``idle``, as long as each has a definition or is known to be empty.

        ``release`` is the transaction that releases a parked one next; the caller decides about it.
        """
        one_new = self._interval > 0
        defined = set(self.definitions.startable(now, self._number_held_until, one_new=one_new))
        for txid in idle:
            if txid == release:
                return
            number = self.bindings.number(txid)
            if self.machine.parked.is_parking(txid):
                number = None
            if number not in defined and (number is not None or now < self.failures.held_until(txid)):
                return
            yield txid

    def admit(self, txid: int, now: float, wall: float) -> None:
        """Start an attempt of ``txid``. The first attempt fixes its time, and its number or that it is empty."""
        is_held = self.times.is_fixed_from(self.machine.current_txid) or self._window_at is not None
        self.times.fix(txid, now, wall, is_held=is_held)
        released, is_new = self.machine.parked.released_in(txid), txid not in self.bindings.released
        if txid == self._empty or (released is not None and is_new):
            self.bindings = self.bindings.bind(txid, Empty() if released is None else Released(released.txid))
            self.failures.make_room(txid)
        number = self.bindings.number(txid)
        if number is None:
            return
        if self.machine.parked.is_parking(txid):
            return  # spouts are asked for it no more
        if self.definitions.is_new(number):
            self._last_batch_at = now
        self.definitions.admit(number)

    def asks(self, now: float) -> Iterator[tuple[str, Ask]]:
        """Yield the spouts to ask for definitions now, with the questions."""
        frontier = self.definitions.frontier
        if not self._may_define(frontier) or now < self._number_held_until(frontier):
            return
        # With an interval, each new batch is defined by itself, at its moment.
        upto = frontier if self._interval else self.bindings.upto(self._definable_upto)
        limit, parked = self.machine.standing.rate.max_batch, self.machine.parked
        for spout, ask in self.definitions.asks(now, upto):
            yield spout, evolve(ask, bindings=self.bindings, max_batch=limit, parked=parked.only_in(spout))

    def moments(self) -> Iterator[float]:
        """Yield the moments at which a transaction may start or a spout must be asked, by the monotonic clock."""
        for txid in self._idle[:1]:
            number = self.bindings.number(txid)
            if number is None or self.machine.parked.is_parking(txid) or txid == self._next_release:
                yield self.failures.held_until(txid)
            elif self.definitions.is_defined(number):
                yield self._number_held_until(number)
            if self._window_at is not None and self._waits_for_window(txid, self._window_at):
                yield self.times.moment(self._window_at)
        frontier, ask_at = self.definitions.frontier, self.definitions.next_ask_at()
        if ask_at is not None and self._may_define(frontier):
            yield max(ask_at, self._number_held_until(frontier))

    def first_number(self, txid: int) -> int:
        """Return the number of ``txid``, or of the first transaction after it that has one."""
        return self.bindings.upto(txid - 1) + 1

    def define_again(self, txid: int) -> None:
        """Let spouts define ``txid``, which was cancelled, and every later one again."""
        is_parking = self.machine.parked.is_parking(txid)
        self.definitions.go_back(self.first_number(txid + 1 if is_parking else txid))

    def metadata(self, txid: int) -> dict[str, Json]:
        """Return the metadata of ``txid``, by spout; of an empty one none."""
        if (entry := self.machine.parked.released_in(txid)) is not None:
            return dict(entry.definition)
        number = self.bindings.number(txid)
        return {} if number is None else self.definitions.metadata(number)

    @property
    def _idle(self) -> range:
        return self.machine.admissible[len(self.machine.active) :]

    @property
    def _interval(self) -> float:
        return max(self.batch_interval, self.machine.standing.rate.interval)

    @property
    def _definable_upto(self) -> int:
        # One beyond the window: so that it can start in the same write that closes the lowest transaction.
        return self.machine.window.stop if self.machine.takes_new else self.machine.admissible.stop - 1

    def _is_unbound(self, txid: int) -> bool:
        return txid not in self.machine.attempt_ids

    @property
    def _next_release(self) -> int:
        """The transaction that releases a parked one next, as soon as it may start; 0: none waits."""
        machine = self.machine
        return machine.current_txid + len(machine.attempt_ids) if machine.parked.waiting else 0

    def _waits_for_window(self, txid: int, window_at: int) -> bool:
        """Return true if ``txid`` starts empty when the window ends: no transaction in progress lets it fire."""
        is_given_up = self.failures.held_until(txid) == math.inf
        is_covered = self.times.is_covered(window_at, self.machine.current_txid)
        return self._is_unbound(txid) and not is_given_up and not is_covered

    def _may_define(self, number: int) -> bool:
        return self.bindings.txid(number) <= self._definable_upto

    def _number_held_until(self, number: int) -> float:
        """Return the moment before which ``number`` is neither asked for nor emitted.

        The interval holds new batches only.
        """
        next_batch_at = self._last_batch_at + self._interval if self.definitions.is_new(number) else 0.0
        return max(self.failures.held_until(self.bindings.txid(number)), next_batch_at)
