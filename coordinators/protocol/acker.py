"""The acker: detects that all work that follows from one emission was handled, and the phases of a leadership.

`Acker` is Storm's algorithm, exactly. The emitter draws one random *edge* per consumer and opens a ledger under a
*root*. The ledger's value is the XOR of those edges. A consumer that has handled an edge reports it, with the edges
that it made for other consumers. Then the value is XORed with all of them. Each edge is XORed twice, when it is made
and when it is taken. So the value is zero again when the whole tree was handled, in any order of the reports:

    init    1001 1010        value 0011
    ack     1001 made 1110   value 0100      (0011^1001^1110)
    ack     1010 made 1111   value 0001
    ack     1110             value 1111
    ack     1111             value 0000      done

As in Storm:

- An emission without consumers has value zero and is done at once.
- Reports and failures that arrive before `Acker.init` are kept until it is called.
- Zero has precedence over failed.
- Three rotating buckets expire ledgers without messages.
- A message for a root that was removed creates a ledger that can't complete, reports nothing and rotates out.

Unlike Storm:

- XOR alone can't tell a duplicate from a loss: a report that arrives twice looks as if it had never arrived. So each
  reporter counts once, and a ledger is done only when as many edges were taken as were made.
- Every message renews its ledger, since each is a sign of life. In Storm only failures and reset-timeouts do.

`Phases` keeps the ledgers of one leadership: a root is the epoch, the attempt and the stream.

Pure: edges are drawn by the caller, and time passes only when the caller calls `Acker.rotate`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

from coordinators.protocol.messages import Acked, Failed, FailureKind
from coordinators.protocol.protocol import PhaseAcked, StreamId
from coordinators.values.attempt import TransactionAttempt
from coordinators.values.errors import our_bug

EDGE_MAX = 2**63 - 1
"""Edges are drawn evenly from 1 to this; 0 would be invisible to XOR."""

BUCKETS = 3


@frozen
class Completed:
    """All work that follows from ``root`` was handled."""

    root: Hashable


@frozen
class RootFailed:
    """A part of the work that follows from ``root`` failed."""

    root: Hashable


@frozen
class Expired:
    """No message for ``root`` arrived for too long; ``outstanding`` edges were made and not taken."""

    root: Hashable
    outstanding: int


Outcome = Completed | RootFailed
"""The results that a message can have; `Expired` comes only from `Acker.rotate`."""


@define
class _Ledger:
    """The ledger of one emission: Storm's value, and the fields that make each report count exactly once."""

    value: int = 0
    outstanding: int = 0  # edges made minus edges taken; negative while reports run ahead of the init
    initialised: bool = False
    failed: bool = False
    heard: set[Hashable] = field(factory=set)

    def make(self, edges: Iterable[int]) -> None:
        for edge in edges:
            self.value ^= edge
            self.outstanding += 1

    def take(self, edge: int) -> None:
        self.value ^= edge
        self.outstanding -= 1

    @property
    def is_settled(self) -> bool:
        return self.value == 0 and self.outstanding == 0


class Acker:
    """Ledgers by root. A root identifies one emission for ever, such as ``(epoch, attempt, stream)``.

    Call `rotate` every half of the message timeout. Then a ledger without messages for the timeout expires, at the
    latest after one and a half timeouts. For use by one thread.
    """

    def __init__(self) -> None:
        self._buckets: deque[dict[Hashable, _Ledger]] = deque({} for _ in range(BUCKETS))

    def init(self, root: Hashable, edges: Iterable[int]) -> Outcome | None:
        """Open the ledger of ``root``, with one edge per consumer. Return its outcome, or None while edges are open.

        Without consumers it is done at once.

        Raises:
            ValueError: ``root`` was opened before, or an edge is out of range.
        """
        made = _checked(edges)
        ledger = self._renewed(root)
        if ledger.initialised:
            raise ValueError(f"the ledger of {root!r} is open already")
        ledger.initialised = True
        ledger.make(made)
        return self._decide(root, ledger)

    def ack(self, root: Hashable, took: int, made: Iterable[int] = (), *, reporter: Hashable = None) -> Outcome | None:
        """Record that the edge ``took`` was handled, and led to the edges ``made``.

        Args:
            root: the emission from which the edge follows.
            took: the edge that was handled.
            made: one new edge for each report that must follow.
            reporter: identifies the sender. Only the first report of each reporter counts, later ones are dropped. By
                default the edge itself, since one edge has one taker.

        Raises:
            ValueError: an edge is out of range.
        """
        (edge,), edges = _checked([took]), _checked(made)
        ledger = self._renewed(root)
        who = edge if reporter is None else reporter
        if who not in ledger.heard:
            ledger.heard.add(who)
            ledger.take(edge)
            ledger.make(edges)
        return self._decide(root, ledger)

    def fail(self, root: Hashable) -> Outcome | None:
        """Record that a part of the work that follows from ``root`` failed."""
        ledger = self._renewed(root)
        ledger.failed = True
        return self._decide(root, ledger)

    def reset_timeout(self, root: Hashable) -> None:
        """Renew ``root``, because work on it continues."""
        if self.is_pending(root):
            self._renewed(root)

    def rotate(self) -> list[Expired]:
        """End one period: drop the ledgers that were not renewed during the last `BUCKETS` calls.

        Returns:
            One entry for each open ledger that was dropped; ledgers that were never opened are dropped silently.
        """
        expired = self._buckets.pop()
        self._buckets.appendleft({})
        return [Expired(root, ledger.outstanding) for root, ledger in expired.items() if ledger.initialised]

    def forget(self, root: Hashable) -> None:
        """Remove ``root``: nothing is reported for it any more."""
        self._removed(root)

    def is_pending(self, root: Hashable) -> bool:
        """Return true if ``root`` was opened and is neither done, failed, expired nor forgotten."""
        return any(root in bucket and bucket[root].initialised for bucket in self._buckets)

    def _renewed(self, root: Hashable) -> _Ledger:
        ledger = self._removed(root) or _Ledger()
        self._buckets[0][root] = ledger
        return ledger

    def _removed(self, root: Hashable) -> _Ledger | None:
        for bucket in self._buckets:
            if (ledger := bucket.pop(root, None)) is not None:
                return ledger
        return None

    def _decide(self, root: Hashable, ledger: _Ledger) -> Outcome | None:
        outcome: Outcome | None = None
        if ledger.initialised and ledger.is_settled:
            outcome = Completed(root)
        elif ledger.initialised and ledger.failed:
            outcome = RootFailed(root)
        if outcome is not None:
            self.forget(root)
        self._check(root)
        return outcome

    def _check(self, root: Hashable) -> None:
        """Assert that ``root`` has one ledger at most, and none after it is done or has failed."""
        found = 0
        for bucket in self._buckets:
            if (ledger := bucket.get(root)) is not None:
                found += 1
                has_ended = ledger.initialised and (ledger.failed or ledger.is_settled)
                assert not has_ended, our_bug(f"the ledger of {root!r} is done, and still there: {ledger}")
        assert found <= 1, our_bug(f"{root!r} has {found} ledgers")


