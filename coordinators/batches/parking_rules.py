"""The rules of parking: what can be parked, released, skipped and retried, and what is parked without an operator."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar, TypeAlias

from attrs import define, evolve, field

from coordinators.batches.admission import Admission
from coordinators.record.parking import ERROR_CHARS_MAX, Parked, ParkedList
from coordinators.record.record import Empty
from coordinators.record.wishes import Action, Wish
from coordinators.values.errors import PoisonBatchError
from coordinators.values.settings import LeadershipSettings

PARKED_IN_A_ROW_MAX = 10
"""How many transactions that follow each other may all be parked before the next one ends the topology."""

RELEASING = (Action.RELEASE, Action.BISECT, Action.LETTERS)
"""The wishes that process rows after transactions that were behind them."""

_Rule: TypeAlias = "Callable[[ParkingRules, Wish], str]"


@define
class ParkingRules:
    """Decides for one leadership. Pure.

    Attributes:
        admission: only read.
        settings: the policy of the topology, and its limits.
        incarnation: of the topology.
        refused: the transactions that could not be parked by policy, although they have failed too often.
    """

    admission: Admission
    settings: LeadershipSettings
    incarnation: int
    refused: set[int] = field(factory=set, init=False)

    @property
    def _parked(self) -> ParkedList:
        return self.admission.machine.parked

    def refusal(self, wish: Wish) -> str:
        """Return why ``wish`` can't be carried out, neither now nor later; empty: it can."""
        if wish.incarnation not in (0, self.incarnation):
            return "the topology was reset meanwhile"
        rule = self._RULES.get(wish.action) if wish.action else None
        return (rule(self, wish) if rule else "") or self._losing_late(wish)

    def is_due(self, txid: int) -> bool:
        """Return true if ``txid``, which can be parked, is the lowest, and an attempt was made of all of its batch."""
        admission = self.admission
        number = admission.bindings.number(txid)
        return txid == admission.machine.current_txid and (number is None or admission.definitions.is_whole(number))

    def parks(self, verdict: BaseException) -> bool:
        """Return true if the lowest transaction is parked by policy, instead of ending the topology with ``verdict``.

        A released transaction is parked again under every policy. A failure in a window belongs to the rows of other
        transactions, too.
        """
        txid, machine = self.admission.machine.current_txid, self.admission.machine
        is_poison = isinstance(verdict, PoisonBatchError) and verdict.state not in self.settings.windows
        if not is_poison or self._parked.is_parking(txid) or txid not in machine.attempt_ids or txid in self.refused:
            return False
        if self._parked.released_in(txid) is not None:
            return True
        return self.settings.parks_poison and not self._unparkable(txid) and not self._too_many(txid)

    def stores(self, txid: int) -> bool:
        """Return true if rows of ``txid`` are stored before it is parked, because a spout can't emit them again."""
        is_first = self._parked.released_in(txid) is None
        return bool(self.settings.stored_spouts) and is_first and self.admission.bindings.number(txid) is not None

    def _too_many(self, txid: int) -> bool:
        row = range(txid - PARKED_IN_A_ROW_MAX, txid)
        parked = [each.txid for each in self._parked.entries if not each.letters_of]
        return {*parked}.issuperset(row) or len(parked) >= self.settings.park_max

    def entry(self, txid: int, wish: Wish, wall: float) -> Parked:
        """Return the entry for the lowest transaction, whose outputs can leave it out.

        ``wall`` is the time of day, in seconds since 1970.
        """
        admission, released = self.admission, self._parked.released_in(txid)
        failure = admission.failures.retries.known.get(txid)
        number = admission.bindings.number(txid)
        if released is None:
            assert number is not None  # see `refusal`
            definition = admission.definitions.known[number]
            released = Parked(
                txid=txid,
                number=number,
                definition=definition.attempted_metadata,
                fingerprints=definition.fingerprints,
            )
        return evolve(
            released,
            attempts=released.attempts + (failure.tries if failure else 0),
            error=failure.cause[:ERROR_CHARS_MAX] if failure else released.error,
            since=wall,
            by=wish.by,
            reason=wish.reason,
            is_wanted=False,
            released_as=0,
        )

    def unreleasable(self, entry: Parked) -> str:
        """Return why this topology, which may have changed since, can't release ``entry``; empty: it can."""
        gone = sorted(entry.definition.keys() - set(self.admission.definitions.spouts))
        if gone:
            return (
                f"transaction {entry.txid} has rows of spout {' and '.join(map(repr, gone))}, which this topology "
                f"doesn't have: start it with that spout, or skip the transaction"
            )
        if entry.letters_of and entry.letters_of not in self.settings.lettered:
            return (
                f"dead letters of transaction {entry.txid} are rows of {entry.letters_of!r}, for which this topology "
                f"keeps none: start it with the branch and its on_error() as before, or skip the transaction"
            )
        return ""

    # --- refusals -----------------------------------------------------------------------------------------------------

    def _refused_park(self, wish: Wish) -> str:
        if len(wish.txids) != 1:
            return "one transaction is parked at a time"
        return self._unparkable(wish.txids[0])

    def _unparkable(self, txid: int) -> str:
        machine = self.admission.machine
        if self._parked.entry(txid) is not None:
            return f"transaction {txid} is parked already"
        if self._parked.is_parking(txid):
            return f"transaction {txid} is being parked"
        if txid < machine.current_txid:
            return f"transaction {txid} is committed"
        if txid not in machine.attempt_ids:
            return (
                f"transaction {txid} has not begun; the next one is {machine.current_txid + len(machine.attempt_ids)}"
            )
        if isinstance(self.admission.bindings.of(txid), Empty):
            return f"transaction {txid} has no batch: only time passes in it"
        return ""

    def _refused_release(self, wish: Wish) -> str:
        if not self._parked.entries:
            return "no transaction is parked"
        if unknown := self._not_on_list(wish.txids):
            return unknown
        for each in self._parked.entries:
            if (why := self.unreleasable(each)) and (not wish.txids or each.txid in wish.txids):
                return why
        return ""

    def _losing_late(self, wish: Wish) -> str:
        """Return why a release, which would perhaps lose late rows, is refused; empty: it isn't."""
        if wish.late or wish.action not in RELEASING or not self.settings.drops_late:
            return ""
        names = " and ".join(map(repr, sorted(self.settings.drops_late)))
        return (
            f"rows that are late by now would be lost, as nothing reads late_rows() of {names}: start the topology "
            f"with a stream that reads them, or accept that, by --late (late=True)"
        )

    def _refused_skip(self, wish: Wish) -> str:
        if not wish.txids:
            return "a transaction is skipped by its id"
        if unknown := self._not_on_list(wish.txids):
            return unknown
        named = self._named(wish)
        begun = [each.txid for each in named if each.released_as]
        waiting = [each for each in named if each.part and each.is_wanted]
        if waiting and not begun:
            txid, branch = waiting[0].txid, waiting[0].letters_of
            letters = f"the dead letters of transaction {txid} from {branch!r}"
            return f"{letters if branch else f'the rows of transaction {txid} that pass'} are not released yet"
        return f"transaction {begun[0]} is being released" if begun else ""

    def _refused_trial(self, wish: Wish) -> str:
        if len(wish.txids) != 1:
            return "one transaction at a time"
        if refusal := self._refused_release(wish):
            return refusal
        if self._parked.entry(wish.txids[0]) is None:
            return f"only dead letters of transaction {wish.txids[0]} are here: `trident dead-letters` shows them"
        is_begun = any(each.is_wanted for each in self._parked.parts(wish.txids[0]))
        return f"transaction {wish.txids[0]} is being released" if is_begun else ""

    def _refused_retry(self, wish: Wish) -> str:
        machine = self.admission.machine
        unknown = [txid for txid in wish.txids if txid not in machine.attempt_ids]
        if unknown and self._parked.entry(unknown[0]):
            return f"transaction {unknown[0]} is parked: release it"
        if unknown and unknown[0] != machine.current_txid:
            return f"transaction {unknown[0]} is not under way"
        return ""

    def _named(self, wish: Wish) -> list[Parked]:
        return [each for each in self._parked.entries if each.txid in wish.txids]

    def _not_on_list(self, txids: Collection[int]) -> str:
        unknown = [txid for txid in txids if txid not in {each.txid for each in self._parked.entries}]
        return f"transaction {unknown[0]} is not parked" if unknown else ""

    _RULES: ClassVar[dict[Action, _Rule]] = {
        Action.PARK: _refused_park,
        Action.RELEASE: _refused_release,
        Action.SKIP: _refused_skip,
        Action.BISECT: _refused_trial,
        Action.ROWS: _refused_trial,
        Action.RETRY: _refused_retry,
    }
