"""The machine, driver and takeover with one rule switched off: what the mutation gate needs to be caught."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

from attrs import define, evolve

from coordinators.backends.zookeeper.record_store import RecordRequests, ZooKeeperRecordStore, requests_for
from coordinators.backends.zookeeper.znodes import ANY_VERSION, Check, Put, Step
from coordinators.batches.admission import Admission
from coordinators.batches.bad_rows import BadRowsOfAttempts
from coordinators.batches.definitions import Definitions
from coordinators.batches.spout_coordinator import Ask
from coordinators.driver.bisect_desk import BisectDesk
from coordinators.driver.driver import CoordinatorDriver
from coordinators.driver.letters_desk import LettersDesk
from coordinators.driver.wish_desk import WishDesk
from coordinators.protocol.acker import Acker, Completed, Outcome
from coordinators.protocol.master import MasterBatchCoordinator
from coordinators.protocol.messages import Fingerprinted, OffsetsResolved
from coordinators.protocol.protocol import CancelAttempt, Command, EmitBatch, EmitSuccess, StoreRecord, Wished
from coordinators.record.bad_rows import BadRow
from coordinators.record.record import Bindings, CoordinatorRecord, EncodedRecord
from coordinators.record.wishes import Wish
from coordinators.takeover import takeover
from coordinators.takeover.takeover import Adopt, Moved, Torn, recover
from coordinators.values.attempt import CommitToken, TransactionAttempt
from coordinators.values.errors import StateError
from coordinators.values.transaction_time import TransactionTimes
from tests.simulation.rules import Rules


class UnguardedRecordStore(ZooKeeperRecordStore):
    """Overwrites whatever anybody else has written meanwhile."""

    __slots__ = ()

    def _requests(self, encoded: EncodedRecord, carried_out: Sequence[str]) -> RecordRequests:
        requests = super()._requests(encoded, carried_out)
        steps = [step for step in requests.last if not isinstance(step, Check)]
        blind = [evolve(step, version=ANY_VERSION) if isinstance(step, Put) else step for step in steps]
        return RecordRequests(requests.ahead, blind)


class SplittingRecordStore(ZooKeeperRecordStore):
    """No mutant: has every new blob go ahead of the head, as a server that takes next to nothing at once would."""

    __slots__ = ()

    def _requests(self, encoded: EncodedRecord, carried_out: Sequence[str]) -> RecordRequests:
        fence, before = self._fence_step, self._stored
        return requests_for(self._paths, fence, before, encoded, acl_bytes=0, carried_out=carried_out, bytes_max=200)


class HeadFirst(SplittingRecordStore):
    """Stores the head, and then the blobs that it names."""

    __slots__ = ()

    def _requests(self, encoded: EncodedRecord, carried_out: Sequence[str]) -> RecordRequests:
        fence, *steps = super()._requests(encoded, carried_out).last
        return RecordRequests((), [fence, *(step for step in steps if not isinstance(step, Check))])

    def _replace(self, encoded: EncodedRecord, steps: Sequence[Step]) -> None:
        ahead = super()._requests(encoded, ()).ahead
        super()._replace(encoded, steps)
        for creates in ahead:
            self._store_ahead(creates)


class Unlooking(SplittingRecordStore):
    """Doesn't look whether the blobs are still there when the head goes that names them."""

    __slots__ = ()

    def _requests(self, encoded: EncodedRecord, carried_out: Sequence[str]) -> RecordRequests:
        requests = super()._requests(encoded, carried_out)
        fence, *steps = requests.last
        return RecordRequests(requests.ahead, [fence, *(step for step in steps if not isinstance(step, Check))])


class AnnouncingFirst(CoordinatorDriver):
    """Announces, then stores: as Storm does."""

    __slots__ = ()

    def _carry_out(self, commands: list[Command], now: float) -> None:
        for command in commands:
            if isinstance(command, EmitBatch):
                self._admit(command.attempt, now)
            elif isinstance(command, EmitSuccess):
                self.owed.attempt_ids[command.attempt.txid] = command.attempt.attempt_id
            if not isinstance(command, StoreRecord):
                self._announce(command)
        stores = [command for command in commands if isinstance(command, StoreRecord)]
        if stores:
            self.writer.write(*stores)


