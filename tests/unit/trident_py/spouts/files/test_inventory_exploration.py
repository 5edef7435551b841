"""Each object is read once or left out once, wherever leaders are killed or paused; and each rule is needed."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product
from typing import Any

import pytest
from attrs import define, field

from coordinators.values.canonical import Json
from tests.unit.trident_py.spouts.files.buckets import (
    RISING,
    Case,
    Leader,
    World,
    any_order,
    killed,
    name_order,
    strict_order,
)
from tests.unit.trident_py.spouts.spool.worlds import Killed
from trident_py.errors import FailedException, FencedError, SpoutError
from trident_py.spouts.files import inventory as inventories
from trident_py.spouts.files import search as searches
from trident_py.spouts.files.inventory import Entries, Inventory, Shard, ShardFiles
from trident_py.spouts.files.search import AnyOrder, Found, NameOrder
from trident_py.spouts.files.whole import FileBatch, WholeFileCoordinator, next_files

EXPECTED = FencedError | Killed | FailedException | OSError | SpoutError
"""A leader that was replaced may also miss shards, which the next one has removed."""

Histories = Iterator[tuple[str, World]]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some shards be merged, and others be too large for that; let looks end early."""
    monkeypatch.setattr(inventories, "SHARD_BYTES_MAX", 60)
    monkeypatch.setattr(searches, "LOOK_FILES_MAX", 5)


def length(case: Case) -> int:
    """The number of steps of a leader."""
    return len(Leader(case.world(), case).run().steps)


def finished(world: World, case: Case, *others: Leader) -> World:
    """Let two more leaders run, each with a new object. Note errors that no leader may end with."""
    last = [Leader(world, case, last=name).run() for name in ("y", "z")]
    unexpected = [each for each in others if not isinstance(each.error, EXPECTED | None)]
    world.errors += [repr(each.error) for each in (*last, *unexpected) if each.error is not None]
    return world


def one_crash(case: Case) -> Histories:
    """Kill a leader before each step."""
    for place in range(1, length(case) + 1):
        first = killed(world := case.world(), place, case)
        yield f"killed before step {place}: {first.steps[-1]}", finished(world, case, first)


def one_error(case: Case) -> Histories:
    """Let each step fail; the leader asks again."""
    for place in range(1, length(case) + 1):
        first = Leader(world := case.world(), case, failing=place).run()
        yield f"an error in step {place}: {first.steps[place - 1]}", finished(world, case, first)


def one_pause(case: Case) -> Histories:
    """Pause a leader before each step, and let it continue after the next one has ended."""
    for place in range(1, length(case) + 1):
        first = Leader(case.world(), case, place)
        first.interrupt = partial(meanwhile, first.world, case)
        first.run()
        yield f"paused before step {place}: {first.steps[place - 1]}", finished(first.world, case, first)


def meanwhile(world: World, case: Case, place: int | None = None) -> None:
    """Let another leader run, to its end or until it is killed."""
    if place is None:
        Leader(world, case, last="x").run()
    else:
        killed(world, place, case)


def two_crashes(case: Case, stride: int) -> Histories:
    """Kill a leader, and the next one."""
    for place, other in pairs(case, stride):
        two = [killed(world := case.world(), place, case), killed(world, other, case)]
        yield f"killed before steps {place} and {other}", finished(world, case, *two)


def pause_and_crash(case: Case, stride: int) -> Histories:
    """Pause a leader while the next one lives and is killed."""
    for place, other in pairs(case, stride):
        first = Leader(case.world(), case, place)
        first.interrupt = partial(meanwhile, first.world, case, other)
        first.run()
        yield f"paused before step {place}, the next killed before {other}", finished(first.world, case, first)


def pairs(case: Case, stride: int) -> Iterator[tuple[int, int]]:
    """Where two leaders stop, one after the other."""
    both = product(range(1, length(case) + 1), range(1, length(case) + 1))
    return islice(both, 0, None, stride)


def violation(histories: Histories) -> str:
    """The first history that breaks the promise; empty: none does."""
    return next((f"{what}: {found}" for what, world in histories if (found := world.violations())), "")


def one_leader(case: Case) -> Histories:
    """All histories in which one leader is interrupted."""
    yield from one_crash(case)
    yield from one_error(case)
    yield from one_pause(case)


CASES = {
    "any order": Case(any_order),
    "name order": Case(name_order),
    "strict order": Case(strict_order, arrivals=RISING),
}


