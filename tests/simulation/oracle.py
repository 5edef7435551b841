"""What must hold in every world at every moment, judged from outside: by what is durable and what was announced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from attrs import define, field

from coordinators.driver.batch_streams import Batch
from coordinators.driver.driver import CoordinatorDriver
from coordinators.record.record import CoordinatorRecord, decode
from coordinators.record.wishes import Action
from coordinators.values.errors import (
    CoordinationLost,
    FencedError,
    MetadataError,
    PoisonBatchError,
    StateError,
    TridentError,
)
from tests.simulation.agreement import check_agreement, check_together
from tests.simulation.rules import Violation
from tests.simulation.stores import Entry, Store, source_of
from tests.simulation.wishes import WishRules

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World
    from tests.simulation.zookeeper import Node

BASE = "/trident/simulated"
RECORD = f"{BASE}/record"

DAMAGES = {
    "ZooKeeper restored from the past": ("FencedError", "StateError", "SpoutError"),
    "a store restored from the past": ("StateError",),
    "record damaged": ("MetadataError",),
    "source truncated": ("SpoutError",),
    "a sink that can't undo": ("StateError",),
    "a store loses commits": ("StateError",),
}
HARMLESS_TO_THE_RECORD = ("a sink that can't undo", "a store loses commits")
"""What no protocol can repair, and the errors by which a topology may stop then."""


def record_in(nodes: Mapping[str, Node]) -> CoordinatorRecord:
    """The record that a ZooKeeper with these nodes has.

    Raises:
        MetadataError: it can't be read.
    """
    blobs = {unquote(path.rpartition("/")[2]): node.data.decode() for path, node in nodes.items() if "/blobs/" in path}
    return decode(nodes[RECORD].data.decode(), blobs, where="the simulation")


@define(eq=False)
class Oracle:
    """The checker of one world.

    Attributes:
        record: what is durable now.
        highest_attempt: of every transaction that was ever announced, and is not committed.
        times: of every transaction that was ever announced.
        numbers: of every transaction that was ever announced; None: it is empty.
        damaged: what was done to the world that no protocol can repair.
        gave_up: the topology has stopped, as the transaction that always fails has failed too often.
        stopped: the topology has stopped by an error that names the damage.
    """

    world: World
    record: CoordinatorRecord | None = None
    epoch: int = 0
    takeovers: int = 0
    damaged: str | None = None
    stopped: bool = False
    gave_up: bool = False
    highest_attempt: dict[int, tuple[int, int]] = field(factory=dict)
    times: dict[int, int] = field(factory=dict)
    numbers: dict[int, int | None] = field(factory=dict)
    wishes: WishRules = field(init=False)

    def __attrs_post_init__(self) -> None:
        """No wish was left yet."""
        self.wishes = WishRules(self.require)

    @property
    def committed(self) -> int:
        """The last transaction that is committed for good."""
        return self.record.current_txid - 1 if self.record else 0

    def record_written(self) -> None:
        """I5, S4, S9: nothing durable goes back, and the definitions that are needed are there."""
        nodes = self.world.server.nodes
        epoch = nodes[f"{BASE}/epoch"].version + 1 if f"{BASE}/epoch" in nodes else 0
        self.require(epoch >= self.epoch, "I5", f"epoch {epoch} after {self.epoch}")
        self.epoch = epoch
        if RECORD not in nodes:
            return
        try:
            after, before = record_in(nodes), self.record
        except MetadataError as error:
            story = "an unreadable record was overwritten" if self.record else str(error)
            self.require(self.damaged == "record damaged" and self.record is None, "S13", story)
            return
        self.require(self.damaged != "record damaged" or self.record is not None, "S13", "it started over")
        if self.damaged is None:
            self.wishes.written(nodes, before, after)
        if after == before:
            return
        self.record = after
        self._parked(before, after)
        needed = {after.current_txid - 1, *(t for t in after.attempt_ids if t >= after.current_txid)} - {0}
        numbers = {after.bindings.upto(txid) for txid in needed} - {0}
        missing = {number for number in numbers if number not in after.metadata}
        self.require(not missing, "S9", f"the record at {after.current_txid} has no definition of {missing}")
        self.require(after.epoch <= epoch, "I5", f"record of epoch {after.epoch}, claimed is {epoch}")
        if before is not None:
            self._compare(before, after)
        if self.damaged is None:
            check_agreement(self.world.stores, self.committed, self.world.group_max, self.world.parked)

    def _parked(self, before: CoordinatorRecord | None, after: CoordinatorRecord) -> None:
        """S23: what is parked stays on the list until it is released or skipped, with the definition that it had."""
        parked, parking = self.world.parked, after.parked.parking
        for closing, txid in after.bindings.released.items():
            entry = after.parked.released_in(closing)
            parked.released.setdefault(closing, parked.part_of(entry) if entry else (txid, 0))
        entries = {parked.part_of(entry): entry for entry in after.parked.entries}
        parked.letters |= {part: entry.letters_of for part, entry in entries.items() if entry.letters_of}
        if parking is not None:
            entries[parked.part_of(parking.entry)] = parking.entry
            if parking.txid == parking.entry.txid:
                self.numbers.setdefault(parking.txid, parking.entry.number)
        rows = {
            part: tuple(row for spout in sorted(entry.definition) for row in self.world.rows_of(entry, spout))
            for part, entry in entries.items()
        }
        wrong = parked.note(rows)
        self.require(not wrong, "S24" if "split" in wrong else "S23", wrong)
        if before is None:
            return
        there = {parked.part_of(entry) for entry in before.parked.entries}
        for part in there - entries.keys():
            parked.leaves(part)
            is_released = any(
                parked.released.get(closed) == part for closed in range(before.current_txid, after.current_txid)
            )
            made = [self.wishes.made[each.wish] for each in after.outcomes if each not in before.outcomes]
            skipped = [wish.txids for wish in made if wish.action is Action.SKIP]
            is_skipped = (part[0],) in skipped
            self.require(is_released or is_skipped, "S23", f"{part} is not parked any more, and wasn't released")
            if is_skipped:
                parked.skipped.add(part)
        was = before.parked.parking
        if was is not None and was != parking:
            is_closed = after.current_txid > was.txid and parked.part_of(was.entry) in entries
            self.require(is_closed, "S23", f"{was} is forgotten")

    def _compare(self, before: CoordinatorRecord, after: CoordinatorRecord) -> None:
        for name in ("epoch", "seq", "current_txid", "success_upto"):
            old, new = getattr(before, name), getattr(after, name)
            self.require(new >= old, "S4", f"{name} of the record went from {old} to {new}")
        step = after.current_txid - before.current_txid
        # Of a record from the past it may be more, where the states are where commits of ours can have left them.
        few = step <= self.world.group_max or self.damaged == "ZooKeeper restored from the past"
        self.require(few, "S4", f"the record went from {before.current_txid} to {after.current_txid}")
        is_pardoned = after.parked.parking not in (None, before.parked.parking) or any(
            each.action is Action.RETRY and each not in before.outcomes for each in after.outcomes
        )
        for txid, failure in before.failures.items() if not is_pardoned else ():
            due = min(failure.count, self.world.attempts - 1)  # after a halt it is tried once more
            kept = txid < after.current_txid or (txid in after.failures and after.failures[txid].count >= due)
            self.require(kept or not due, "S15", f"{failure.count} failures of {txid} are forgotten")
        for pin in before.committing:
            kept = pin.attempt.txid < after.current_txid or any(
                p.attempt.txid == pin.attempt.txid for p in after.committing
            )
            self.require(kept, "S8", f"the pin of {pin.attempt} is gone, and its commit isn't closed")

    def batch_announced(self, batch: Batch) -> None:
        """Stored before it is announced, and never announced before; with the time of its transaction.

        A trial is neither: nothing of it is durable.
        """
        if batch.attempt.is_trial:
            return
        record, attempt, number, time, parks = self.record, batch.attempt, batch.number, batch.time, batch.parks
        parking = record.parked.parking if record else None
        first = parking.first_attempt_id if parking and parking.txid == attempt.txid else None
        if batch.stores and first is None:
            first = attempt.attempt_id
        self.require(parks == first, "S23", f"{attempt} is announced as one that parks from {parks} on, due is {first}")
        is_own = (parks is None or batch.stores) and attempt.txid not in self.world.parked.released
        stored = record is not None and record.attempt_ids.get(attempt.txid) == attempt.attempt_id
        self.require(stored, "S5", f"batch {attempt} was announced before it was stored")
        known = record is not None and (number is None or number in record.metadata or not is_own)
        self.require(known, "S9", f"batch {attempt} was announced before its definition was stored")
        if is_own:
            self._numbered(attempt.txid, number)
        elif attempt.txid in self.world.parked.released:
            self.numbers[attempt.txid] = None
        fixed = self.times.setdefault(attempt.txid, time)
        self.require(time == fixed, "S14", f"{attempt} has the time {time}, an earlier attempt had {fixed}")
        stored_time = record.times.get(attempt.txid) if record else None
        self.require(stored_time == time, "S14", f"{attempt} has the time {time}, stored is {stored_time}")
        before_it = [earlier for txid, earlier in self.times.items() if txid < attempt.txid]
        self.require(
            time >= max(before_it, default=time), "S14", f"{attempt} has the time {time}, before an earlier one"
        )
        token = (self.epoch, attempt.attempt_id)
        before = self.highest_attempt.get(attempt.txid, (0, -1))
        self.require(token > before, "S7", f"attempt {attempt} of epoch {self.epoch} comes after {before}")
        self.highest_attempt[attempt.txid] = token
        due = self.committed + 1
        holes = [txid for txid in range(due, attempt.txid) if txid not in self.highest_attempt]
        self.require(not holes, "I2", f"{attempt} was announced before {holes} ever were")

    def _numbered(self, txid: int, number: int | None) -> None:
        """S18: what is durable says which number it has, for ever; numbers are dense."""
        stored = self.record.bindings.number(txid) if self.record else 0
        self.require(stored == number, "S18", f"{txid} has number {number}, stored is {stored}")
        bound = self.numbers.setdefault(txid, number)
        self.require(bound == number, "S18", f"{txid} has number {number}, it had {bound}")
        given = [each for before, each in self.numbers.items() if before < txid and each is not None]
        due = max(given, default=0) + 1
        is_dense = number in (None, due) or self.damaged is not None
        self.require(is_dense, "S18", f"{txid} has number {number}, due is {due}")

    def commit_started(self, process: Process) -> None:
        """The own clock: no commit begins when another can lead."""
        session = process.session
        alive = session is not None and session.id in self.world.server.sessions
        if self.world.real_time:
            self.require(alive, "I6", f"{process.name} starts a commit although its session has ended")

    def turn_taken(self, process: Process, driver: CoordinatorDriver, now: float, end: int) -> None:
        """L5: a window that has ended is closed by a transaction on its way; and the next turn comes when one ends."""
        machine = driver.machine
        next_txid = machine.current_txid + len(machine.active)
        is_closing = any(time >= end for txid, time in self.times.items() if txid > self.committed)
        if not machine.takes_new or machine.parks_by:
            return  # what is due waits
        is_full = len(machine.active) >= len(machine.window) or next_txid in machine.attempt_ids
        if is_closing or is_full or self.damaged or self.world.poison:
            return
        secs = (end - driver.times.at(now)) / 1000
        self.require(secs > 0, "L5", f"{process.name} is {-secs} s late to close a window")
        self.require(
            driver.next_turn_at(now) <= now + secs + 0.001, "L5", f"{process.name} sleeps beyond the end of a window"
        )

    def success_delivered(self, txid: int) -> None:
        """S5: only what is durably committed succeeds."""
        self.require(txid <= self.committed, "S5", f"success of {txid} while {self.committed} are committed")

    def took_over(self, process: Process) -> None:
        """Somebody leads."""
        self.takeovers += 1
        self.world.say(f"{process.name} leads from {self.committed + 1} on")

    def effect_landed(self) -> None:
        """After every change of a store."""
        if self.world.together:
            check_together(self.world.stores)
        if self.damaged is None:
            check_agreement(self.world.stores, self.committed, self.world.group_max, self.world.parked)

    def was_damaged(self, kind: str) -> None:
        """From here on, stopping by one of some named errors is as right as going on; doubling and losing are not."""
        self.damaged = kind
        if kind not in HARMLESS_TO_THE_RECORD:
            self.record, self.epoch = None, 0
            self.highest_attempt.clear()
            self.times.clear()
            self.numbers.clear()
            for source in self.world.sources.values():
                source.splits.clear()
            self.record_written()

    def ended(self, process: Process, error: TridentError) -> None:
        """Nobody stops without need."""
        if isinstance(error, PoisonBatchError):
            self._given_up()
            return
        if "can't undo" in str(error) and not all(source.exact for source in self.world.sources.values()):
            self.was_damaged("a sink that can't undo")
        if "left out" in str(error) and self.world.parked.able.get(error.txid or 0):
            self.was_damaged("a sink that can't undo")  # by a commit that landed after it was asked
        if self.damaged is not None:
            behind = ("MetadataError", "StateError") if self.world.reads_are_stale else ()
            named = (*DAMAGES[self.damaged], *behind, "FencedError", "CoordinationLost")
            self.require(type(error).__name__ in named, "S11", f"after {self.damaged}: {error!r}")
            self.stopped = self.stopped or type(error).__name__ in DAMAGES[self.damaged]
            return
        if self.world.reads_are_stale and isinstance(error, FencedError | MetadataError | StateError):
            return  # Read from a server that is behind, the record is from the past: it stops, and is started again.
        store = process.record_store
        overtaken = isinstance(error, FencedError) and (store is None or store.epoch < self.epoch)
        needed = overtaken or isinstance(error, CoordinationLost)
        self.require(needed, "L2", f"{process.name} ended without need: {error!r}")

    def _given_up(self) -> None:
        """S15: in its turn, and with the reason in the record."""
        poison, record = self.world.poison, self.record
        if self.world.parks_poison and record is not None:  # there it is a number, of whatever transaction has it
            lowest = self.committed + 1
            released = record.parked.released_in(lowest)
            number = released.number if released else self.numbers.get(lowest)
            poison = lowest if number == poison else poison
        self.require(self.committed == poison - 1, "S15", f"{poison} is given up after {self.committed}")
        failure = record.failures.get(poison) if record else None
        count = failure.count if failure else 0
        self.require(count >= self.world.attempts, "S15", f"{poison} is given up, and the record has {count} failures")
        self.gave_up = True

    def somebody_leads(self) -> None:
        """L2: some time after the last fault there is a leader."""
        if self.damaged is None:
            leads = any(process.is_alive and process.driver is not None for process in self.world.processes)
            self.require(leads, "L2", "nobody leads")

    def is_done(self) -> bool:
        """Whether all input is committed and every success was delivered."""
        try:
            self.at_the_end()
        except Violation:
            return False
        return True

    def at_the_end(self) -> None:
        """Liveness, after a quiet phase: all input is committed, every success delivered, nothing is left behind."""
        world = self.world
        if self.stopped or self.damaged == "a store loses commits":
            return  # who commits nothing more may never notice
        if world.poison and (not world.parks_poison or self.gave_up):
            self.require(self.gave_up, "L1", f"{world.poison} is not given up")
            return
        left = world.parked.open(world.stores.values())
        self.require(left == world.parked.skipped, "L7", f"{left} are left out, skipped is {world.parked.skipped}")
        available = {name: rows for source in world.sources.values() for name, rows in source.inputs.items()}
        for store in world.stores.values():
            store.check(world.parked)
            if store.lags:
                continue
            if not store.fed_by:
                self._check_rows(store, available)
            swept = store.inline or not store.remembers or not store.staged
            self.require(swept, "S12", f"{store.name} still has staged {list(store.staged)}")
        self._check_windows()
        for source in world.sources.values():
            due = self.record.bindings.upto(self.committed) if self.record else 0
            story = f"{source.name} heard of {source.succeeded} successes, {due} are due"
            self.require(source.succeeded == due, "L3", story)
        record = self.record
        if self.damaged is None:
            self.wishes.at_the_end(record)
        self.require(record is not None and len(record.metadata) <= world.max_spout_pending + 2, "L4", f"{record}")

    def _check_rows(self, store: Store, available: dict[str, int]) -> None:
        """L1: a store has all rows that its branch reads."""
        if store.collects:
            return
        rows = [row for entry in self._whole(store) for row in entry.rows]
        rows += [
            row for each in self.world.stores.values() if each.collects for row in each.letters(store.name).elements()
        ]
        rows += [row for part in self.world.parked.skipped for row in self.world.parked.rows[part]]
        due = {name: rows for name, rows in available.items() if not store.reads or source_of(name) in store.reads}
        found = {name: sum(1 for spout, _ in rows if spout == name) for name in due}
        self.require(found == due, "L1", f"{store.name} has {found} of {due}")

    def _check_windows(self) -> None:
        """L5, S17: every window has closed although no more input came; and no transaction was empty for nothing."""
        window, closing = self.world.window, set[int]()
        if window is None:
            return
        for store in self.world.stores.values():
            waits = window.next_at(store) is not None and not store.lags
            self.require(not waits, "L5", f"a window of {store.name} waits for input")
            closing |= {entry.token.txid for entry, ends in window.firing(store.ledger) if ends}
        if self.world.leaves or self.damaged or self.world.parked.rows:
            return  # with a parked transaction, the rows of a window may go that an empty one was to close
        empty = {txid for txid in range(1, self.committed + 1) if self.numbers.get(txid, 0) is None}
        empty -= self.world.parked.released.keys()
        self.require(empty <= closing, "S17", f"{empty - closing} are empty, and close no window of any store")

    def _whole(self, store: Store) -> list[Entry]:
        """What a store would have without gaps, by another one."""
        other = next((each for name, each in self.world.stores.items() if name != self.world.leaves), store)
        pairs = zip(store.ledger, other.ledger, strict=False)
        return [there if here.is_passed_over else here for here, there in pairs]

    def require(self, condition: bool, invariant: str, story: str) -> None:
        """Raise a `Violation` if ``condition`` doesn't hold."""
        if not condition:
            raise Violation(invariant, story)
