"""Plays the leaders of a topology: calls into child processes, some of which are killed or paused on the way."""

from __future__ import annotations

import linecache
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from attrs import define, field, frozen

from trident_py.conformance.children import (
    BLOCKED_SECONDS,
    LOOK_SECONDS,
    Answer,
    Asleep,
    Child,
    Died,
    Nursery,
    Paused,
    Request,
    Stuck,
    is_asleep,
    with_descendants,
)
from trident_py.conformance.report import Findings, Rule
from trident_py.conformance.stops import Line, Moment, Stop, Way
from trident_py.conformance.trail import Fresh

STUCK_SECONDS, STUCK_AGAIN_SECONDS = 30.0, 5.0
"""Seconds without a new line of user code after which a call is stuck: the first time, and after a stuck call."""

TRIES = 4
"""The number of attempts, and of leaders, after which an undisturbed leader counts as failed."""

LEASE_SECONDS = 4.0
"""Seconds for which a new leader waits for a lock held by a paused one, once per line. Some stores treat an old lock as
expired, without the knowledge of the paused leader."""

STUCK_ENOUGH = 3
"""The number of stuck calls after which the check stops."""


@frozen
class Killed(Exception):
    """The leader was killed as planned."""


@frozen
class Suspended(Exception):
    """The leader was paused as planned."""

    child: Child


@frozen
class Found(Exception):
    """A rule was broken, which ends the experiment."""

    rule: Rule
    seen: str


class Unusable(Exception):
    """No leader can recover the store; no more checks are possible."""


@define
class Call:
    """A call, and the lines that it reached."""

    method: str
    lines: Sequence[Line] = ()

    def stops(self, way: Way, *, again: bool) -> Iterator[Stop]:
        """Yield the places to stop it: around it, and at each line; with ``again`` also the second and last time."""
        yield Stop(way, Moment.BEFORE)
        for line in self.lines:
            times = {1, 2, line.times} if again else {1}
            yield from (
                Stop(way, Moment.AT_LINE, line.file, line.number, nth) for nth in sorted(times) if nth <= line.times
            )
        if way is Way.KILL:
            yield Stop(way, Moment.AFTER)


Stops = Mapping[int, tuple[Stop, ...]]
"""The stops by the number of the call within an experiment."""