class Forgetful(CoordinatorDriver):
    """Doesn't deliver what an earlier leader owed."""

    __slots__ = ()

    def start(self, now: float, wall: float) -> None:
        self.owed.attempt_ids.clear()
        super().start(now, wall)


class GivingUpAtOnce(CoordinatorDriver):
    """Ends by a transaction that is given up although others before it are not committed."""

    __slots__ = ()

    def _end_if_given_up(self) -> None:
        for verdict in self.failures._verdicts.values():
            self.writer.write()
            raise verdict


class EndingWithoutAWord(CoordinatorDriver):
    """Ends, and leaves no reason in the record."""

    __slots__ = ()

    def _end_if_given_up(self) -> None:
        verdict = self.failures.verdict(self.machine.current_txid)
        if verdict is not None:
            raise verdict


class StartingAfresh(CoordinatorDriver):
    """Counts failures from 0."""

    __slots__ = ()

    def start(self, now: float, wall: float) -> None:
        self.failures.retries.known.clear()
        super().start(now, wall)


class FindingBadRowsAnew(BadRowsOfAttempts):
    """Lets each attempt leave out what fails in it."""

    __slots__ = ()

    def fixed(self, txid: int, committing: Iterable[TransactionAttempt]) -> None:
        return None


class KeepingBadRowsInMemory(BadRowsOfAttempts):
    """Stores the intent to commit without the rows that are left out."""

    __slots__ = ()

    def durable(self, committing: Iterable[TransactionAttempt]) -> dict[int, tuple[BadRow, ...]]:
        return {}


class FailingAlone(MasterBatchCoordinator):
    """Leaves the transactions after a failed one as they are."""

    __slots__ = ()

    def _fail(self, attempt: Any) -> Iterator[Command]:
        if self.is_live(attempt):
            yield CancelAttempt(self._active.pop(attempt.txid).attempt)

    def _check(self, *_: Any, **__: Any) -> None:
        """Leave it to the simulation to see it."""


class Trusting(Acker):
    """Takes the first report for all of them."""

    def ack(self, root: Any, took: int, made: Any = (), *, reporter: Any = None) -> Outcome | None:
        if self.is_pending(root):
            self.forget(root)
            return Completed(root)
        return None


class DefiningAnew(Definitions):
    """Never tells a spout what a transaction was."""

    __slots__ = ()

    def asks(self, now: float, upto: int) -> Iterator[tuple[str, Ask]]:
        for spout, ask in super().asks(now, upto):
            yield spout, evolve(ask, curr_metadata=None, then=(None,) * len(ask.then))


class ForgettingSplits(Definitions):
    """Doesn't keep what was found out by emitting; positions move all the same."""

    __slots__ = ()

    def take_emission(self, topology: str, number: int, message: OffsetsResolved | Fingerprinted) -> None:
        part = self.known[number].parts[message.spout]
        before = part.metadata
        super().take_emission(topology, number, message)
        part.metadata = before
        self.known[number].metadata_changed()


class KeepingTexts(Definitions):
    """Stores the definition of before, although emitting has found another one."""

    __slots__ = ()

    def take_emission(self, topology: str, number: int, message: OffsetsResolved | Fingerprinted) -> None:
        definition = self.known[number]
        stored = definition.attempted_metadata
        super().take_emission(topology, number, message)
        definition._attempted = stored


class LeavingCursors(Definitions):
    """Doesn't move positions when a transaction is closed."""

    __slots__ = ()

    def close_before(self, txid: int) -> None:
        for definition in self.known.values():
            for part in definition.parts.values():
                part.resolved = {}
        super().close_before(txid)


class CountingAhead(CoordinatorDriver):
    """Takes a transaction that is closed in this very turn for one whose success was delivered."""

    __slots__ = ()

    def _delivered(self, txid: int) -> None:
        self.owed.attempt_ids.pop(txid, None)
        self.owed.upto = min([txid - 1 for txid in self.owed.attempt_ids], default=self.machine.current_txid - 1)


