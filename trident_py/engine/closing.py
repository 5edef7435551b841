"""The end of a topology's threads: they are waited for, and left behind where user code doesn't return."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from attrs import define

from coordinators.shutdown import Shutdown
from trident_py.engine.participants import Participant
from trident_py.engine.reads import StateReads
from trident_py.engine.threads import Threads

log = logging.getLogger(__name__)

HOLD_POLL_SECS = 0.2


@define(kw_only=True, eq=False)
class Closing:
    """Closes the threads of a topology, and what they served.

    Attributes:
        workers: emit, define and run jobs.
        commits: the thread that commits, gives up and closes.
        unfenced: what commits at this moment without a fence, for messages; empty: nothing.
    """

    topology: str
    workers: Sequence[Threads]
    commits: Threads
    participants: Sequence[Participant]
    reads: StateReads
    shutdown: Shutdown
    unfenced: Callable[[], str]

    def run(self) -> None:
        """Return when all threads have ended or were left behind; every attempt was cancelled before.

        While something commits without a fence, it waits for that, unless the shutdown is forced.
        """
        until = time.monotonic() + self.shutdown.patience
        have_ended = _ended(self.workers, until)  # first: what they have to give up goes to the commit thread
        self.commits.submit(self._close_states)
        if not _ended([self.commits], until):
            self._await_unfenced()
            have_ended = False
        if not have_ended:
            self._leave()
        self.reads.close()

    def _close_states(self) -> None:
        for close in (*(participant.close for participant in self.participants), self.reads.close_states):
            try:
                close()
            except Exception:
                log.exception("topology %s: something could not be closed; what is committed is safe", self.topology)

    def _await_unfenced(self) -> None:
        until = 0.0
        while not self.commits.wait(until) and (what := self.unfenced()) and not self.shutdown.forced.is_set():
            if not self.shutdown.held_by:
                why = (
                    f"topology {self.topology!r} goes on leading although it was to end: {what}, on thread "
                    f"{', '.join(self.commits.busy())}, and nothing would refuse what it writes once another process "
                    f"leads; it ends when that returns; stop(force=True) gives up leadership all the same"
                )
                log.warning("%s", why)
                self.shutdown.hold(why)
            until = time.monotonic() + HOLD_POLL_SECS

    def _leave(self) -> None:
        self.shutdown.given_up.set()
        for participant in self.participants:
            participant.abandon()
        self.reads.close()
        pools = [*self.workers, self.commits]
        # Those that only waited for others can go now.
        if _ended(pools, time.monotonic() + self.shutdown.patience):
            return
        self.shutdown.left_behind = [busy for pool in pools for busy in pool.busy()]
        log.error(
            "topology %s gives up leadership and waits no longer for thread %s; what comes of it is refused",
            self.topology,
            ", thread ".join(self.shutdown.left_behind),
        )


def _ended(pools: Sequence[Threads], until: float) -> bool:
    for pool in pools:
        pool.close()
    return all([pool.wait(until) for pool in pools])
