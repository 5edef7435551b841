"""The time of a transaction: time windows use it, so that a clock that jumps never decides which rows are in a window.

It is fixed when the transaction is first admitted, is durable with its definition, and stays over replays and
takeovers. Within a leadership it advances as the monotonic clock does. The wall clock is used at a takeover, and
whenever the earlier times don't matter any more. This means that no window holds rows, and no earlier transaction is in
progress.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen

MILLIS = 1000
"""Milliseconds in a second. Times of transactions are ints, in milliseconds since 1970, UTC."""

AHEAD_OF_ZOOKEEPER_MILLIS_MAX = 60 * MILLIS
"""If a leader's clock is further ahead of ZooKeeper's clock, the leader uses ZooKeeper's."""


@frozen
class LeaderClock:
    """The time of day of one leadership. Pure: both clocks are arguments.

    Attributes:
        claimed_at: ZooKeeper's clock when it wrote this leadership's claim, in milliseconds since 1970.
        claimed: the local monotonic clock then, in seconds.
    """

    claimed_at: int
    claimed: float

    def read(self, now: float, wall: float) -> int:
        """Return the local clock; or ZooKeeper's, if the local one is more than a minute ahead of it.

        In milliseconds since 1970.

        Args:
            now: the monotonic clock, in seconds.
            wall: this machine's clock, in seconds since 1970.
        """
        own, zookeeper = round(wall * MILLIS), self._zookeeper(now)
        return own if own <= zookeeper + AHEAD_OF_ZOOKEEPER_MILLIS_MAX else zookeeper

    def ahead_of_zookeeper(self, now: float, wall: float) -> int:
        """Return how many milliseconds the local clock is ahead of the time that `read` returns; 0: it is trusted."""
        return max(0, round(wall * MILLIS) - self.read(now, wall))

    def _zookeeper(self, now: float) -> int:
        return self.claimed_at + round((now - self.claimed) * MILLIS)


@define
class TransactionTimes:
    """The times of the transactions that the record keeps. Pure: clocks are arguments.

    Attributes:
        clock: the time of day of this leadership.
        known: time by txid.
        ahead: by how many milliseconds the last assigned time is ahead of ``clock``.
    """

    clock: LeaderClock
    known: dict[int, int]
    ahead: int = field(default=0, init=False)
    _anchor: int = field(default=0, init=False)
    _anchored: float = field(default=0.0, init=False)  # the monotonic clock when time was _anchor

    def start(self, now: float, wall: float) -> list[str]:
        """Continue from the last time that an earlier leader assigned, or from the clock if that is later.

        Returns:
            Warnings about these clocks.
        """
        self._anchor, self._anchored = max([self.clock.read(now, wall), *self.known.values()]), now
        self.ahead = self._anchor - self.clock.read(now, wall)
        doubts = []
        if beyond := self.clock.ahead_of_zookeeper(now, wall):
            doubts.append(
                f"this machine's clock is {beyond / MILLIS:,.0f} s ahead of ZooKeeper's, which transactions go by "
                f"therefore; set it right"
            )
        if self.ahead >= MILLIS:
            doubts.append(
                f"the time of its transactions is {self.ahead / MILLIS:,.0f} s ahead of the clock; it goes on from "
                f"there for as long as windows hold rows"
            )
        return doubts

    def fix(self, txid: int, now: float, wall: float, *, is_held: bool) -> None:
        """Assign the current time to ``txid``, unless it has one.

        With ``is_held`` the times assigned before still matter, so time can't be set back.
        """
        if txid in self.known:
            return
        clock = self.clock.read(now, wall)
        if not is_held:
            self._anchor, self._anchored = clock, now
        self.known[txid] = self.at(now)
        self.ahead = max(0, self.known[txid] - clock)

    def at(self, now: float) -> int:
        """Return the time of a transaction that is admitted now, if the times assigned before still matter."""
        return self._anchor + round((now - self._anchored) * MILLIS)

    def moment(self, time: int) -> float:
        """Return when it will be ``time``, by the monotonic clock, if the times assigned before still matter."""
        return self._anchored + (time - self._anchor) / MILLIS

    def is_covered(self, time: int, txid: int) -> bool:
        """Return true if ``txid`` or a later transaction has ``time`` or a later time."""
        return any(known >= txid and given >= time for known, given in self.known.items())

    def is_fixed_from(self, txid: int) -> bool:
        """Return true if ``txid`` or a later transaction has its time."""
        return any(known >= txid for known in self.known)

    def from_txid(self, txid: int) -> Mapping[int, int]:
        """Forget the times of the transactions before ``txid``; return the others."""
        self.known = {known: time for known, time in self.known.items() if known >= txid}
        return dict(self.known)
