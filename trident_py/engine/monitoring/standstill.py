"""Notices that nothing happens, and finds out on a thread of its own what is waited for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import define, field

from coordinators.record.wishes import Hold
from coordinators.status.listener import StandstillEvent, Tell, tell_nobody
from coordinators.status.status import TopologyStatus, Wait
from coordinators.values.error_text import quoted
from coordinators.values.log_fields import log_about
from trident_py.engine.threads.threads import ThreadWork, place_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
QUIET_SECONDS = 5.0
"""Without anything that happens, after which it is a standstill; a driver that lives turns once a second."""

LOG_SECONDS = 30.0
"""Of a standstill, after which the log says what is waited for."""


def waits(status: TopologyStatus, works: Sequence[ThreadWork], driver_place: str, now: float) -> Iterator[Wait]:
    """Give what is waited for, what holds everything up first. Pure.

    Args:
        status: as the driver has published it last.
        works: what threads are in the middle of.
        driver_place: where the driver's thread is.
        now: in seconds since 1970.
    """
    if now - status.at >= QUIET_SECONDS:
        yield Wait(f"the driver's thread {driver_place}".rstrip(), status.at)
    yield from _holds(status)
    for transaction in status.transactions[:1]:
        yield Wait(f"transaction {transaction.attempt} is {transaction.phase}", transaction.since)
    for work in sorted(works, key=lambda each: each.since):
        if now - work.since >= LOOK_SECONDS:
            yield Wait(f"{work.doing}, on thread {work.thread!r} {work.place}".rstrip(), work.since)
    if not status.transactions and not status.is_paused:
        for spout in status.unready:
            yield Wait(f"spout {spout!r} has no input")


def _holds(status: TopologyStatus) -> Iterator[Wait]:
    """Give what keeps batches from starting."""
    if status.standing.hold is not Hold.NOTHING:
        yield Wait(f"an operator has it {status.standing.hold}; `trident resume {status.topology}` lifts that")
    elif status.is_paused:
        yield Wait("query.pause() was called, and query.resume() was not")
    for source in status.sources:
        yield Wait(f"the source of spout {source.spout!r} is away: {source.cause}", source.since)
    if status.held_until is not None and not status.sources:
        at = time.strftime("%H:%M:%S", time.localtime(status.held_until))
        failure = status.failures.get(status.current_txid or 0)
        why = f"; tries so far: {failure.tries}, the last failed by {failure.cause}" if failure else ""
        yield Wait(f"the next try of transaction {status.current_txid} at {at}{why}")


@define(eq=False)
class StandstillWatch:
    """Looks once a second, from `follow` on, and tells listeners what has changed.

    Attributes:
        topology: its name.
        tell: hears of each change.
        waits_for: what is waited for now; empty: something has happened lately. Any thread may ask.
    """

    topology: str
    tell: Tell = tell_nobody
    waits_for: tuple[Wait, ...] = field(default=(), init=False)
    _status: Callable[[], TopologyStatus] = field(init=False)
    _works: Callable[[], Sequence[ThreadWork]] = field(init=False)
    _beyond: Sequence[Callable[[], Mapping[str, str]]] = field(init=False)
    _seen: Mapping[str, float] = field(factory=dict, init=False)  # since when what is beyond is known
    _closed: threading.Event = field(factory=threading.Event, init=False)
    _telling: threading.Lock = field(factory=threading.Lock, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _is_logged: bool = field(default=False, init=False)

    def follow(
        self,
        status: Callable[[], TopologyStatus],
        works: Callable[[], Sequence[ThreadWork]],
        *beyond: Callable[[], Mapping[str, str]],
    ) -> None:
        """Look there from now on: at what the driver publishes, at the threads, and at what is beyond this process.

        That is a sentence for each thing, which may be another one at the next look, by a name, which stays.
        """
        self._status, self._works, self._beyond = status, works, beyond
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"trident-{self.topology}-standstill", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Tell nothing more; returns at once."""
        self._closed.set()
        with self._telling:
            self.waits_for = ()

    def _run(self) -> None:
        log_about(topology=self.topology)
        while not self._closed.wait(LOOK_SECONDS):
            try:
                self.look(time.time())
            except Exception as error:
                log.error(
                    "topology %s: what it waits for could not be found out; it goes on",
                    self.topology,
                    exc_info=quoted(error),
                )

    def look(self, now: float) -> None:
        """Find out what is waited for, if nothing has happened lately, and tell if that is something else."""
        status = self._status()
        is_quiet = 0.0 < status.moved <= now - QUIET_SECONDS  # 0.0: its driver has not begun
        found = self._found(status, now) if is_quiet else ()
        if not is_quiet:
            self._seen = {}
        with self._telling:
            if self._closed.is_set():
                return
            is_news = [each.what for each in found] != [each.what for each in self.waits_for]
            self.waits_for = found
            if is_news:
                self.tell(StandstillEvent(topology=self.topology, at=now, waits_for=found))
        self._log(found, now - status.moved, now)

    def _found(self, status: TopologyStatus, now: float) -> tuple[Wait, ...]:
        works = self._works()
        driver = next((each for each in threading.enumerate() if each.name == f"trident-{self.topology}-driver"), None)
        found = [*waits(status, works, place_of(driver) if driver else "", now)]
        told = {name: text for ask in self._beyond for name, text in ask().items()} if status.transactions else {}
        self._seen = {name: self._seen.get(name, now) for name in told}
        return (*found, *(Wait(text, self._seen[name]) for name, text in told.items()))

    def _log(self, found: Sequence[Wait], quiet_seconds: float, now: float) -> None:
        if found and quiet_seconds >= LOG_SECONDS and not self._is_logged:
            said = "; ".join(each.message(now) for each in found)
            log.info("topology %s: nothing has happened for %.0f s: %s", self.topology, quiet_seconds, said)
        self._is_logged = bool(found) and quiet_seconds >= LOG_SECONDS
