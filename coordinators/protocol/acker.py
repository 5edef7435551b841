"""The acker: tells when everything that follows from one emission was handled, in whatever order that is reported.

Storm's algebra, exactly. Whoever emits draws one random *edge* per consumer and opens a ledger under a *root*; the
ledger's value is the XOR of those edges. Whoever handles an edge reports it, with the edges it made for others in turn:
the value is XORed with all of them. Each edge goes in twice, when it is made and when it is taken, so the value is
zero again when the whole tree was handled, whatever order the reports came in::

    init    1001 1010        value 0011
    ack     1001 made 1110   value 0100      (0011 ^ 1001 ^ 1110)
    ack     1010 made 1111   value 0001
    ack     1110             value 1111
    ack     1111             value 0000      done

Also Storm's: an emission that nobody consumes has value zero and is done at once; reports and failures that come before
`Acker.init` are kept until it comes; zero wins over failed; three rotating buckets expire what is silent; a message for
a root that is gone makes a ledger that can't complete, reports nothing and rotates out.

Ours: XOR alone can't tell a duplicate from a loss (a report that comes twice looks as if it never came), so each
reporter is heard once, and a ledger is done only when as many edges were taken as were made. And every message renews
the ledger it is for (in Storm only failures and reset-timeouts do), since each is a sign of life.

Pure: edges are drawn outside, and time is whatever calls `Acker.rotate`.
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
    """Everything that follows from ``root`` was handled."""

    root: Hashable


@frozen
class RootFailed:
    """Something that follows from ``root`` failed."""

    root: Hashable


@frozen
class Expired:
    """Nothing was heard of ``root`` for too long; ``outstanding`` edges were made and not taken."""

    root: Hashable
    outstanding: int


Outcome = Completed | RootFailed
"""What a message can lead to; `Expired` comes only from `Acker.rotate`."""


@define
class _Ledger:
    """One emission: in Storm just the value; here also what makes each report count, and count once."""

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
    """Ledgers by root; a root is whatever names one emission for ever, as ``(epoch, attempt, stream)``.

    Rotate it every half of the message timeout: then what was silent for the timeout expires, at the latest after one
    and a half of it. For one thread.
    """

    def __init__(self) -> None:
        self._buckets: deque[dict[Hashable, _Ledger]] = deque({} for _ in range(BUCKETS))

    def init(self, root: Hashable, edges: Iterable[int]) -> Outcome | None:
        """Begin with ``root``, which was emitted with one edge to each consumer; to none: it is done at once.

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
        """Take note that the edge ``took`` was handled, and led to the edges ``made``.

        Args:
            root: what the edge follows from.
            took: the edge that was handled.
            made: one new edge for everything that has to be reported in turn.
            reporter: who says so; heard once, what the same one says again is dropped. By default the edge itself,
                since one edge has one taker.

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
        """Take note that something that follows from ``root`` failed."""
        ledger = self._renewed(root)
        ledger.failed = True
        return self._decide(root, ledger)

    def reset_timeout(self, root: Hashable) -> None:
        """Renew ``root``: somebody is still working on it."""
        if self.is_pending(root):
            self._renewed(root)

    def rotate(self) -> list[Expired]:
        """End one period: drop what was not renewed for the last `BUCKETS` of these calls.

        Returns:
            One entry for each open ledger that was dropped; what was never opened goes without a word.
        """
        expired = self._buckets.pop()
        self._buckets.appendleft({})
        return [Expired(root, ledger.outstanding) for root, ledger in expired.items() if ledger.initialised]

    def forget(self, root: Hashable) -> None:
        """Forget ``root``: nobody wants to know about it any more, and nothing is reported for it."""
        self._removed(root)

    def is_pending(self, root: Hashable) -> bool:
        """Tell whether ``root`` was opened and is neither done, failed, expired nor forgotten."""
        return any(root in bucket and bucket[root].initialised for bucket in self._buckets)

    def _renewed(self, root: Hashable) -> _Ledger:
        ledger = self._removed(root) or _Ledger()
        self._buckets[0][root] = ledger
        return ledger

    def _removed(self, root: Hashable) -> _Ledger | None:
        return next((bucket.pop(root) for bucket in self._buckets if root in bucket), None)

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
        """Assert that ``root`` has one ledger at most, and none once it is done or failed."""
        found = [bucket[root] for bucket in self._buckets if root in bucket]
        ended = [ledger for ledger in found if ledger.initialised and (ledger.is_settled or ledger.failed)]
        assert len(found) <= 1, our_bug(f"{root!r} has {len(found)} ledgers: {found}")
        assert not ended, our_bug(f"the ledger of {root!r} is done, and still there: {ended}")


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
        epoch: of the leadership; names its roots, so that no late ack counts for a later one.
        message_timeout: seconds of silence after which a phase fails.
        next_rotation_at: when silence is looked for again.
    """

    epoch: int
    message_timeout: float
    next_rotation_at: float = 0.0
    acker: Acker = field(factory=Acker, init=False)

    def open(self, attempt: TransactionAttempt, stream: StreamId, edges: Sequence[int]) -> Iterable[PhaseAcked]:
        """Begin a phase, with an edge for each consumer."""
        return self._completed(self.acker.init(self._root(attempt, stream), edges))

    def take(self, acked: Acked) -> Iterable[PhaseAcked]:
        """Take in a report."""
        root = self._root(acked.attempt, acked.stream)
        return self._completed(self.acker.ack(root, acked.took, acked.made, reporter=acked.reporter or acked.took))

    def forget(self, attempt: TransactionAttempt) -> None:
        """Forget ``attempt``, which is cancelled."""
        for stream in (StreamId.BATCH, StreamId.COMMIT):
            self.acker.forget(self._root(attempt, stream))

    def rotate_at(self, now: float) -> None:
        """Look for silence half a timeout from ``now``."""
        self.next_rotation_at = now + self.message_timeout / 2

    def silent(self, alive: Collection[tuple[TransactionAttempt, StreamId]]) -> Iterator[Failed]:
        """Give the phases of which nothing was heard for too long, but for those that something works on."""
        for attempt, stream in alive:
            self.acker.reset_timeout(self._root(attempt, stream))
        for expired in self.acker.rotate():
            attempt, stream = self._phase(expired.root)
            silence = f"{stream} was silent for {self.message_timeout:g} s with {expired.outstanding} reports missing"
            yield Failed(attempt, TimeoutError(silence), FailureKind.INTERRUPTED)

    def _root(self, attempt: TransactionAttempt, stream: StreamId) -> tuple[int, TransactionAttempt, StreamId]:
        return (self.epoch, attempt, stream)

    def _phase(self, root: Any) -> tuple[TransactionAttempt, StreamId]:
        _, attempt, stream = root  # ours, see _root
        return attempt, stream

    def _completed(self, outcome: object) -> Iterable[PhaseAcked]:
        return (PhaseAcked(*self._phase(outcome.root)),) if isinstance(outcome, Completed) else ()
