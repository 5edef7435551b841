"""Sources that are away: each is waited for, and asked again, longer and longer apart."""

from __future__ import annotations

from attrs import define, evolve, field

from coordinators.status.status import SourceStatus
from coordinators.values.error_text import error_text
from coordinators.values.errors import SpoutError

WAIT_SECONDS_MAX = 30.0
"""Between two tries, at most."""


@define
class SourceWait:
    """One spout whose source can't be reached.

    Attributes:
        txid: the transaction that waits for it.
        cause: what was raised last.
        tries: how often it was tried in vain.
        began: the monotonic clock at the first of them.
        until: when it is tried again.
        since: when it was tried first, seconds since 1970; shown, never compared.
        last: when it was tried last, likewise.
        is_asking: whether its coordinator couldn't define the batch; otherwise its emitter or tasks couldn't read it.
    """

    txid: int
    cause: str
    tries: int
    began: float
    until: float
    since: float
    last: float
    is_asking: bool

    def status(self, spout: str) -> SourceStatus:
        """Return what everybody else is told of it."""
        return SourceStatus(
            spout=spout, txid=self.txid, cause=self.cause, tries=self.tries, since=self.since, last=self.last
        )


@define
class SourcePatience:
    """How long each source has been waited for. Pure: time is an argument.

    Attributes:
        seconds: how long at most; None: without end.
        backoff: seconds before the second try; doubles with each further one.
        waits: by spout.
    """

    seconds: float | None = None
    backoff: float = 0.1
    waits: dict[str, SourceWait] = field(factory=dict, init=False)

    def failed(
        self, spout: str, txid: int, cause: BaseException, now: float, wall: float, *, is_asking: bool
    ) -> SourceWait:
        """Take note that the source of ``spout`` could not be reached; returns until when it is waited for."""
        before = self.waits.get(spout)
        tries = before.tries + 1 if before else 1
        began = before.began if before else now
        until = now + min(WAIT_SECONDS_MAX, self.backoff * 2.0 ** min(tries - 1, 60))
        if self.seconds is not None and now < began + self.seconds:
            until = min(until, began + self.seconds)  # the last try is made when patience ends
        wait = SourceWait(
            txid=txid,
            cause=error_text(cause),
            tries=tries,
            began=began,
            until=until,
            since=before.since if before else wall,
            last=wall,
            is_asking=is_asking,
        )
        self.waits[spout] = wait
        return wait

    def verdict(self, topology: str, spout: str, now: float) -> SpoutError | None:
        """Return the error that ends the topology, where ``spout`` was waited for long enough."""
        wait = self.waits[spout]
        if self.seconds is None or now < wait.began + self.seconds:
            return None
        return SpoutError(
            f"topology {topology!r}, spout {spout!r}: the source could not be asked for {now - wait.began:.0f} s "
            f"({wait.tries} tries, last: {wait.cause}); start again when it is there",
            topology=topology,
            txid=wait.txid,
            spout=spout,
        )

    def held_until(self, txid: int) -> float:
        """Return the moment before which ``txid`` is not emitted again."""
        return max(
            (wait.until for wait in self.waits.values() if wait.txid == txid and not wait.is_asking), default=0.0
        )

    def answered(self, spout: str) -> SourceWait | None:
        """Take note that the coordinator of ``spout`` has answered; returns what was waited for, if that was it."""
        wait = self.waits.get(spout)
        return self.waits.pop(spout) if wait and wait.is_asking else None

    def make_room(self, txid: int) -> None:
        """Make room for an empty transaction ``txid``.

        What is known as that, and each later one, is the one after it.
        """
        self.waits = {spout: evolve(wait, txid=wait.txid + (wait.txid >= txid)) for spout, wait in self.waits.items()}

    def read(self, txid: int) -> None:
        """Take note that the batch of ``txid`` could be read."""
        for spout in [spout for spout, wait in self.waits.items() if wait.txid == txid and not wait.is_asking]:
            del self.waits[spout]
