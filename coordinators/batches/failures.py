"""Failures of one leadership: retries of batches, waiting for sources, and the error that ends the topology.

`SourcePatience` waits for unreachable sources, `Retries` counts failures by transaction, and `Failures` combines both
and decides.

A transaction that will not be retried gets a verdict: the error that ends the topology once every transaction before it
is committed. So earlier transactions in progress are not lost.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Self, TypeVar

from attrs import define, evolve, field

from coordinators.protocol.messages import DefinitionFailed, Failed, FailureKind
from coordinators.record.record import CoordinatorRecord, Failure
from coordinators.status.status import SourceStatus
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.error_text import error_text, quoted
from coordinators.values.errors import (
    CoordinationLost,
    FencedError,
    PoisonBatchError,
    SpoutError,
    StateError,
    TridentError,
)
from coordinators.values.settings import LeadershipSettings

log = logging.getLogger(__name__)


WAIT_SECONDS_MAX = 30.0
"""The longest wait between two tries, in seconds."""


@define
class SourceWait:
    """The wait for a spout with an unreachable source.

    Attributes:
        txid: the transaction that waits for it.
        cause: the last exception.
        tries: the number of failed tries.
        began: the monotonic clock at the first of them.
        until: when the next try is due.
        since: when the first try was made, seconds since 1970; shown, never compared.
        last: when the last try was made, likewise.
        is_asking: whether the coordinator couldn't define the batch; otherwise its emitter or tasks couldn't read it.
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
        """Return the public status of this wait."""
        return SourceStatus(
            spout=spout, txid=self.txid, cause=self.cause, tries=self.tries, since=self.since, last=self.last
        )