# large: one field for each thing that an experiment keeps; each kind of experiment adds its own
@define(eq=False)
class Play:
    """A sequence of experiments on one store.

    Attributes:
        helpers: the ids of the processes that work for the leaders.
        files: the files whose lines are traced; known once the user's object was made.
        stops: the stops of the present experiment.
        calls: the calls of the present experiment so far.
        steps: the history of the present experiment, for people.
        zombie: a leader that is paused while another one leads.
    """

    nursery: Nursery
    findings: Findings
    helpers: Sequence[int] = ()
    files: tuple[str, ...] = field(default=(), init=False)
    stops: Stops = field(factory=dict, init=False)
    calls: list[Call] = field(factory=list, init=False)
    steps: list[str] = field(factory=list, init=False)
    discoveries: int = field(default=0, init=False)  # kills in it at lines where no process was killed before
    stuck: int = field(default=0, init=False)  # calls that did not return
    broken: int = field(default=0, init=False)  # experiments of the present kind in which a rule was broken
    recuperating: bool = field(default=False, init=False)  # between a broken rule and the next experiment
    zombie: Child | None = field(default=None, init=False)
    children: list[Child] = field(factory=list, init=False)
    _killed: dict[str, set[tuple[str, int]]] = field(
        factory=dict, init=False
    )  # by method, the lines where a process was killed
    _woken: list[Answer] = field(factory=list, init=False)
    _failed: int = field(default=0, init=False)  # calls that raised while the zombie was paused
    _waited: set[tuple[str, int]] = field(factory=set, init=False)  # the lines where a process has waited for it
    _paused: tuple[int, str] = field(default=(0, ""), init=False)

    def start(self) -> str:
        """Record where an experiment begins; return that as text for people."""
        raise NotImplementedError

    def look(self) -> None:
        """Read the store as a reader.

        Raises:
            Found: it sees rows that can't be right.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the experiment with a new leader."""
        raise NotImplementedError

    def tidy(self) -> None:
        """End the processes that the next experiment doesn't need."""
        raise NotImplementedError

    def recuperate(self) -> None:
        """Accept the present rows, after a rule was broken.

        Raises:
            Unusable: no leader can continue.
        """
        raise NotImplementedError

    def begin(self, stops: Stops, where: str) -> None:
        """Begin an experiment."""
        self.stops, self.calls, self.steps, self.discoveries = stops, [], [where], 0

    def new_child(self) -> Child:
        """Return a process for a new leader."""
        self.children.append(self.nursery.child())
        return self.children[-1]

    def end_children(self, *, but: Child | None = None) -> None:
        """Kill all processes except ``but``."""
        for child in self.children:
            if child is not but:
                child.end()
        self.children = [child for child in self.children if child is but]
        self.zombie = None

    def call(self, child: Child, says: str, method: str, *arguments: Any) -> Answer:
        """Call a method in ``child``; ``says`` is the step in the history.

        Raises:
            Killed, Suspended: the call was stopped as planned.
            Found: it does not return, or the process ended by itself.
        """
        number = len(self.calls)
        self.calls.append(Call(method))
        known = None if self.recuperating else frozenset(self._killed.get(method, ()))
        child.ask(Request(method, arguments, self.files, known, self.stops.get(number, ())))
        return self._answer(child, number, says)

    def crash(self, child: Child) -> None:
        """Kill a leader between two calls."""
        child.kill()
        self.findings.kills += 1
        self.steps.append("it dies")

    @property
    def paused_call(self) -> Call:
        """The call in which the zombie was paused."""
        return self.calls[self._paused[0]]

    def wake(self) -> Answer:
        """Resume the zombie to the end of its call, and return its answer."""
        assert self.zombie is not None  # noqa: S101
        number, says = self._paused
        if self.zombie.paused:
            self.zombie.go_on()
            return self._answer(self.zombie, number, f"{says}: it goes on", woken=True)
        return self._woken.pop()

    def _answer(self, child: Child, number: int, says: str, *, woken: bool = False) -> Answer:
        call = self.calls[number]
        stuck_secs = STUCK_AGAIN_SECONDS if self.stuck else STUCK_SECONDS
        reply = child.reply(
            stuck_secs, partial(self._waits, child), partial(self._unblock, child), partial(self._patience, child)
        )
        seen = child.trail.lines()
        self.findings.reached.update((call.method, each.file, each.line) for each in seen)
        match reply:
            case Answer():
                call.lines = reply.lines
                self.files = reply.files or self.files
                self.nursery.has_use_of(reply.imported)
                self.steps.append(f"{says}{f', which raises {reply.error}' if reply.error else ''}")
                if reply.error:
                    self._relieve(child, is_busy=reply.is_busy)
                return reply
            case Died():
                self._died(seen[-1] if seen else None, number, says)
                if not woken:
                    raise Killed
                return Answer(error="it was killed")
            case Paused():
                raise self._suspended(child, number, says)
            case Stuck():
                self.stuck += 1
                self.steps.append(says)
                where = f" after {_place(seen[-1].file, seen[-1].line)}" if seen else ""
                raise Found(Rule.NOT_STUCK, f"{call.method}() doesn't return{where}")

    def _died(self, last: Fresh | None, number: int, says: str) -> None:
        call, stop = self.calls[number], next(iter(self.stops.get(number, ())[-1:]), None)
        if last is not None and last.dies:
            stop = Stop(Way.KILL, Moment.AT_LINE, last.file, last.line)
            self.discoveries += 1
        if stop is None or stop.way is not Way.KILL:
            self.steps.append(says)
            raise Found(Rule.COMES_THROUGH, f"the process ended in {call.method}(), and nobody had killed it")
        self.findings.kills += 1
        self.findings.killed.add((call.method, stop.file, stop.line))
        self._killed.setdefault(call.method, set()).add((stop.file, stop.line))
        self.steps.append(f"{says}, and is killed {_when(stop)}")

    def _suspended(self, child: Child, number: int, says: str) -> Suspended:
        self.findings.pauses += 1
        self.zombie, self._paused, self._failed = child, (number, says), 0
        self.steps.append(f"{says}, and is paused {_when(self.stops[number][0])}")
        return Suspended(child)

    def _waits(self, child: Child) -> bool:
        """Return whether a call waits, perhaps for a lock of the zombie; False without a paused zombie."""
        return self._is_paused and is_asleep(child.pid) and self._helpers_sleep()

    def _helpers_sleep(self) -> bool:
        return all(map(is_asleep, with_descendants(self.helpers)))

    @property
    def _is_paused(self) -> bool:
        return self.zombie is not None and self.zombie.paused

    @contextmanager
    def released_if_waiting(self) -> Iterator[None]:
        """Resume the zombie if this thread, which makes no call meanwhile, waits for a lock that the zombie holds."""
        if not self._is_paused:
            yield
            return
        over, waiting = threading.Event(), threading.get_native_id()
        asleep = Asleep(lambda: is_asleep(os.getpid(), thread=waiting) and self._helpers_sleep())

        def watch() -> None:
            while not over.wait(LOOK_SECONDS):
                if asleep.for_long():
                    self.release("a reader waits for it")

        with ThreadPoolExecutor(1) as watcher:
            watching = watcher.submit(watch)
            try:
                yield
            finally:
                over.set()
        watching.result()

    def _patience(self, child: Child) -> float:
        """Return the seconds for which the child may wait at its present line."""
        return BLOCKED_SECONDS if _reached(child) in self._waited else LEASE_SECONDS

    def _unblock(self, child: Child) -> bool:
        self._waited.add(_reached(child))
        return self.release("the other one waits for it")

    def _relieve(self, child: Child, *, is_busy: bool) -> None:
        """Resume the zombie if a call raised, perhaps for its lock: because the store is busy, or in the last try."""
        if not self._is_paused:
            return
        self._failed += 1
        if is_busy and _reached(child) not in self._waited:
            threading.Event().wait(LEASE_SECONDS / (TRIES - 1))
            is_busy = False
        if is_busy or self._failed == TRIES - 1:
            self._waited.add(_reached(child))
            self.release("the other one can't go on without it")

    def release(self, why: str) -> bool:
        """Resume the paused zombie, because only it can release its locks; return whether it was paused."""
        if self.zombie is None or not self.zombie.paused:
            return False
        number, says = self._paused
        self.zombie.go_on()
        self._woken.append(self._answer(self.zombie, number, f"{says}: it goes on, as {why}", woken=True))
        return True


def _reached(child: Child) -> tuple[str, int]:
    """Return the newest line of its call."""
    lines = child.trail.lines()
    return (lines[-1].file, lines[-1].line) if lines else ("", 0)


def _when(stop: Stop) -> str:
    if stop.moment is Moment.AT_LINE:
        again = f", on pass {stop.nth}" if stop.nth > 1 else ""
        return f"before {_place(stop.file, stop.line)}{again}"
    return str(stop.moment.value)


def _place(file: str, line: int) -> str:
    return f"line {line}, {linecache.getline(file, line).strip()!r}"