class WaitingForInput(Admission):
    """Closes windows when there is input."""

    __slots__ = ()

    def ready(self, now: float, window_at: int | None) -> list[int]:
        return super().ready(now, None)


class SleepingOn(Admission):
    """Starts a transaction without input only when something else happens, too."""

    __slots__ = ()

    def moments(self) -> Iterator[float]:
        window_at, self._window_at = self._window_at, None
        yield from super().moments()
        self._window_at = window_at


class ClosingAgain(Admission):
    """Lets one more transaction start while one that closes the window is on its way."""

    __slots__ = ()

    def _waits_for_window(self, txid: int, window_at: int) -> bool:
        return self._is_unbound(txid)


class Renumbering(CoordinatorDriver):
    """Takes every transaction that an earlier leader has begun for one with input."""

    __slots__ = ()

    def start(self, now: float, wall: float) -> None:
        self.admission.bindings = Bindings()
        super().start(now, wall)


class GoingByTheClock(TransactionTimes):
    """Gives every transaction the time of the moment, whatever an earlier leader gave."""

    __slots__ = ()

    def start(self, now: float, wall: float) -> list[str]:
        self.known.clear()
        return super().start(now, wall)


@define
class ByStep:
    """A state that is believed to be ahead only where the last step of its commits began at the record."""

    state: Any
    records: ZooKeeperRecordStore

    def __getattr__(self, name: str) -> Any:
        return getattr(self.state, name)

    def recover(self, topology: Any, epoch: int) -> CommitToken | None:
        token: CommitToken | None = self.state.recover(topology, epoch)
        record = self.records.read()
        current = record.current_txid if record else 1
        if token and token.txid > current and (self.state.store.fence.group_first or token.txid) > current:
            raise StateError(f"{self.state.name} has {token}, the record is only at {current}")
        return token


@define
class FromItsToken:
    """A state that passes over what comes behind its last commit, be that one of a gap or not."""

    state: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.state, name)

    def pass_over(self, topology: Any, epoch: int, txids: range) -> None:
        token = self.state.store.fence.token
        self.state.pass_over(topology, epoch, range(max(txids.start, token.txid + 1), txids.stop))


class ForgettingGaps(ZooKeeperRecordStore):
    """Doesn't store what is passed over."""

    __slots__ = ()

    def write(self, record: CoordinatorRecord) -> None:
        super().write(evolve(record, gaps={}))


class ForgettingToPark(ZooKeeperRecordStore):
    """Doesn't store what is decided."""

    __slots__ = ()

    def write(self, record: CoordinatorRecord) -> None:
        super().write(evolve(record, parked=evolve(record.parked, parking=None)))


class ReleasingAgain(MasterBatchCoordinator):
    """Leaves what was released on the list."""

    __slots__ = ()

    def _close(self, attempt: Any) -> Iterator[Command]:
        released = self.parked.released_in(attempt.txid)
        for command in super()._close(attempt):
            if released is not None and isinstance(command, StoreRecord):
                entries = (*self.parked.entries, evolve(released, released_as=0))
                self.parked = evolve(self.parked, entries=entries)
                command = self._store()
            yield command

    def _check(self, *_: Any, **__: Any) -> None:
        """Leave it to the simulation to see it."""


class ReleasingAnew(CoordinatorDriver):
    """Doesn't know which transaction an earlier leader has begun to release."""

    __slots__ = ()

    def start(self, now: float, wall: float) -> None:
        self.admission.bindings = evolve(self.admission.bindings, released={})
        entries = tuple(evolve(each, released_as=0) for each in self.machine.parked.entries)
        self.machine.parked = evolve(self.machine.parked, entries=entries)
        self.machine._last_store = self.machine._store()
        super().start(now, wall)


class StayingAtWhatIsParked(Definitions):
    """Doesn't move the positions past what is parked."""

    __slots__ = ()

    def leave_out(self, number: int) -> None:
        for part in self.known[number].parts.values():
            part.resolved = {}
        super().leave_out(number)