@pytest.mark.parametrize("case", CASES)
def test_each_object_counts_once_wherever_one_leader_stops(case: str) -> None:
    assert not violation(one_leader(CASES[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_each_object_counts_once_wherever_two_leaders_stop(case: str) -> None:
    assert not violation(two_crashes(CASES[case], stride=5))
    assert not violation(pause_and_crash(CASES[case], stride=5))


# --- each rule is needed ----------------------------------------------------------------------------------------------


@define
class Recorder:
    """Keeps the file that is written."""

    files: ShardFiles
    new: list[tuple[str, bytes]] = field(factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    def write_new(self, name: str, data: bytes) -> bool:
        self.new.append((name, data))
        return True


class StoredAfterwards(Inventory):
    """A shard is written after the definition that names it."""

    last: Sequence[tuple[str, bytes]] = ()

    def add(self, txid: int, entries: Entries) -> None:
        self.write()
        real, recorder = self.files, Recorder(self.files)
        self.files = recorder
        super().add(txid, entries)
        self.files, self.last = real, recorder.new

    def succeed(self, txid: int) -> None:
        self.write()
        super().succeed(txid)

    def write(self) -> None:
        for name, data in self.last:
            self.files.write_new(name, data)
        self.last = ()


class RemovedAtOnce(Inventory):
    """Merged shards are removed before the batch has succeeded."""

    def add(self, txid: int, entries: Entries) -> None:
        super().add(txid, entries)
        super().succeed(txid)


class NeverRemoved(Inventory):
    """Merged shards stay."""

    def succeed(self, txid: int) -> None:
        pass


class OrphansStay(Inventory):
    """Files of earlier leaders stay."""

    def _orphans(self) -> list[str]:
        return []


class OfNoEpoch(Inventory):
    """A shard has the name of one with the same content that an earlier leader has left."""

    def add(self, txid: int, entries: Entries) -> None:
        self.epoch = 0
        super().add(txid, entries)


class MergedBlindly(Inventory):
    """The entries of merged shards are lost."""

    def add(self, txid: int, entries: Entries) -> None:
        whole = dict(entries)
        super().add(txid, entries)
        *kept, last = self.shards
        data = json.dumps(whole).encode()
        self.files.write_new((new := Shard.of(last.owner, self.epoch, data)).name, data)
        self.shards = [*kept, new]


class ReadsOnly(Inventory):
    """Files that were left out are not stored."""

    def add(self, txid: int, entries: Entries) -> None:
        super().add(txid, {path: mark for path, mark in entries.items() if mark})


class Reversed(Inventory):
    """The newest entries come first."""

    def entries(self) -> Iterator[Entries]:
        return iter([*super().entries()][::-1])


class NotLoaded(AnyOrder):
    """The inventory isn't read."""

    def open(self, where: str, inventory: Inventory, stored: Mapping[str, Json]) -> None:
        pass


class GreatestFound(NameOrder):
    """The greatest name that was found is stored, not the greatest of a batch."""

    @property
    def stored(self) -> dict[str, Json]:
        found = [each.file.path for each in self.pending]
        return {**super().stored, "greatest": max([self._greatest, *found])}


class LateForgotten(NameOrder):
    """That files came late isn't known later."""

    def define(self, files: Sequence[Found]) -> None:
        super().define(files)
        self._has_late = False


class NeverRelists(NameOrder):
    """There are no full looks."""

    def _look_at_all(self, today: float) -> None:
        pass


class LeftOutFirst(NameOrder):
    """Files that are left out overtake others."""

    def _look_at_new(self, today: float) -> None:
        super()._look_at_new(today)
        self.pending = deque(sorted(self.pending, key=lambda each: not each.is_left_out))


class DefinesFirst(WholeFileCoordinator):
    """Files are noted as defined before they are stored."""

    def initialize_transaction(self, txid: int, prev_metadata: Any, curr_metadata: Any) -> FileBatch:
        if curr_metadata is None and (taken := next_files(self.search.pending, self.max_bytes)):
            self.search.define(taken)
            self.inventory.add(txid, {each.file.path: each.mark for each in taken})
            self.search.pending.extendleft(reversed(taken))
        return super().initialize_transaction(txid, prev_metadata, curr_metadata)


MUTANTS = {
    **{
        f"{kind.__name__} in any order": Case(any_order, kind)
        for kind in (StoredAfterwards, RemovedAtOnce, MergedBlindly, ReadsOnly)
    },
    **{
        f"{kind.__name__} in name order": Case(name_order, kind)
        for kind in (StoredAfterwards, RemovedAtOnce, NeverRemoved, OrphansStay, OfNoEpoch, MergedBlindly, Reversed)
    },
    "NotLoaded": Case(partial(any_order, kind=NotLoaded)),
    "LateForgotten": Case(partial(name_order, kind=LateForgotten)),
    "NeverRelists": Case(partial(name_order, kind=NeverRelists)),
    "GreatestFound": Case(partial(strict_order, kind=GreatestFound), arrivals=RISING),
    "LeftOutFirst": Case(partial(strict_order, kind=LeftOutFirst), arrivals=RISING),
    "DefinesFirst": Case(name_order, coordinator=DefinesFirst),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_rule_of_the_inventory_is_needed(mutant: str) -> None:
    assert violation(one_leader(MUTANTS[mutant]))
