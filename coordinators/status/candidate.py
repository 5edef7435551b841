"""The leader of a topology, and a candidate that waits to become its leader."""

from __future__ import annotations

import logging
import os
import socket
import threading
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from attrs import define, field, frozen
from attrs.validators import instance_of

from coordinators.values.errors import FencedError

log = logging.getLogger(__name__)


@frozen
class Leader:
    """The process that leads, and since when.

    Attributes:
        started: ISO 8601, UTC.
        address: the URL of its HTTP server for requests and the dashboard; empty: it has none.
    """

    host: str = field(factory=socket.gethostname, validator=instance_of(str))
    pid: int = field(factory=os.getpid, validator=instance_of(int))
    started: str = field(factory=lambda: datetime.now(UTC).isoformat(), validator=instance_of(str))
    address: str = field(default="", validator=instance_of(str))

    def __str__(self) -> str:
        return f"pid {self.pid} on host {self.host}, since {self.started}"

    def facts(self) -> dict[str, Any]:
        """Return its attributes as JSON, for programs."""
        return {"host": self.host, "pid": self.pid, "since": self.started, "address": self.address or None}


class Withdrawn(Exception):
    """Raised in a waiting candidate after `Candidate.withdraw`."""


@define(eq=False)
class Candidate:
    """A process that wants to lead and may have to wait; created by one thread, withdrawn by another.

    Attributes:
        topology: that it wants to lead.
        patience: seconds that it waits for an earlier leader; None: no limit.
        address: the URL of its HTTP server once it leads; empty: it has none.
        rival: the leader it waits for, as last seen.
    """

    topology: str
    patience: float | None = None
    address: str = field(default="", kw_only=True)
    rival: Leader | None = field(default=None, init=False)
    _until: float = field(init=False)
    _woken: threading.Event = field(factory=threading.Event, init=False)
    _withdrawn: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._until = float("inf") if self.patience is None else monotonic() + self.patience

    def withdraw(self) -> None:
        """Stop waiting: the waiting thread gets `Withdrawn`. Any thread may call it."""
        self._withdrawn = True
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Wait until `wake` is called, but at most ``seconds``, and at most until the patience ends.

        Raises:
            Withdrawn: `withdraw` was called.
            FencedError: the patience has ended.
        """
        woken = self._woken.wait(max(0.0, min(seconds, self._until - monotonic())))
        self._woken.clear()
        if self._withdrawn:
            raise Withdrawn
        if not woken and monotonic() >= self._until:
            raise FencedError(
                f"topology {self.topology!r} is led by {self.rival}, which did not end within {self.patience:.0f} s. "
                f"To fix this: stop that process first, run this one as a standby (`trident run --standby`), or give "
                f"it another name",
                topology=self.topology,
            )

    def wake(self, _event: object = None) -> None:
        """Make the candidate look again, because the leader has changed. Any thread may call it."""
        self._woken.set()

    def saw(self, leader: Leader) -> None:
        """Wait for ``leader`` from now on."""
        is_first, self.rival = self.rival is None, leader
        if is_first:
            limit = "" if self.patience is None else f" for up to {self.patience:.0f} s"
            log.warning("topology %s is led by %s; waiting%s for it to end", self.topology, leader, limit)