class SplittingIntoTwice(MasterBatchCoordinator):
    """Has the rows that fail in both parts."""

    __slots__ = ()

    def _carry_out(self, wished: Wished) -> Iterator[Command]:
        for command in super()._carry_out(wished):
            if wished.split is not None and isinstance(command, StoreRecord):
                whole = wished.split.whole.stored
                parked = (evolve(each, stored=whole) if each.part else each for each in self.parked.entries)
                self.parked = evolve(self.parked, entries=tuple(parked))
                command = evolve(self._store(), outcomes=command.outcomes)
            yield command

    def _check(self, *_: Any, **__: Any) -> None:
        """Leave it to the simulation to see it."""


class BisectingWhatIsGone(BisectDesk):
    """Splits what was parked when the search began."""

    __slots__ = ()

    def events(self) -> Iterator[Wished]:
        if self._running is None:
            yield from super().events()
        elif self._running.is_over and self._running.attempt is None:
            yield self._result(self._running)


class ReleasingLettersTwice(LettersDesk):
    """Doesn't look whether letters of a branch are being released."""

    __slots__ = ()

    @property
    def _under_way(self) -> set[str]:
        return set()


class DecidingTwice(WishDesk):
    """Reads what was decided in this turn once more."""

    __slots__ = ()

    def decide(self, wish: Wish) -> None:
        super().decide(wish)
        self.decided.clear()


class DecidingWhatWaits(WishDesk):
    """Keeps a decision in mind only if the last look showed the wish."""

    __slots__ = ()

    def decide(self, wish: Wish) -> None:
        if wish in self.waiting:
            super().decide(wish)


def _not_listing(after: Callable[..., CoordinatorRecord]) -> Callable[..., CoordinatorRecord]:
    """Close what is parked at a takeover, and forget it."""

    def closed(record: CoordinatorRecord, *arguments: Any) -> CoordinatorRecord:
        found = after(record, *arguments)
        is_parked = record.parked.parking is not None and found.parked.parking is None
        return evolve(found, parked=evolve(record.parked, parking=None)) if is_parked else found

    return closed


DRIVERS: dict[str, type[CoordinatorDriver]] = {
    "store, then announce": AnnouncingFirst,
    "owed successes": Forgetful,
    "written successes": CountingAhead,
    "ended in its turn": GivingUpAtOnce,
    "cause, then the end": EndingWithoutAWord,
    "kept counts": StartingAfresh,
    "bound for ever": Renumbering,
    "released over a takeover": ReleasingAnew,
}

MACHINES: dict[str, type[MasterBatchCoordinator]] = {
    "tail replays": FailingAlone,
    "released once": ReleasingAgain,
    "parts apart": SplittingIntoTwice,
}

TAKEOVERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "attempts compared": ("_check_attempts", lambda *_: None),
    "parked over a takeover": ("_is_empty", lambda parking, tokens: all(t.txid == parking.txid for t in tokens)),
    "listed at a takeover": ("_after", _not_listing(takeover._after)),
}
"""The part of a takeover that each rule is about, and what is done instead."""

ADMISSIONS: dict[str, type[Admission]] = {
    "windows on time": WaitingForInput,
    "one for each window": ClosingAgain,
}

DEFINITIONS: dict[str, type[Definitions]] = {
    "standing definitions": DefiningAnew,
    "stored extents": ForgettingSplits,
    "moved cursors": LeavingCursors,
    "texts of this moment": KeepingTexts,
    "positions of what is parked": StayingAtWhatIsParked,
}


BAD_ROWS: dict[str, type[BadRowsOfAttempts]] = {
    "bad rows fixed": FindingBadRowsAnew,
    "bad rows with the intent": KeepingBadRowsInMemory,
}

DESKS: dict[str, type[WishDesk]] = {"decided once": DecidingTwice, "decided unseen": DecidingWhatWaits}
SEARCHES: dict[str, type[BisectDesk]] = {"bisected as listed": BisectingWhatIsGone}
LETTERS: dict[str, type[LettersDesk]] = {"letters released once": ReleasingLettersTwice}


