"""The order of steps of a `PostgresChangesSpout`: a crash between any two of them loses nothing and repeats nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, count
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import json_copy
from tests.unit.trident_py.spouts.collecting import emitted
from tests.unit.trident_py.spouts.postgres.memory_log import LAYOUT, CrashError, MemoryDatabase, MemoryLog, Steps
from trident_py.errors import SpoutError
from trident_py.spouts.postgres import coordinator as module
from trident_py.spouts.postgres.coordinator import ChangesCoordinator
from trident_py.spouts.postgres.spool import Spool
from trident_py.spouts.postgres.spout import ChangesEmitter
from trident_py.spouts.rest import Rest

EDITS = (
    [("insert", 4, "d")],
    [("update", 1, "A"), ("insert", 5, "e"), ("insert", 6, "f"), ("delete", 5, ""), ("update", 6, "F")],
    [("delete", 2, "")],
    [("insert", 2, "again")],
)
"""Transactions that are committed while the topology runs, one with each of its rounds."""

TOKENS = count()


class Violation(AssertionError):
    """Rows are missing, or counted twice."""


@define
class World:
    """A database, the record of a topology, and the copy that it has committed; they outlive each process."""

    directory: Path
    steps: Steps
    kind: type[ChangesCoordinator] = ChangesCoordinator
    database: MemoryDatabase = field(factory=lambda: MemoryDatabase({1: "a", 2: "b", 3: "c"}))
    cursors: dict[str, Any] = field(factory=dict)
    definitions: list[Any] = field(factory=list)
    committed: int = 0
    copy: dict[int, str] = field(factory=dict)
    edits: list[Any] = field(factory=lambda: list(EDITS))

    def live(self) -> None:
        """Run processes until one has read everything, then one more, which has a new change to read."""
        while True:
            try:
                self.run()
                break
            except CrashError:
                continue
        if len(self.database.slots) != 1:
            raise Violation(f"slots are left: {self.database.slots}")
        self.steps.crash_after = ()
        self.edits.append([("insert", 7, "g")])
        self.run()

    def run(self) -> None:
        log, spool = MemoryLog(self.database, self.steps), Spool(self.directory, "x_")
        coordinator = self.kind(
            where="w", log=log, spool=spool, layout=LAYOUT, prefix="x_", token=lambda: f"{next(TOKENS)}", most=2
        )
        coordinator._work.rest = Rest(sleep=lambda seconds: None)
        emitter = ChangesEmitter(where="w", log=log, spool=spool, layout=LAYOUT)
        coordinator.restore(json_copy(self.cursors))  # type: ignore[arg-type]
        for txid in range(self.committed + 1, len(self.definitions) + 1):
            coordinator.initialize_transaction(txid, None, self.definitions[txid - 1])
        while self.defined(coordinator) or self.committed < len(self.definitions) or self.edits:
            if self.edits:
                self.database.commit(*self.edits.pop(0))
            self.process(coordinator, emitter)
        coordinator.is_ready(len(self.definitions) + 1)  # releases what is done

    def defined(self, coordinator: ChangesCoordinator) -> bool:
        """Define up to two batches, before either is committed."""
        for _ in range(2):
            if len(self.definitions) - self.committed < 2 and coordinator.is_ready(len(self.definitions) + 1):
                txid = len(self.definitions) + 1
                found = json_copy(coordinator.initialize_transaction(txid, None, None))  # type: ignore[arg-type]
                self.steps.step()
                self.definitions.append(found)
                self.cursors |= coordinator.moved(found)  # type: ignore[arg-type]
                self.steps.step()
        return len(self.definitions) > self.committed or coordinator.has_pending_input()

    def process(self, coordinator: ChangesCoordinator, emitter: ChangesEmitter) -> None:
        if self.committed == len(self.definitions):
            return
        txid = self.committed + 1
        rows = emitted(emitter, TransactionAttempt(txid, 0), self.definitions[txid - 1])
        self.steps.step()
        for op, id, item, *_ in rows:
            self.fold(op, id, item)
        self.committed = txid
        self.steps.step()
        coordinator.success(txid)
        self.steps.step()

    def fold(self, op: str, id: int, item: str) -> None:
        """Apply a change as a database would: an insert of a row that is there is a second count of it."""
        if (op in ("update", "delete")) != (id in self.copy):
            raise Violation(f"{op} of {id} in {self.copy}")
        if op == "delete":
            del self.copy[id]
        else:
            self.copy[id] = item

    def check(self) -> None:
        """Compare the copy with the table, and look for what is left over."""
        if self.copy != self.database.rows:
            raise Violation(f"{self.copy} instead of {self.database.rows}")
        if list(self.directory.iterdir()):
            raise Violation("snapshots are left")
        if set(self.database.slots.values()) != {self.database.lsn}:
            raise Violation("the log is not released")


def check_worlds(directory: Path, kind: type[ChangesCoordinator] = ChangesCoordinator, crashes: int = 1) -> None:
    """Check a world for each choice of steps after which a process ends."""
    whole = World(directory / "whole", Steps(), kind)
    whole.live()
    whole.check()
    for number, chosen in enumerate(combinations(range(1, whole.steps.done + 1), crashes)):
        world = World(directory / str(number), Steps(chosen), kind)
        world.live()
        world.check()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTIONS", 1)
    monkeypatch.setattr(module, "RELEASED_BYTES_MIN", 1)


def test_a_crash_at_any_step_loses_and_repeats_nothing(tmp_path: Path) -> None:
    check_worlds(tmp_path)


@pytest.mark.slow
def test_two_crashes_at_any_steps_lose_and_repeat_nothing(tmp_path: Path) -> None:
    check_worlds(tmp_path, crashes=2)


class KeepsOldSlots(ChangesCoordinator):
    """Doesn't drop what an earlier process began."""

    def _begun(self) -> Any:
        if self._work.snapshot is None:
            self._work.snapshot = self._origins()
        return super()._begun()


