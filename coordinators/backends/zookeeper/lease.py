"""The lease: for how long a session may be relied on by our own clock, without asking the servers. Pure."""

from __future__ import annotations

from attrs import define

from coordinators.backends.zookeeper.connecting import ROUNDS_PER_SESSION

LEASE_OF_SESSION = 2 / 3


@define
class Lease:
    """Runs from when the last request that was answered was sent; all moments are of one monotonic clock, in seconds.

    Attributes:
        seconds: how long the session lives on the servers without a word from us.
        answered: when the last request that was answered was sent.
    """

    seconds: float
    answered: float

    @property
    def ends_at(self) -> float:
        """The moment from which another leader may exist."""
        return self.answered + self.seconds * LEASE_OF_SESSION

    def silence(self, now: float) -> float:
        """Return for how long nothing was answered."""
        return now - self.answered

    def patience(self, now: float) -> float:
        """Return for how long to wait for an answer: until the lease ends, but at least for one round."""
        return max(self.ends_at - now, self.seconds / ROUNDS_PER_SESSION)

    def is_round_due(self, now: float) -> bool:
        """Tell whether a round should be sent, so that the lease doesn't end while nothing is written."""
        return self.silence(now) >= self.seconds / ROUNDS_PER_SESSION
