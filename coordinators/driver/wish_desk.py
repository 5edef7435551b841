"""Requests from outside to the leader: wishes of operators, pauses by the process itself, and waiting for idleness."""

from __future__ import annotations

import logging
from collections.abc import Callable

from attrs import define, field

from coordinators.protocol.master import MasterBatchCoordinator
from coordinators.protocol.messages import IdleWanted, PauseRequested, ResumeRequested, WishesChanged
from coordinators.protocol.protocol import Wished
from coordinators.record.store import RecordStore
from coordinators.record.wishes import OUTCOMES_KEPT, Action, Wish
from coordinators.values.errors import TridentError

log = logging.getLogger(__name__)


@define
class IdleWaiters:
    """The callers that wait until the topology is idle, each with the number of asks at its arrival."""

    _waiting: list[tuple[int, IdleWanted]] = field(factory=list, init=False)

    def add(self, wanted: IdleWanted, asked: int) -> None:
        """Add a waiter, to be answered by a check that begins after ask number ``asked``."""
        self._waiting.append((asked, wanted))

    def answer(self, is_idle_since: Callable[[int], bool]) -> None:
        """Notify every waiter for which ``is_idle_since`` is true.

        ``is_idle_since(n)`` is true if no spout had input when it was asked after ask number ``n``.
        """
        for asked, wanted in self._waiting[:]:
            if is_idle_since(asked):
                self._waiting.remove((asked, wanted))
                wanted.done(None)

    def refuse(self, error: BaseException) -> None:
        """Fail all waiters with ``error``."""
        for _, wanted in self._waiting:
            wanted.done(error)
        self._waiting.clear()


Request = PauseRequested | ResumeRequested | WishesChanged


@define
class WishDesk:
    """Reads wishes at the beginning of a leadership, and whenever the store announces that there may be new ones.

    Attributes:
        topology: for messages.
        changed: called by the store, on any thread, when an operator may have stored a wish.
        is_due: whether there may be wishes that were not read yet.
    """

    topology: str
    store: RecordStore
    changed: Callable[[object], None]
    is_due: bool = field(default=True, init=False)

    def hear(self, request: Request, *, is_stopping: bool) -> tuple[Wished, ...]:
        """Return the wishes that follow from ``request``; a pause by the process itself is bound to its leadership."""
        match request:
            case PauseRequested():
                return (self._own(Action.PAUSE),)
            case ResumeRequested():
                return () if is_stopping else (self._own(Action.RESUME),)
            case WishesChanged():
                self.is_due = True
        return ()

    def _own(self, action: Action) -> Wished:
        return Wished(Wish("", action, epoch=self.store.epoch))

    def take(self) -> list[Wished]:
        """Return the wishes to carry out in this turn, oldest first; reads the store only if `is_due`."""
        if not self.is_due:
            return []
        wishes = self.store.wishes(self.changed)
        self.is_due = len(wishes) > OUTCOMES_KEPT
        for wish in wishes[:OUTCOMES_KEPT]:
            log.info("topology %s: an operator wishes: %s", self.topology, wish.text)
        return [Wished(wish) for wish in wishes[:OUTCOMES_KEPT]]

    def refusal(self, machine: MasterBatchCoordinator) -> TridentError | None:
        """Return an error for waiters that says why no new batch starts; None if new batches start."""
        if machine.takes_new:
            return None
        if machine.standing.paused_by:
            why = "is paused; resume() it first"
        else:
            what = "is paused" if machine.is_paused else "drains"
            why = f"{what}, as an operator wishes; `trident resume {self.topology}` first"
        return TridentError(f"topology {self.topology!r} {why}", topology=self.topology)
