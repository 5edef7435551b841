"""Leaders of a spout over objects in memory, which are interrupted at any step: killed, or paused while others run.

A step is a listing, an operation on the inventory's files, or a write of the record. The oracle is a fold over the
record: each object is read by one definition, or left out by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from attrs import define, field, frozen

from coordinators.values.canonical import json_copy
from tests.unit.trident_py.spouts.spool.worlds import Killed, MemoryFiles
from trident_py.errors import FailedException, FencedError
from trident_py.spouts.files.inventory import Inventory
from trident_py.spouts.files.places import Place, WholeFile
from trident_py.spouts.files.search import AnyOrder, NameOrder, Search
from trident_py.spouts.files.whole import WholeFileCoordinator

T = TypeVar("T")

MAX_AGE_SECONDS, RELIST_SECONDS = 100.0, 2.0

STEPS_MAX = 500

NEW, OLD = 0, -1000
"""When an object was written, before the look that may find it, in seconds."""

ARRIVALS: tuple[Mapping[str, int], ...] = (
    {"c": NEW, "d": OLD, "e": NEW, "f": NEW, "g": NEW},
    {"h": NEW, "a": NEW, "b": OLD},
    {"i": OLD, "j": OLD},
    {"k": NEW, "cc": NEW, "l": NEW, "m": OLD},
    {},
)
"""The objects that appear, phase by phase. Some come below greater names."""

RISING: tuple[Mapping[str, int], ...] = (
    {"a": NEW, "b": NEW, "c": NEW, "d": OLD, "e": NEW},
    {"f": NEW, "g": NEW, "h": OLD, "i": OLD, "j": NEW},
    {"k": OLD},
    {"l": NEW, "m": OLD},
)
"""The same, and the names rise."""


@define
class Bucket(Place):
    """Objects in memory, of one byte each."""

    objects: dict[str, float]
    step: Callable[[str], None] = lambda what: None

    @property
    def text(self) -> str:
        return "*"

    def find(self, after: str = "") -> Iterator[WholeFile]:
        self.step(f"list after {after!r}")
        for name in sorted(self.objects):
            if name > after:
                yield WholeFile(name, 1, f"tag of {name}", round(self.objects[name] * 1e9))

    def open(self, file: WholeFile) -> pa.NativeFile:
        raise NotImplementedError

    def check(self, file: WholeFile) -> None:
        raise NotImplementedError


def name_order(place: Place, kind: type[NameOrder] = NameOrder) -> NameOrder:
    """Return the search in the order of names, which reads what comes late."""
    return kind(place=place, max_age=MAX_AGE_SECONDS, relist=RELIST_SECONDS, reads_late=True)


def strict_order(place: Place, kind: type[NameOrder] = NameOrder) -> NameOrder:
    """Return the search in the order of names, which stops at what comes late."""
    return kind(place=place, max_age=MAX_AGE_SECONDS, relist=RELIST_SECONDS, reads_late=False)


def any_order(place: Place, kind: type[AnyOrder] = AnyOrder) -> AnyOrder:
    """Return the search in any order."""
    return kind(place=place, max_age=MAX_AGE_SECONDS, settled=0)


@define(eq=False)
class World:
    """The objects, the inventory's files and the record, which outlive a leader.

    Attributes:
        arrived: every object that there ever was.
        phase: how many ``arrivals`` have come.
    """

    arrivals: Sequence[Mapping[str, int]]
    objects: dict[str, float] = field(factory=dict)
    arrived: set[str] = field(factory=set)
    phase: int = 0
    files: dict[str, bytes] = field(factory=dict)
    epoch: int = 0
    definitions: dict[int, Any] = field(factory=dict)
    cursors: dict[str, Any] = field(factory=dict)
    committed: int = 0
    errors: list[str] = field(factory=list)

    @property
    def today(self) -> float:
        """The time; a phase is longer than `RELIST_SECONDS`."""
        return 10_000 + 3.0 * self.phase

    def arrive(self, arriving: Mapping[str, int]) -> None:
        """Let objects appear; one that was read before goes."""
        self.phase += 1
        self.objects |= {name: self.today + age for name, age in arriving.items()}
        self.arrived |= arriving.keys()
        if "e" in self.read:
            self.objects.pop("e", None)

    @property
    def read(self) -> Counter[str]:
        """How often each object counts."""
        return Counter(path for each in self.definitions.values() for path, *_ in each["files"])

    def violations(self) -> list[str]:
        """The objects that count wrongly, and the files of the inventory that nothing needs."""
        read, left_out = self.read, sum(each["left_out"][0] for each in self.definitions.values() if each["left_out"])
        old = {name for arriving in self.arrivals for name, age in arriving.items() if age == OLD}
        found = [f"{name} counts {read[name]} times" for name in sorted(self.arrived - old) if read[name] != 1]
        found += [f"{name} was left out, and is read" for name in sorted(old) if read[name]]
        if not left_out == self.cursors["left_out"] == len(old):
            found.append(f"{left_out} are left out, {self.cursors['left_out']} in all, and there are {len(old)}")
        needed = {name for name, _ in self.cursors["shards"]}
        owner = min(needed).partition("-")[0]  # a crash before the first definition leaves files of another one
        left = (name for name in sorted(self.files) if name.startswith(owner) and name not in needed)
        return self.errors + found + [f"{name} is left over" for name in left]


@frozen
class Case:
    """How a spout looks for objects, and which ones appear."""

    search: Callable[[Place], Search]
    inventory: type[Inventory] = Inventory
    coordinator: type[WholeFileCoordinator] = WholeFileCoordinator
    arrivals: Sequence[Mapping[str, int]] = ARRIVALS

    def made(self, place: Bucket, files: MemoryFiles, epoch: int, today: Callable[[], float]) -> WholeFileCoordinator:
        """Return the coordinator of a leader."""
        shards = self.inventory(where="test", files=files, epoch=epoch)
        return self.coordinator(search=self.search(place), inventory=shards, max_bytes=2, today=today)

    def world(self) -> World:
        """Return an empty one."""
        return World(self.arrivals)


@define(eq=False)
class Leader:
    """One process: takes over, and defines everything.

    Attributes:
        stops_at: the number of the step before which it is interrupted; None: none.
        interrupt: called then; it may raise `Killed`.
        failing: the number of the step that raises an `OSError`.
        last: the name of an object that appears at the end.
    """

    world: World
    case: Case
    stops_at: int | None = None
    interrupt: Callable[[], None] = lambda: None
    failing: int | None = None
    last: str = ""
    epoch: int = field(init=False)
    steps: list[str] = field(factory=list, init=False)
    error: BaseException | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.world.epoch += 1
        self.epoch = self.world.epoch

    def step(self, what: str) -> None:
        """Be interrupted before ``what``, if it is its time."""
        self.steps.append(what)
        if len(self.steps) > STEPS_MAX:
            raise RuntimeError("it doesn't end")
        if self.stops_at == len(self.steps):
            self.interrupt()
        if self.failing == len(self.steps):
            raise OSError(f"{what} fails")

    def run(self) -> Leader:
        """Live until the end, or until it is killed or replaced."""
        try:
            self._live()
        except BaseException as error:  # noqa: BLE001 - the tests look at it
            self.error = error
        return self

    def _live(self) -> None:
        world = self.world
        place, files = Bucket(world.objects, self.step), MemoryFiles(self.step, world.files)
        coordinator = self.case.made(place, files, self.epoch, lambda: world.today)
        cursors: Any = json_copy(world.cursors)
        coordinator.restore(cursors)
        for txid in range(world.committed + 1, len(world.definitions) + 1):
            coordinator.initialize_transaction(txid, None, world.definitions[txid])
        while world.phase < len(world.arrivals):
            world.arrive(world.arrivals[world.phase])
            self._drain(coordinator, pending=world.phase % 2)
        if self.last:
            world.arrive({self.last: NEW})
        self._drain(coordinator)

    def _drain(self, coordinator: WholeFileCoordinator, pending: int = 0) -> None:
        """Define all objects; then commit all but ``pending`` transactions."""
        world = self.world
        while self._patiently(lambda: coordinator.is_ready(len(world.definitions) + 1)):
            txid = len(world.definitions) + 1
            metadata = self._patiently(partial(coordinator.initialize_transaction, txid, None, None))
            self._write(partial(self._store, coordinator, txid, metadata))
        for txid in range(world.committed + 1, len(world.definitions) + 1 - pending):
            self._write(partial(self._commit, txid))
            coordinator.success(txid)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again if the source fails, as the driver does."""
        try:
            return ask()
        except (FailedException, OSError):
            return ask()

    def _store(self, coordinator: WholeFileCoordinator, txid: int, metadata: Any) -> None:
        self.world.definitions[txid] = json_copy(metadata)
        moved: Any = json_copy(dict(coordinator.moved(metadata)))
        self.world.cursors |= moved

    def _commit(self, txid: int) -> None:
        self.world.committed = txid

    def _write(self, change: Callable[[], object]) -> None:
        """Write the record, which refuses a leader that was replaced."""
        self.step("write the record")
        if self.epoch < self.world.epoch:
            raise FencedError("replaced")
        change()
        self.step("hear of the write")


def killed(world: World, place: int, case: Case) -> Leader:
    """Run a leader that is killed before a step."""
    leader = Leader(world, case, place)

    def die() -> None:
        raise Killed

    leader.interrupt = die
    return leader.run()