class KeepsOldFiles(ChangesCoordinator):
    """Doesn't delete the files of earlier beginnings, nor those that are committed."""

    def restore(self, cursors: Any) -> None:
        super().restore(cursors)
        self.spool = Kept(self.spool.directory, self.spool.prefix)


class Kept(Spool):
    def sweep(self, keep: str | None = None) -> None:
        """Delete nothing."""


class ReleasesAtDefinition(ChangesCoordinator):
    """Advances the slot before a batch is committed."""

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> Any:
        found = super().initialize_transaction(txid, prev_metadata, curr_metadata)
        self.success(txid)
        return found


class ReleasesWholeTransactions(ChangesCoordinator):
    """Advances the slot beyond a transaction of which only a part is committed."""

    def success(self, txid: int) -> None:
        super().success(txid)
        if self._work.done is not None and self._work.done.n:
            self._work.done = evolve(self._work.done, lsn=self._work.done.lsn + 10)


class ForgetsItsPlaceInATransaction(ChangesCoordinator):
    """Continues at the begin of a divided transaction."""

    def restore(self, cursors: Any) -> None:
        super().restore(cursors)
        if self._position is not None:
            self._position = evolve(self._position, n=0)


class CreatesTheSlotAfterTheSnapshot(ChangesCoordinator):
    """Takes the snapshot before the slot begins, as if it were not exported by it."""

    def _origins(self) -> Any:
        database = self.log.database  # type: ignore[attr-defined]
        for origin in super()._origins():
            if origin is not None:
                database.commit(("insert", 99, "in between"))
                origin["begin"] = f"0/{database.lsn:X}"
                database.slots[origin["slot"]] = database.lsn
            yield origin


@pytest.mark.parametrize(
    "mutant",
    [
        KeepsOldSlots,
        KeepsOldFiles,
        ReleasesAtDefinition,
        ReleasesWholeTransactions,
        ForgetsItsPlaceInATransaction,
        CreatesTheSlotAfterTheSnapshot,
    ],
)
def test_each_rule_is_needed(mutant: type[ChangesCoordinator], tmp_path: Path) -> None:
    with pytest.raises((Violation, SpoutError, AssertionError)):
        check_worlds(tmp_path, mutant)


def lose_file(world: World) -> None:
    next(world.directory.iterdir()).unlink()


def change_file(world: World) -> None:
    path = next(world.directory.iterdir())
    path.write_bytes(path.read_bytes() + b" ")


@pytest.mark.parametrize(("spoil", "why"), [(lose_file, "is gone, and its rows"), (change_file, "is not as it was")])
def test_a_snapshot_that_is_lost_or_changed_stops_it(spoil: Callable[[World], None], why: str, tmp_path: Path) -> None:
    world = World(tmp_path / "files", Steps((6,)))
    with pytest.raises(CrashError):
        world.run()
    assert world.cursors["position"] == {"row": 2}
    spoil(world)
    with pytest.raises(SpoutError, match=rf"w: the snapshot .*{why}.*`trident reset`"):
        world.live()


def test_a_log_that_the_server_has_removed_stops_it(tmp_path: Path) -> None:
    world = World(tmp_path, Steps())
    world.live()
    world.database.is_lost = True
    with pytest.raises(SpoutError, match=r"w: the server has removed the log that the replication slot x_\d+ needs"):
        world.run()
