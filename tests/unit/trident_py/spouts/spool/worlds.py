"""Leaders of a spool in memory, which are interrupted at any step: killed, or paused while others run.

A step is an operation on a file, a write of the record, or an answer. The oracle is a fold over the record: the rows of
the first commit of each transaction.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from attrs import define, field

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import json_copy
from tests.unit.trident_py.spouts.collecting import emitted
from trident_py.errors import FencedError
from trident_py.spouts.spool.batches import SpoolCoordinator, SpoolEmitter
from trident_py.spouts.spool.records import Received, Record
from trident_py.spouts.spool.spool import Spool, SpoolClosedError, SpoolLimits

LIMITS = SpoolLimits(held_bytes=10_000, dedup_seconds=1_000, file_bytes=330)
SENT = (("a", "b"), ("",), ("c",), ("d", ""), ("b", "e"))
"""The keys of what a client sends, group by group; without a key, it is sent once."""

ALWAYS = ("a", "c")
"""The keys that are sent to each leader, even after an answer of an earlier one."""


class Killed(BaseException):
    """The process is gone."""


@define
class MemoryFiles:
    """Files in memory; what was appended and not flushed is lost in part by a crash."""

    step: Callable[[str], None]
    files: dict[str, bytes] = field(factory=dict)
    unflushed: dict[str, int] = field(factory=dict)
    place: str = "memory"

    def names(self) -> list[str]:
        self.step("list")
        return sorted(self.files)

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        self.step(f"read {name}")
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name][begin:end]

    def write_new(self, name: str, data: bytes) -> bool:
        self.step(f"make {name}")
        if name in self.files:
            return False
        self.files[name] = data
        return True

    def append(self, name: str, data: bytes) -> None:
        self.step(f"append to {name}")
        self.unflushed[name] = len(data)
        self.files[name] += data
        self.step(f"flush {name}")
        self.unflushed.pop(name, None)

    def remove(self, name: str) -> None:
        self.step(f"remove {name}")
        self.files.pop(name, None)

    def close(self) -> None:
        pass

    def tear(self, kept: float) -> None:
        """Lose a part of what wasn't flushed."""
        for name, size in self.unflushed.items():
            lost = size - int(size * kept)
            self.files[name] = self.files[name][: len(self.files[name]) - lost]
        self.unflushed.clear()


@define(eq=False)
class World:
    """What outlives a leader: the files, the record, and what clients know."""

    files: dict[str, bytes] = field(factory=dict)
    epoch: int = 0
    definitions: dict[int, Any] = field(factory=dict)
    cursors: dict[str, Any] = field(factory=dict)
    committed: dict[int, list[str]] = field(factory=dict)
    answered: Counter[str] = field(factory=Counter)
    errors: list[str] = field(factory=list)

    def violations(self) -> list[str]:
        """Which rows count wrongly: a row is the key, or, without one, the number of the send."""
        counts = Counter(row for txid in sorted(self.committed) for row in self.committed[txid])
        lost = [f"{row} was answered, and is lost" for row in self.answered if not counts[row]]
        return self.errors + lost + [f"{row} counts {count} times" for row, count in counts.items() if count > 1]


