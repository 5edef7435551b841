"""`ParkingDesk`: decides, turn by turn, about operators' wishes and about transactions that have failed too often.

It turns wishes and the answers of outputs into events for the machine. A transaction is parked in at most three steps.
By `ParkWanted` the outputs are asked. `RowsWanted` follows if a spout can't emit the batch again later. `Wished` has
the entry.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from attrs import define, evolve, field

from coordinators.batches.admission import Admission
from coordinators.batches.failures import Failures
from coordinators.batches.parking_rules import ParkingRules
from coordinators.driver.wish_desk import WishDesk
from coordinators.protocol.master import MasterBatchCoordinator
from coordinators.protocol.messages import OutputsAnswered, RowsStored
from coordinators.protocol.protocol import Event, ParkWanted, RowsWanted, Wished
from coordinators.record.parking import Parked, Parking, StoredRows
from coordinators.record.wishes import Action, Wish
from coordinators.values.errors import our_bug

log = logging.getLogger(__name__)


@define
class _Undecided:
    """A transaction that may be parked.

    Attributes:
        wish: that wants it.
        entry: once all outputs can leave it out.
        stored: the rows that were stored so far, by spout.
    """

    wish: Wish
    entry: Parked | None = None
    stored: dict[str, StoredRows] = field(factory=dict)


@define
class ParkingDesk:
    """Decides in the turns of one leadership. Pure: ``wall`` is the time of day, in seconds since 1970."""

    wishes: WishDesk
    rules: ParkingRules
    _undecided: _Undecided | None = field(default=None, init=False)

    @property
    def deciding(self) -> Wish | None:
        """The wish that waits for outputs or for rows."""
        return self._undecided.wish if self._undecided else None

    def events(self) -> Iterator[Event]:
        """Yield the decisions of this turn; the machine handles each event before the next one is decided."""
        yield from self._wished()
        if self._machine.has_stored_rows:
            yield from self._park(self._machine.storing)
        elif (txid := self._machine.storing) and self._failures.verdict(txid):
            yield from self._refuse(txid, f"its rows could not be stored: {self._failures.retries.causes[txid]}")

    def _wished(self) -> Iterator[Event]:
        for wish in self.wishes.take():
            refusal = self.rules.refusal(wish)
            if wish.action is Action.RETRY and not refusal:
                self._failures.pardon(wish.txids[0] if wish.txids else self._machine.current_txid)
            yield Wished(wish, refusal)
        for wish in self.wishes.waiting[:]:
            if wish == self.deciding or wish.action is not Action.PARK:
                continue
            if refusal := self.rules.refusal(wish):
                self.wishes.decide(wish)
                yield Wished(wish, refusal)
            elif self.deciding is None and self.rules.is_due(wish.txids[0]):
                self._undecided = _Undecided(wish)
                yield ParkWanted(wish.txids[0], wish)

    def poisoned(self, verdict: BaseException) -> Event | None:
        """Return the next event, if the policy parks the lowest transaction instead of ending with ``verdict``."""
        if not self.rules.parks(verdict):
            return None
        self._undecided = _Undecided(self.wishes.parks_poison())
        return ParkWanted(self._machine.current_txid, self._undecided.wish)

    def answered(self, answered: OutputsAnswered, wall: float) -> Iterator[Event]:
        """Yield the events that follow from the answer of the outputs."""
        undecided, txid = self._expected(answered), answered.txid
        if answered.refusal:
            yield from self._refuse(txid, answered.refusal)
            return
        undecided.entry = self.rules.entry(txid, undecided.wish, wall)
        if not self.rules.stores(txid):
            yield from self._park(txid)
            return
        self._failures.try_once_more(txid)
        yield RowsWanted(txid)

    def take_stored(self, message: RowsStored) -> None:
        """Take the rows that a live attempt has stored; a later attempt replaces them."""
        self._expected(message).stored[message.spout] = message.stored

    def _expected(self, answer: OutputsAnswered | RowsStored) -> _Undecided:
        assert self._undecided is not None, our_bug(f"{answer} answers nobody")
        return self._undecided

    def _park(self, txid: int) -> Iterator[Event]:
        undecided, machine = self._undecided, self._machine
        assert undecided is not None, our_bug(f"nobody parks {txid}")
        entry, number = undecided.entry, self._admission.bindings.number(txid)
        assert entry is not None, our_bug(f"{txid} is parked, and outputs have not answered")
        if machine.storing:
            entry = self._with_rows(entry, undecided.stored)
        first = machine.attempt_ids[txid] + (0 if machine.storing else 1)
        log.warning(
            "topology %s: transaction %d is parked by %s", self.wishes.topology, txid, entry.by or "an operator"
        )
        self._failures.pardon(txid)
        self._decide()
        yield Wished(undecided.wish, parking=Parking(txid, first, entry))
        if number is not None:
            self._admission.definitions.leave_out(number)

    def _with_rows(self, entry: Parked, stored: Mapping[str, StoredRows]) -> Parked:
        """Return ``entry`` as the attempt defines it that has stored rows."""
        definition = self._admission.definitions.known[entry.number]
        fingerprints = {spout: seen for spout, seen in definition.fingerprints.items() if spout not in stored}
        return evolve(entry, definition=definition.attempted_metadata, fingerprints=fingerprints, stored=dict(stored))

    def _refuse(self, txid: int, refusal: str) -> Iterator[Event]:
        wish = self._decide()
        if wish.epoch and self._failures.verdict(txid):  # an operator may have pardoned it meanwhile
            self.rules.refused.add(txid)
            self._failures.refuse_parking(txid, refusal)
        yield Wished(wish, refusal)

    def _decide(self) -> Wish:
        assert self._undecided is not None, our_bug("nothing is to be decided")
        wish, self._undecided = self._undecided.wish, None
        self.wishes.decide(wish)
        return wish

    @property
    def _admission(self) -> Admission:
        return self.rules.admission

    @property
    def _machine(self) -> MasterBatchCoordinator:
        return self.rules.admission.machine

    @property
    def _failures(self) -> Failures:
        return self.rules.admission.failures