def _passing_over_first(store: ZooKeeperRecordStore, states: Sequence[Any], adopt: Adopt) -> Adopt:
    """Pass over what is accepted before that is in the record."""

    def adopting(record: CoordinatorRecord, torn: Torn | None) -> CoordinatorRecord:
        record = adopt(record, torn)
        for state in states:
            token, gap = state.store.fence.token, record.gaps.get(state.name)
            if token and gap and gap.stop == record.current_txid:
                state.pass_over(store.identity, store.epoch, range(max(gap.start, token.txid), gap.stop))
        return record

    return adopting


def weaken(driver: CoordinatorDriver, rules: Rules) -> None:
    """Take from ``driver`` the rules that are off."""
    for rule in rules.off:
        driver.__class__ = DRIVERS.get(rule, driver.__class__)
        driver.admission.__class__ = ADMISSIONS.get(rule, driver.admission.__class__)
        driver.definitions.__class__ = DEFINITIONS.get(rule, driver.definitions.__class__)
        driver.machine.__class__ = MACHINES.get(rule, driver.machine.__class__)
        driver.wishes.__class__ = DESKS.get(rule, driver.wishes.__class__)
        driver.bisecting.__class__ = SEARCHES.get(rule, driver.bisecting.__class__)
        driver.letters.__class__ = LETTERS.get(rule, driver.letters.__class__)
        driver.admission.bad_rows.__class__ = BAD_ROWS.get(rule, driver.admission.bad_rows.__class__)
    if not rules.has("kept times"):
        driver.times.__class__ = GoingByTheClock
    if not rules.has("all reports"):
        driver.phases.acker = Trusting()


def _asked(rules: Rules, store: ZooKeeperRecordStore, states: Sequence[Any]) -> Sequence[Any]:
    """The states that a takeover asks, each as it is asked."""
    if not rules.has("gaps from where they begin"):
        states = [FromItsToken(state) for state in states]
    if not rules.has("fed states asked"):
        for state in states:
            state.recover(store.identity, store.epoch)
        states = [state for state in states if not state.store.fed_by]
    return states if rules.has("known groups") else [ByStep(state, store) for state in states]


def _weaken_store(store: ZooKeeperRecordStore, rules: Rules) -> None:
    """Take from ``store`` the rules that are off."""
    if not rules.has("blobs first") and isinstance(store, SplittingRecordStore):
        store.__class__ = HeadFirst
    if not rules.has("parts still there") and isinstance(store, SplittingRecordStore):
        store.__class__ = Unlooking
    if not rules.has("guarded writes"):
        store.__class__ = UnguardedRecordStore
    if not rules.has("gaps in the record"):
        store.__class__ = ForgettingGaps
    if not rules.has("parked, then empty"):
        store.__class__ = ForgettingToPark


def recovered(
    rules: Rules, store: ZooKeeperRecordStore, states: Sequence[Any], *, moved: Moved, adopt: Adopt
) -> CoordinatorRecord:
    """`recover`, or what is left of it without a rule."""
    _weaken_store(store, rules)
    states = _asked(rules, store, states)
    for rule, (name, instead) in TAKEOVERS.items():
        if not rules.has(rule):
            with patch.object(takeover, name, instead):
                return recover(store, states, moved=moved, adopt=adopt)
    if not rules.has("offsets by their intent"):
        known = partial(takeover._is_known, resolved=False)
        with patch.object(takeover, "_is_known", lambda record, txid, tokens, **_: known(record, txid, tokens)):
            return recover(store, states, moved=moved, adopt=adopt)
    if rules.has("reconciliation"):
        adopting = adopt if rules.has("accepted, then passed over") else _passing_over_first(store, states, adopt)
        closes, tells = rules.has("closed at a takeover"), rules.has("torn as declared")
        tells_all = rules.has("none joins what comes again")
        return recover(
            store,
            states,
            has_committer_spouts=not closes,
            moved=moved,
            adopt=lambda record, torn: adopting(
                record, torn if closes and tells and torn and (torn.lacking or tells_all) else None
            ),
        )
    for state in states:
        state.recover(store.identity, store.epoch)
    return recover(store, [])