@define(eq=False)
class Leader:
    """One process: takes over, sends and processes everything.

    Attributes:
        stops_at: the number or the name of the step before which it is interrupted; None: none.
        interrupt: called then; it may raise `Killed`.
        failing: the step of a file that raises an `OSError`.
        make: makes the spool.
    """

    world: World
    stops_at: int | str | None = None
    interrupt: Callable[[], None] = lambda: None
    failing: int | None = None
    make: Callable[..., Spool] = Spool
    epoch: int = field(init=False)
    steps: list[str] = field(factory=list, init=False)
    error: BaseException | None = field(default=None, init=False)
    _files: MemoryFiles = field(init=False)
    _answered: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.world.epoch += 1
        self.epoch = self.world.epoch
        self._files = MemoryFiles(self.step, self.world.files)
        self._answered = frozenset(self.world.answered)

    def step(self, what: str) -> None:
        """Be interrupted before ``what``, if it is its time."""
        self.steps.append(what)
        if self.stops_at in (len(self.steps), what):
            self.stops_at = None
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

    def die(self, kept: float) -> None:
        """End here; ``kept`` of what was appended and not flushed is on the disk."""
        self._files.tear(kept)
        raise Killed

    def _live(self) -> None:
        world = self.world
        spool = self.make(where="test", files=self._files, epoch=self.epoch, limits=LIMITS, clock=lambda: 0.0)
        coordinator = SpoolCoordinator(spool=spool, lag_name="s", bytes_max=260)
        emitter = SpoolEmitter(spool=spool, read=_rows)
        coordinator.restore(dict(world.cursors))
        for txid in range(len(world.committed) + 1, len(world.definitions) + 1):
            coordinator.initialize_transaction(txid, None, world.definitions[txid])
            self._commit(coordinator, emitter, txid)
        for number, keys in enumerate(SENT):
            self._drain(coordinator, emitter, pending=number % 2)
            self._send(spool, number, keys)
        self._drain(coordinator, emitter)
        spool.close()

    def _send(self, spool: Spool, number: int, keys: tuple[str, ...]) -> None:
        keys = tuple(key for key in keys if key in ALWAYS or key not in self._answered)
        rows = [key or f"{self.epoch}.{number}.{place}" for place, key in enumerate(keys)]
        received = [
            Received(key=key or None, digest="", rows=1, content=row.encode())
            for key, row in zip(keys, rows, strict=True)
        ]
        try:
            spool.offer(*received)
        except SpoolClosedError:
            return
        self.step("answer")
        self.world.answered.update(rows)

    def _drain(self, coordinator: SpoolCoordinator, emitter: SpoolEmitter, pending: int = 0) -> None:
        """Define what there is; then commit all but ``pending`` transactions."""
        world = self.world
        while coordinator.is_ready(txid := len(world.definitions) + 1):
            metadata: Any = coordinator.initialize_transaction(txid, None, None)
            self._write(partial(self._store, coordinator, txid, metadata))
            self._emit(emitter, txid)
        for txid in range(len(world.committed) + 1, len(world.definitions) + 1 - pending):
            self._commit(coordinator, emitter, txid)

    def _store(self, coordinator: SpoolCoordinator, txid: int, metadata: Any) -> None:
        self.world.definitions[txid] = json_copy(metadata)
        self.world.cursors |= coordinator.moved(metadata)

    def _emit(self, emitter: SpoolEmitter, txid: int) -> list[str]:
        return [row for (row,) in emitted(emitter, TransactionAttempt(txid, 0), self.world.definitions[txid])]

    def _commit(self, coordinator: SpoolCoordinator, emitter: SpoolEmitter, txid: int) -> None:
        rows = self._emit(emitter, txid)
        self._write(lambda: self.world.committed.setdefault(txid, rows))
        coordinator.success(txid)

    def _write(self, change: Callable[[], object]) -> None:
        """Write the record, which refuses a leader that was replaced."""
        self.step("write the record")
        if self.epoch < self.world.epoch:
            raise FencedError("replaced")
        change()
        self.step("hear of the write")


def _rows(records: Sequence[Record]) -> Iterator[pa.Table]:
    yield pa.table({"row": [record.received.content.decode() for record in records]})


@define(eq=False)
class Beside:
    """A leader on its own thread, which stops where it is interrupted, until it may continue."""

    leader: Leader
    _stopped: threading.Event = field(factory=threading.Event, init=False)
    _goes: threading.Event = field(factory=threading.Event, init=False)
    _thread: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.leader.interrupt = self._stop
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Let it run until it stops, or has ended."""
        self._thread.start()
        self._stopped.wait()

    def finish(self) -> None:
        """Let it continue to its end."""
        self._goes.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _stop(self) -> None:
        self._stopped.set()
        self._goes.wait()

    def _run(self) -> None:
        self.leader.run()
        self._stopped.set()