def _checked(edges: Iterable[int]) -> list[int]:
    checked = list(edges)
    for edge in checked:
        if not 0 < edge <= EDGE_MAX:
            raise ValueError(f"an edge is a number from 1 to {EDGE_MAX}, not {edge!r}")
    return checked


@define(kw_only=True)
class Phases:
    """The phases of one leadership. Pure: time is an argument.

    Attributes:
        epoch: the leadership's epoch. It is part of each root. A late ack of an earlier leadership counts
            for nothing, because its attempt id is never used again.
        message_timeout: seconds of silence after which a phase fails.
        next_rotation_at: when the next check for silence is due.
    """

    epoch: int
    message_timeout: float
    next_rotation_at: float = 0.0
    acker: Acker = field(factory=Acker, init=False)

    def open(self, attempt: TransactionAttempt, stream: StreamId, edges: Sequence[int]) -> Iterable[PhaseAcked]:
        """Begin a phase, with one edge per consumer."""
        return self._completed(self.acker.init(self._root(attempt, stream), edges))

    def take(self, acked: Acked) -> Iterable[PhaseAcked]:
        """Pass a report to the acker."""
        root = self._root(acked.attempt, acked.stream)
        return self._completed(self.acker.ack(root, acked.took, acked.made, reporter=acked.reporter or acked.took))

    def forget(self, attempt: TransactionAttempt) -> None:
        """Forget both phases of ``attempt``, which is cancelled."""
        for stream in (StreamId.BATCH, StreamId.COMMIT):
            self.acker.forget(self._root(attempt, stream))

    def rotate_at(self, now: float) -> None:
        """Schedule the next check for silence at half a timeout after ``now``."""
        self.next_rotation_at = now + self.message_timeout / 2

    def silent(self, alive: Collection[tuple[TransactionAttempt, StreamId]]) -> Iterator[Failed]:
        """Yield a failure for each phase without messages for too long, except the phases in ``alive``."""
        for attempt, stream in alive:
            self.acker.reset_timeout(self._root(attempt, stream))
        for expired in self.acker.rotate():
            attempt, stream = self._phase(expired.root)
            silence = f"{stream} was silent for {self.message_timeout:g} s with {expired.outstanding} reports missing"
            yield Failed(attempt, TimeoutError(silence), FailureKind.INTERRUPTED)

    def _root(self, attempt: TransactionAttempt, stream: StreamId) -> tuple[int, int, int, bool]:
        # Only plain values: a root is hashed several times for each message.
        return self.epoch, attempt.txid, attempt.attempt_id, stream is StreamId.COMMIT

    def _phase(self, root: Any) -> tuple[TransactionAttempt, StreamId]:
        _, txid, attempt_id, commits = root  # ours, see _root
        return TransactionAttempt(txid, attempt_id), StreamId.COMMIT if commits else StreamId.BATCH

    def _completed(self, outcome: object) -> Iterable[PhaseAcked]:
        return (PhaseAcked(*self._phase(outcome.root)),) if isinstance(outcome, Completed) else ()
