"""`BisectDesk`: carries out wishes to see the rows of a parked transaction, or to find those that fail, by trials.

A trial is an attempt that never commits: it processes some of the rows, its outputs commit them and undo that. The
topology continues meanwhile. Before the first trial the rows are stored, unless they were when it was parked. The
result is one event for the machine, `Wished`, with the split; if this leadership ends before, the next one starts anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import define, evolve, field

from coordinators.batches.bisection import Bisection
from coordinators.batches.definitions import check_same
from coordinators.batches.parking_rules import ParkingRules
from coordinators.driver.batch_streams import Batch
from coordinators.driver.wish_desk import WishDesk
from coordinators.protocol.messages import (
    Failed,
    FailureKind,
    Fingerprinted,
    OffsetsResolved,
    RowsFailed,
    RowsStored,
    TrialPassed,
)
from coordinators.protocol.protocol import Wished
from coordinators.record.parking import Parked, Runs, Split, StoredRows, runs_of, selected, size_of
from coordinators.record.wishes import Action, Wish
from coordinators.values.attempt import TRIAL_TXID, TransactionAttempt
from coordinators.values.error_text import error_text
from coordinators.values.errors import SpoutError, our_bug

log = logging.getLogger(__name__)

TrialMessage: TypeAlias = Failed | Fingerprinted | OffsetsResolved | RowsFailed | RowsStored | TrialPassed
"""A message about a trial."""

INTERRUPTED_MAX = 10
"""How many trials in a row may end without a result, such as when an executor is lost."""


@define
class _Bisecting:
    """One wish under way.

    Attributes:
        wish: that is carried out.
        listed: the entry, as the list has it.
        entry: the same with the rows that were stored meanwhile.
        raising: the rows that make a row function raise; None: it is not known yet.
        attempt: the trial that runs; None: the next one is due.
        search: once all rows are stored.
        refusal: why it can't be carried out; empty: it continues.
        untried: the outputs that could only prepare a trial.
        interrupted: how many trials in a row had no result.
    """

    wish: Wish
    listed: Parked
    entry: Parked
    attempt: TransactionAttempt | None = None
    raising: set[int] | None = None
    search: Bisection | None = None
    refusal: str = ""
    untried: tuple[str, ...] = ()
    interrupted: int = 0

    @property
    def is_over(self) -> bool:
        """Whether there is a result."""
        if self.wish.action is Action.ROWS:
            return bool(self.refusal) or not self.entry.unstored
        return bool(self.refusal) or (self.search is not None and self.search.trial is None)

    def take(self, *, fails: bool) -> None:
        """End the trial that runs, with a result."""
        assert self.search is not None, our_bug(f"{self.attempt} has a result, and only stores rows")
        self.attempt, self.interrupted = None, 0
        self.search.take(fails=fails)

    def interrupt(self, cause: BaseException, *, is_final: bool) -> None:
        """End the trial that runs, without a result; it is repeated, unless that is hopeless."""
        self.attempt, self.interrupted = None, self.interrupted + 1
        if is_final or self.interrupted >= INTERRUPTED_MAX:
            self.refusal = f"it could not be tried: {error_text(cause)}"

    def sieve(self, spout: str, rows: Sequence[int]) -> None:
        """Add rows of ``spout`` that make a row function raise."""
        first = sum(stored.count for name, stored in self.entry.stored.items() if name < spout)
        self.raising = {*(self.raising or ()), *(first + row for row in rows)}

    def stored(self, rows: Runs) -> dict[str, StoredRows]:
        """Return rows of the search in their files, by spout; the search numbers the rows of all spouts."""
        found, before = dict[str, StoredRows](), 0
        for spout, stored in sorted(self.entry.stored.items()):
            own = tuple((max(0, first - before), stop - before) for first, stop in rows if stop > before)
            found[spout], before = stored.keeping(selected(stored.runs, own)), before + stored.count
        return found


@define
class BisectDesk:
    """Decides in the turns of one leadership. Pure."""

    wishes: WishDesk
    rules: ParkingRules
    _running: _Bisecting | None = field(default=None, init=False)
    _trials: int = field(default=0, init=False)

    def events(self) -> Iterator[Wished]:
        """Yield the outcomes of wishes: refused at once, or carried out."""
        if (running := self._running) is not None:
            running.refusal = running.refusal or self.rules.refusal(running.wish)  # it may be released meanwhile
            if running.is_over and running.attempt is None:
                yield self._result(running)
        for wish in [each for each in self.wishes.waiting if each.action in (Action.BISECT, Action.ROWS)]:
            if self._running is not None and self._running.wish == wish:
                continue
            if refusal := self.rules.refusal(wish):
                self.wishes.decide(wish)
                yield Wished(wish, refusal)
            elif self._running is None:
                self._begin(wish)

    def due(self, time: int) -> Batch | None:
        """Return the attempt that starts now, if any, without its edges; ``time`` is as in `Batch`."""
        running = self._running
        if running is None or running.attempt is not None or running.is_over:
            return None
        running.attempt = attempt = TransactionAttempt(TRIAL_TXID, self._trials)
        self._trials += 1
        entry = running.entry
        batch = Batch(attempt=attempt, number=entry.number, metadata=entry.definition, time=time, edges=())
        if entry.unstored:
            return evolve(batch, metadata=entry.unstored, parks=attempt.attempt_id, stores=True)
        if running.raising is None:
            running.raising = set()
            return evolve(batch, stored=entry.stored, sieves=True)
        running.search = running.search or Bisection(entry.rows, tuple(sorted(running.raising)))
        rows = running.search.trial or ()
        log.info(
            "topology %s: transaction %d: %s, over %d rows", self.wishes.topology, entry.txid, attempt, size_of(rows)
        )
        return evolve(batch, stored=running.stored(rows))

    def is_running(self, attempt: TransactionAttempt) -> bool:
        """Return true if ``attempt`` is the trial that runs."""
        return self._running is not None and self._running.attempt == attempt

    def is_processed(self) -> bool:
        """Take that the trial is processed; return true if it is over, because no output has prepared anything."""
        running = self._live
        if running.search is None:
            running.attempt = None
        return running.attempt is None

    def take(self, message: TrialMessage) -> bool:
        """Take a message about the trial that runs; return true if it is over."""
        running = self._live
        match message:
            case RowsStored(_, spout, stored):
                running.entry = evolve(running.entry, stored={**running.entry.stored, spout: stored})
            case RowsFailed(_, spout, rows):
                running.sieve(spout, rows)
            case Fingerprinted():
                self._check_stored(running, message)
            case TrialPassed(_, untried):
                running.untried = untried
                running.take(fails=False)
            case Failed(_, cause, kind) if not kind.counts or running.search is None:
                running.interrupt(cause, is_final=kind is FailureKind.FATAL)
            case Failed():
                running.take(fails=True)
        return running.attempt is None

    def _check_stored(self, running: _Bisecting, message: Fingerprinted) -> None:
        """Check that the stored rows are the parked ones."""
        known = running.listed.fingerprints.get(message.spout)
        try:
            if running.search is None and known is not None:
                check_same(self.wishes.topology, message, known)
        except SpoutError as error:
            running.refusal = str(error)

    @property
    def _live(self) -> _Bisecting:
        assert self._running is not None, our_bug("a trial runs, and nothing is bisected")
        return self._running

    def _begin(self, wish: Wish) -> None:
        entry = self.rules.admission.machine.parked.entry(wish.txids[0])
        assert entry is not None, our_bug(f"{wish} is carried out, and refused")
        self._running = _Bisecting(wish, entry, entry)

    def _result(self, running: _Bisecting) -> Wished:
        self._running = None
        self.wishes.decide(running.wish)
        txid, search = running.listed.txid, running.search
        if running.refusal:
            return Wished(running.wish, running.refusal)
        if search is None:
            return Wished(running.wish, stored=running.entry)
        if search.found:
            found = running.stored(runs_of(search.found))
            split = Split(running.entry, {spout: each.positions for spout, each in found.items()})
            log.warning("topology %s: of transaction %d fail %s", self.wishes.topology, txid, _shown(split.found))
            return Wished(running.wish, split=split)
        untried = " and ".join(map(repr, running.untried))
        but = f"; {untried} could not be tried, because a commit there can't be undone" if untried else ""
        return Wished(running.wish, f"all rows of transaction {txid} pass{but}: release it")


def _shown(found: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{len(rows)} rows of spout {spout!r}" for spout, rows in found.items() if rows)
