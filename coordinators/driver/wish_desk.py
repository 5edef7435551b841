"""`WishDesk`: the wishes of operators and of the process itself, on their way to the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable

from attrs import define, field

from coordinators.protocol.master import MasterBatchCoordinator
from coordinators.protocol.messages import PauseRequested, ResumeRequested, WishesChanged
from coordinators.protocol.protocol import Wished
from coordinators.record.store import RecordStore
from coordinators.record.wishes import LASTING, OUTCOMES_KEPT, Action, Wish
from coordinators.values.errors import TridentError

log = logging.getLogger(__name__)

Request = PauseRequested | ResumeRequested | WishesChanged

PARKED_BY_POLICY = "on_poison"
"""The name under which the policy parks a transaction that has failed too often."""


@define
class WishDesk:
    """Reads wishes at the beginning of a leadership, and whenever the store announces that there may be new ones.

    Attributes:
        topology: for messages.
        changed: called by the store, on any thread, when an operator may have stored a wish.
        is_due: whether there may be wishes that were not read yet.
        waiting: the `LASTING` wishes that were not decided yet.
        decided: the ones decided since the last look; the store may still have them.
    """

    topology: str
    store: RecordStore
    changed: Callable[[object], None]
    is_due: bool = field(default=True, init=False)
    waiting: list[Wish] = field(factory=list, init=False)
    decided: list[Wish] = field(factory=list, init=False)

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

    def take(self) -> list[Wish]:
        """Return the wishes to carry out in this turn, oldest first; reads the store only if `is_due`.

        `LASTING` ones are not among them: they are `waiting` until they are decided.
        """
        decided, self.decided = self.decided, []
        if not self.is_due:
            return []
        wishes, before = self.store.wishes(self.changed), self.waiting
        self.waiting = [wish for wish in wishes if wish.action in LASTING and wish not in decided]
        now = [wish for wish in wishes if wish.action not in LASTING]
        self.is_due = len(now) > OUTCOMES_KEPT
        for wish in (*now[:OUTCOMES_KEPT], *(each for each in self.waiting if each not in before)):
            log.info("topology %s: an operator wishes: %s", self.topology, wish.text)
        return now[:OUTCOMES_KEPT]

    def decide(self, wish: Wish) -> None:
        """Record that ``wish`` waits no more."""
        self.decided.append(wish)  # even if it does not wait: the last look may have been at an old state
        if wish in self.waiting:
            self.waiting.remove(wish)

    def parks_poison(self) -> Wish:
        """Return the wish of the process itself to park a transaction that has failed too often."""
        return Wish("", Action.PARK, epoch=self.store.epoch, by=PARKED_BY_POLICY)

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
