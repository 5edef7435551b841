"""Named moments of a driver's run at which it can be killed or stopped; the product knows nothing of them.

They are put around methods of the product before a topology starts, in the test program only.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from attrs import define, field

from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore
from coordinators.driver.driver import CoordinatorDriver
from coordinators.driver.record_writer import RecordWriter
from coordinators.protocol.protocol import EmitBatch, EmitCommit, EmitSuccess
from coordinators.record.parking import ParkedList
from coordinators.record.record import CoordinatorRecord
from tests.faults.journal import Journal
from trident_py.states.sql.shared import SharedLink
from trident_py.states.sql.sqlite_database import SQLiteLink

Action = Callable[..., None]

IN_RECOVERY = ("before_fence", "in_fence", "after_fence", "before_first_write", "after_first_write")
IN_A_BATCH = (
    "batch_emitted",
    "before_merge",
    "after_merge",
    "before_db_commit",
    "after_db_commit",
    "before_record",
    "after_record",
    "commit_emitted",
    "success_emitted",
    "success_delivered",
)
CLOSING = ("before_closing_commit", "after_closing_commit")
"""Of a transaction without input, which closes a window."""

SHARED = ("before_shared_commit", "after_shared_commit")
"""Of the COMMIT that several states and sinks of one database share."""

SQLITE = ("before_sqlite_commit", "after_sqlite_commit")
"""Of each COMMIT in SQLite."""

BESIDE = ("before_beside_commit", "after_beside_commit")
"""Of an output in another store, see `tests.faults.beside`."""

WISHES = ("before_wish", "after_wish")
"""Of the write that carries out what an operator wishes."""

PARKING = ("before_parking", "after_parking", "before_parked", "after_parked")
"""Of the write that decides to park a transaction, and of the one that puts it on the list."""

RELEASING = ("before_released", "after_released")
"""Of the write that closes a release."""

POINTS = IN_RECOVERY + IN_A_BATCH + CLOSING + SHARED + SQLITE + BESIDE + WISHES + PARKING + RELEASING


@define(eq=False)
class Points:
    """Counts how often each moment is reached, and does there what was ordered.

    Attributes:
        orders: by name of the moment, ``crash`` or ``hold`` and the how manyth time.
    """

    journal: Journal
    orders: dict[str, tuple[str, int]] = field(factory=dict)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _carries_out: bool = field(default=False, init=False)
    _parked: ParkedList | None = field(default=None, init=False)

    def order(self, orders: dict[str, list[Any]]) -> None:
        """What is to happen from now on; what was ordered before and has not happened is off."""
        unknown = orders.keys() - set(POINTS)
        assert not unknown, unknown
        with self._lock:
            self.orders = {name: (action, nth) for name, (action, nth) in orders.items()}

    def reach(self, name: str) -> None:
        """This moment is here."""
        with self._lock:
            if name not in self.orders:
                return
            action, nth = self.orders.pop(name)
            if nth > 1:
                self.orders[name] = (action, nth - 1)
                return
            self.journal.tell("fired", point=name, action=action)
        if action == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        # To this thread, so that it doesn't get any further: a signal to the process may be taken by another one.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    def put(self) -> None:
        """Put the moments around the product's methods; those of the state are in `tests.faults.ledger`."""
        announced = {EmitBatch: "batch_emitted", EmitCommit: "commit_emitted", EmitSuccess: "success_emitted"}
        around(CoordinatorDriver, "_announce", after=lambda _, command: self._reach_if(announced.get(type(command))))
        around(
            RecordWriter,
            "write",
            before=lambda *_: self.reach("before_record"),
            after=lambda *_: self.reach("after_record"),
        )
        around(CoordinatorDriver, "_delivered", before=lambda *_: self.reach("success_delivered"))
        around(
            SharedLink,
            "land",
            before=lambda *_: self.reach("before_shared_commit"),
            after=lambda *_: self.reach("after_shared_commit"),
        )
        around(
            SQLiteLink,
            "commit",
            before=lambda *_: self.reach("before_sqlite_commit"),
            after=lambda *_: self.reach("after_sqlite_commit"),
        )
        around(ZooKeeperRecordStore, "write", before=self._before_write, after=self._after_write)

    def _reach_if(self, name: str | None) -> None:
        if name is not None:
            self.reach(name)

    def _before_write(self, store: ZooKeeperRecordStore, record: CoordinatorRecord) -> None:
        if store.writes == 0:
            self.reach("before_first_write")
        self._carries_out = bool(store._carried_out(record))
        if self._carries_out:
            self.reach("before_wish")
        if step := self._step_of(record.parked):
            self.reach(f"before_{step}")

    def _step_of(self, after: ParkedList) -> str:
        """What a write does with parked transactions; nothing known is the first one."""
        before = self._parked or after
        if after.parking != before.parking:
            return "parking" if after.parking else "parked"
        return "released" if len(after.entries) < len(before.entries) else ""

    def _after_write(self, store: ZooKeeperRecordStore, record: CoordinatorRecord) -> None:
        step, self._parked = self._step_of(record.parked), record.parked
        if step:
            self.reach(f"after_{step}")
        if store.writes == 1:
            self.reach("after_first_write")
        if self._carries_out:
            self.reach("after_wish")


def _nothing(*_: Any) -> None:
    pass


def around(owner: type, name: str, before: Action = _nothing, after: Action = _nothing) -> None:
    """Have a method of ``owner`` call ``before`` and ``after`` with what it is called with; not where it raises."""
    method = getattr(owner, name)

    @wraps(method)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        before(*arguments, **named)
        answer = method(*arguments, **named)
        after(*arguments, **named)
        return answer

    setattr(owner, name, wrapper)