@define
class SourcePatience:
    """Waits for unreachable sources. Pure: time is an argument.

    Attributes:
        seconds: the longest wait for one source; None: no limit.
        backoff: seconds before the second try; doubles with each further one.
        waits: the current waits, by spout.
    """

    seconds: float | None = None
    backoff: float = 0.1
    waits: dict[str, SourceWait] = field(factory=dict, init=False)

    def failed(
        self, spout: str, txid: int, cause: BaseException, now: float, wall: float, *, is_asking: bool
    ) -> SourceWait:
        """Record that the source of ``spout`` could not be reached; return the wait, with the time of the next try."""
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
        """Return the error that ends the topology if the wait for ``spout`` has reached its limit, else None."""
        wait = self.waits[spout]
        if self.seconds is None or now < wait.began + self.seconds:
            return None
        return SpoutError(
            f"topology {topology!r}, spout {spout!r}: the source could not be asked for {now - wait.began:.0f} s "
            f"({wait.tries} tries, last: {wait.cause}). To fix this: start again when the source can be reached",
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
        """Record that the coordinator of ``spout`` has answered; return the wait that this ends, if any."""
        wait = self.waits.get(spout)
        return self.waits.pop(spout) if wait and wait.is_asking else None

    def make_room(self, txid: int) -> None:
        """Renumber waits at ``txid`` and above by one, because an empty transaction is inserted at ``txid``."""
        self.waits = {spout: evolve(wait, txid=wait.txid + (wait.txid >= txid)) for spout, wait in self.waits.items()}

    def read(self, txid: int) -> None:
        """Record that the batch of ``txid`` could be read."""
        for spout in [spout for spout, wait in self.waits.items() if wait.txid == txid and not wait.is_asking]:
            del self.waits[spout]


V = TypeVar("V")


@define
class Retries:
    """Failures by txid. Pure: time is an argument.

    Attributes:
        attempts: how many failures by the batch's own code are allowed before the transaction is abandoned. Other
            failures are retried for ever, with backoff.
        backoff: seconds before the first replay; doubles with each further one.
        backoff_max: the longest wait in seconds.
        known: the failures of transactions that are not committed, as the record stores them.
    """

    attempts: int = 5
    backoff: float = 0.1
    backoff_max: float = 30.0
    known: dict[int, Failure] = field(factory=dict, init=False)
    _here: dict[int, int] = field(factory=dict, init=False)  # failures in this leadership, by txid
    _held_until: dict[int, float] = field(factory=dict, init=False)

    def restore(self, failures: Mapping[int, Failure]) -> None:
        """Restore an earlier leader's counts; an abandoned transaction gets one more try."""
        self.known = {txid: self._with_one_more(failure) for txid, failure in failures.items()}

    def _with_one_more(self, failure: Failure) -> Failure:
        return evolve(failure, count=min(failure.count, self.attempts - 1))

    def failed(
        self, attempt: TransactionAttempt, cause: BaseException, *, counts: bool, now: float, wall: float
    ) -> float | None:
        """Record a failure; return the seconds to wait before the next attempt, or None to abandon the transaction.

        It is abandoned when its count reaches ``attempts``. A failure without ``counts`` doesn't add to the count.
        """
        txid, before = attempt.txid, self.known.get(attempt.txid)
        self._here[txid] = self._here.get(txid, 0) + 1
        count = (before.count if before else 0) + counts
        self.known[txid] = Failure(
            count=count,
            attempt_id=attempt.attempt_id,
            cause=error_text(cause),
            since=before.since if before else wall,
            last=wall,
            tries=(before.tries if before else 0) + 1,
        )
        if count >= self.attempts:
            return None
        wait = float(min(self.backoff_max, self.backoff * 2.0 ** min(self._here[txid] - 1, 60)))
        self._held_until[txid] = now + wait
        return wait

    @property
    def causes(self) -> dict[int, str]:
        """The causes of failure of transactions that are not committed, by txid; any thread may read it."""
        return {txid: failure.cause for txid, failure in dict(self.known).items()}

    def held_until(self, txid: int) -> float:
        """Return the moment before which ``txid`` is not tried again."""
        return self._held_until.get(txid, 0.0)

    def try_once_more(self, txid: int) -> None:
        """Let one more try of ``txid`` follow at once, even if it was abandoned."""
        self._held_until.pop(txid, None)
        if txid in self.known:
            self.known[txid] = self._with_one_more(self.known[txid])

    def failures(self, txid: int) -> int:
        """Return how often ``txid`` has failed."""
        failure = self.known.get(txid)
        return failure.tries if failure else 0

    def has_failed(self, txid: int) -> bool:
        """Return true if ``txid`` has failed by its own code, or must not fail once."""
        failure = self.known.get(txid)
        return self.attempts == 1 or (failure is not None and failure.count > 0)

    def make_room(self, txid: int) -> None:
        """Renumber failures at ``txid`` and above by one, because an empty transaction is inserted at ``txid``."""
        self.known = _shifted(self.known, txid)
        self._here = _shifted(self._here, txid)
        self._held_until = _shifted(self._held_until, txid)

    def forget(self, txid: int) -> None:
        """Forget ``txid``, which is committed."""
        self.known.pop(txid, None)
        self._here.pop(txid, None)
        self._held_until.pop(txid, None)


def _shifted(by_txid: Mapping[int, V], first: int) -> dict[int, V]:
    return {txid + (txid >= first): each for txid, each in by_txid.items()}


DEFINITION = -1
"""Used instead of an attempt id if no attempt failed, but the transaction could not be defined."""


@define(kw_only=True)
class Failures:
    """The failures of one leadership. Pure: ``now`` is the monotonic clock, ``wall`` the time of day, in seconds."""

    topology: str
    retries: Retries
    patience: SourcePatience
    store_patience: float | None = None
    _busy_since: dict[int, float] = field(factory=dict, init=False)  # the monotonic clock, by txid
    _verdicts: dict[int, BaseException] = field(factory=dict, init=False)

    @classmethod
    def restored(cls, topology: str, record: CoordinatorRecord, settings: LeadershipSettings) -> Self:
        """Restore an earlier leader's failures, but not its waits for sources, which may be reachable by now."""
        retries = Retries(settings.attempts, settings.backoff, settings.backoff_max)
        retries.restore(
            {
                txid: evolve(failure, spout=None)
                for txid, failure in record.failures.items()
                if txid >= record.current_txid and (failure.spout is None or failure.count)
            }
        )
        patience = SourcePatience(settings.source_patience, settings.backoff)
        return cls(topology=topology, retries=retries, patience=patience, store_patience=settings.store_patience)

    def attempt_failed(self, failed: Failed, now: float, wall: float) -> None:
        """Record that a live attempt has failed.

        Raises:
            FencedError: another process leads.
            CoordinationLost: this process may not lead any more.
        """
        attempt, cause = failed.attempt, failed.cause
        if isinstance(cause, TridentError):
            cause.locate(topology=self.topology, attempt=attempt, state=failed.state)
        if isinstance(cause, FencedError | CoordinationLost):
            raise cause
        if failed.kind is FailureKind.UNREACHABLE:
            self._wait(" or ".join(sorted(failed.spouts)), attempt, cause, now, wall)
            return
        self.patience.read(attempt.txid)
        if failed.kind is FailureKind.FATAL:
            self._give_up(attempt, cause, now, wall)
            return
        before = self.retries.known.get(attempt.txid)
        wait = self.retries.failed(attempt, cause, counts=failed.kind.counts, now=now, wall=wall)
        if wait is None:
            self._verdicts[attempt.txid] = self._poison(failed)
        elif failed.kind is FailureKind.BUSY and self._is_patience_over(attempt.txid, now):
            self._verdicts[attempt.txid] = self._unreachable(failed, now)
        elif before and before.cause == self.retries.known[attempt.txid].cause:
            log.warning("topology %s: %s failed again (same cause), next try in %.1f s", self.topology, attempt, wait)
        else:
            said = self.retries.known[attempt.txid].cause
            log.warning("topology %s: %s failed, next try in %.1f s: %s", self.topology, attempt, wait, said)

    def definition_failed(self, failed: DefinitionFailed, now: float, wall: float) -> float:
        """Record that a coordinator has raised; return when it is asked again."""
        attempt = TransactionAttempt(failed.txid, DEFINITION)
        if not isinstance(failed.cause, TridentError):
            return self._wait(failed.spout, attempt, failed.cause, now, wall)
        cause = failed.cause.locate(topology=self.topology, txid=failed.txid, spout=failed.spout)
        self._give_up(attempt, cause, now, wall)
        return math.inf

    def answered(self, spout: str, now: float) -> None:
        """Record that the coordinator of ``spout`` has answered."""
        wait = self.patience.answered(spout)
        if wait is not None:
            log.warning("topology %s: spout %r answers again, after %.0f s", self.topology, spout, now - wait.began)

    def held_until(self, txid: int) -> float:
        """Return the moment before which ``txid`` is neither defined nor emitted; infinite if it is abandoned."""
        if txid in self._verdicts:
            return math.inf
        return max(self.retries.held_until(txid), self.patience.held_until(txid))

    def read(self, txid: int) -> None:
        """Record that the batch of ``txid`` was processed."""
        self.patience.read(txid)

    def forget(self, txid: int) -> None:
        """Forget ``txid``, which is committed."""
        self.retries.forget(txid)
        self.patience.read(txid)
        self._busy_since.pop(txid, None)

    def pardon(self, txid: int) -> None:
        """Forget the failures of ``txid``, so that it is tried at once, with a new count."""
        self._verdicts.pop(txid, None)
        self.forget(txid)

    def try_once_more(self, txid: int) -> None:
        """Allow one more try of ``txid``, at once, as a start does: if it fails again, it is abandoned."""
        self._verdicts.pop(txid, None)
        self.retries.try_once_more(txid)

    def refuse_parking(self, txid: int, refusal: str) -> None:
        """Let the topology end because ``txid`` has failed too often and can't be parked."""
        verdict = self._verdicts[txid]
        error = PoisonBatchError(f"{verdict}. It can't be parked either: {refusal}", topology=self.topology)
        if isinstance(verdict, TridentError):
            error.locate(attempt=verdict.attempt, spout=verdict.spout, state=verdict.state)
        error.__cause__ = verdict.__cause__
        self._verdicts[txid] = error

    def other_rows(self, attempt: TransactionAttempt, cause: SpoutError) -> None:
        """Abandon a released transaction: its spout has other rows now than when it was parked."""
        error = PoisonBatchError(str(cause), topology=self.topology, attempt=attempt, spout=cause.spout)
        error.__cause__ = cause
        self._verdicts[attempt.txid] = error

    def make_room(self, txid: int) -> None:
        """Renumber failures at ``txid`` and above by one, because an empty transaction is inserted at ``txid``."""
        self.retries.make_room(txid)
        self.patience.make_room(txid)
        self._busy_since = {each + (each >= txid): since for each, since in self._busy_since.items()}

    def verdict(self, txid: int) -> BaseException | None:
        """Return the error that ends the topology when ``txid`` is the lowest transaction; None: it continues."""
        return self._verdicts.get(txid)

    def durable(self, current_txid: int) -> dict[int, Failure]:
        """Return the failures that the record stores: of transactions from ``current_txid`` on."""
        found = dict(self.retries.known)
        for spout, wait in self.patience.waits.items():
            before = found.get(wait.txid)
            found[wait.txid] = Failure(
                count=before.count if before else 0,
                attempt_id=before.attempt_id if before else DEFINITION,
                cause=wait.cause,
                since=wait.since,
                last=wait.last,
                tries=wait.tries,
                spout=spout,
            )
        return {txid: failure for txid, failure in found.items() if txid >= current_txid}

    def waits_are_news(self, record: CoordinatorRecord) -> bool:
        """Return true if the sources that are waited for differ from those in ``record``."""
        return _waits(self.durable(record.current_txid)) != _waits(record.failures)

    def _wait(self, spout: str, attempt: TransactionAttempt, cause: BaseException, now: float, wall: float) -> float:
        is_asking = attempt.attempt_id == DEFINITION
        wait = self.patience.failed(spout, attempt.txid, cause, now, wall, is_asking=is_asking)
        if wait.tries == 1:
            log.warning(
                "topology %s: transaction %d waits for spout %r, next try in %.1f s: %s",
                self.topology,
                attempt.txid,
                spout,
                wait.until - now,
                wait.cause,
                exc_info=quoted(cause),
            )
        else:
            log.info("topology %s: %s", self.topology, wait.status(spout).message(wall))
        verdict = self.patience.verdict(self.topology, spout, now)
        if verdict is not None:
            verdict.__cause__ = cause
            self._verdicts[attempt.txid] = verdict
        return wait.until

    def _give_up(self, attempt: TransactionAttempt, cause: BaseException, now: float, wall: float) -> None:
        self.retries.failed(attempt, cause, counts=False, now=now, wall=wall)
        self._verdicts[attempt.txid] = cause

    def _is_patience_over(self, txid: int, now: float) -> bool:
        since = self._busy_since.setdefault(txid, now)
        return self.store_patience is not None and now >= since + self.store_patience

    def _unreachable(self, failed: Failed, now: float) -> StateError:
        attempt, cause = failed.attempt, failed.cause
        error = StateError(
            f"topology {self.topology!r}, transaction {attempt.txid}"
            f"{f', {failed.state!r}' if failed.state else ''}: the store could not be used for "
            f"{now - self._busy_since[attempt.txid]:.0f} s ({self.retries.failures(attempt.txid)} tries, last: "
            f"{error_text(cause)}). To fix this: start the topology again when the store can be reached",
            topology=self.topology,
            attempt=attempt,
            state=failed.state,
        )
        error.__cause__ = cause
        return error

    def _poison(self, failed: Failed) -> PoisonBatchError:
        attempt, cause = failed.attempt, failed.cause
        tries = self.retries.failures(attempt.txid)
        poison = PoisonBatchError(
            f"topology {self.topology!r}: transaction {attempt.txid} failed {tries} times, last as "
            f"{attempt}: {error_text(cause)}. It is not committed. To fix this: correct the code or the data, then "
            f"start the topology again",
            topology=self.topology,
            attempt=attempt,
            spout=next(iter(failed.spouts)) if len(failed.spouts) == 1 else None,
            state=failed.state,
        )
        poison.__cause__ = cause
        return poison


def _waits(failures: Mapping[int, Failure]) -> dict[int, str]:
    return {txid: failure.spout for txid, failure in failures.items() if failure.spout is not None}
