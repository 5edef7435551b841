"""A candidate for leadership: how long it waits for the one before it, and what wakes it."""

from __future__ import annotations

import logging
import threading
from time import monotonic

from attrs import define, field

from coordinators.errors import FencedError
from coordinators.zookeeper.session import ZooKeeperSession
from coordinators.zookeeper.znodes import Leader, parse

log = logging.getLogger(__name__)


class Withdrawn(Exception):
    """A candidate that was waiting for its turn is not wanted any more."""


@define(eq=False)
class Candidate:
    """Who wants to lead and may have to wait for it; made by one thread, told to withdraw by another.

    Attributes:
        topology: what it wants to lead.
        patience: seconds that it waits for an earlier leader; None: as long as it takes.
        rival: the leader it waits for, as last seen.
    """

    topology: str
    patience: float | None = None
    rival: Leader | None = field(default=None, init=False)
    _until: float = field(init=False)
    _woken: threading.Event = field(factory=threading.Event, init=False)
    _withdrawn: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        """The clock runs from here."""
        self._until = float("inf") if self.patience is None else monotonic() + self.patience

    def withdraw(self) -> None:
        """Wait no longer: whoever waits gets `Withdrawn`. Any thread may ask."""
        self._withdrawn = True
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Wait until the leader's node has changed, but no longer than so many seconds, or than we are patient.

        Raises:
            Withdrawn: it was told to.
            FencedError: patience is over.
        """
        woken = self._woken.wait(max(0.0, min(seconds, self._until - monotonic())))
        self._woken.clear()
        if self._withdrawn:
            raise Withdrawn
        if not woken and monotonic() >= self._until:
            raise FencedError(
                f"topology {self.topology!r} is led by {self.rival}, which did not end within {self.patience:.0f} s; "
                f"stop that process first, let this one stand by (`trident run --standby`), or give it another name",
                topology=self.topology,
            )

    def _wake(self, _event: object) -> None:
        self._woken.set()

    def look(self, session: ZooKeeperSession, path: str) -> None:
        """See who leads, and be woken when that changes."""
        node = session.settle(lambda: session.watch(path, self._wake))
        if node is None:  # it was there a moment ago
            self._woken.set()
            return
        is_first, self.rival = self.rival is None, parse(Leader, node.text, path)
        if is_first:
            limit = "" if self.patience is None else f" for up to {self.patience:.0f} s"
            log.warning("topology %s is led by %s; waiting%s for it to end", self.topology, self.rival, limit)
