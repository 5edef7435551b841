"""A database with a log in memory, whose every step may be the last one of a process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import define, field
from pyspark.sql import types as t

from coordinators.values.canonical import Json
from tests.unit.trident_py.spouts.postgres import messages
from trident_py.spouts.postgres.changes import Position
from trident_py.spouts.postgres.log import ChangeLog, Look, Snapshot
from trident_py.spouts.postgres.rows import Layout, SourceTable

TABLE = "public.orders"
LAYOUT = Layout(
    {TABLE: SourceTable(TABLE, (t.StructField("id", t.IntegerType()), t.StructField("item", t.StringType())))}
)
RELATION = messages.relation(1, "orders", [("id", 23, -1, True), ("item", 25, -1, False)])

Edit = tuple[str, int, str]
"""What happens to a row: the operation, its id, its item."""


class CrashError(BaseException):
    """The process ends here."""


@define
class Steps:
    """Counts the steps of processes, and ends a process after some of them."""

    crash_after: tuple[int, ...] = ()
    done: int = 0

    def step(self) -> None:
        self.done += 1
        if self.done in self.crash_after:
            raise CrashError


@define
class MemoryDatabase:
    """A table, the log of its changes, and slots: by name, the position up to which each was advanced."""

    rows: dict[int, str] = field(factory=dict)
    log: list[tuple[int, list[Edit]]] = field(factory=list)
    slots: dict[str, int] = field(factory=dict)
    lsn: int = 100
    is_lost: bool = False
    identity: dict[str, Json] = field(factory=lambda: {"publication": "1"})

    def commit(self, *edits: Edit) -> None:
        """One transaction."""
        for op, id, item in edits:
            if op == "delete":
                del self.rows[id]
            else:
                assert (id in self.rows) == (op == "update")
                self.rows[id] = item
        self.log.append((self.lsn, list(edits)))
        self.lsn += 10

    def messages(self, after: int) -> Iterator[bytes]:
        for lsn, edits in self.log:
            if lsn >= after:
                yield messages.begin(lsn)
                yield RELATION
                for op, id, item in edits:
                    yield {
                        "insert": messages.insert(1, (str(id), item)),
                        "update": messages.update(1, (str(id), item)),
                        "delete": messages.delete(1, (str(id), None)),
                    }[op]
                yield messages.commit(lsn, lsn + 10)


@define
class MemoryLog(ChangeLog):
    """The log of such a database; before and after each effect the process may end."""

    database: MemoryDatabase
    steps: Steps

    def slots(self) -> Sequence[str]:
        return sorted(self.database.slots)

    def create(self, slot: str, layout: Layout) -> Snapshot:
        self.steps.step()
        self.database.slots[slot] = self.database.lsn
        rows = [(str(id), item) for id, item in sorted(self.database.rows.items())]
        self.steps.step()
        return Snapshot(self.database.lsn, dict(self.database.identity), self._portions(rows))

    def _portions(self, rows: Sequence[Sequence[str | None]]) -> Iterator[tuple[str, Sequence[Sequence[str | None]]]]:
        for number in range(0, len(rows), 2):
            yield TABLE, rows[number : number + 2]
            self.steps.step()

    def drop(self, slot: str) -> None:
        self.steps.step()
        del self.database.slots[slot]
        self.steps.step()

    def look(self, slot: str) -> Look:
        database = self.database
        return Look(database.lsn, database.slots.get(slot), database.is_lost, dict(database.identity))

    def read(self, slot: str) -> Iterator[bytes]:
        return iter(list(self.database.messages(self.database.slots[slot])))

    def advance(self, slot: str, lsn: int) -> None:
        self.steps.step()
        assert Position(lsn) >= Position(self.database.slots[slot])
        self.database.slots[slot] = lsn
        self.steps.step()

    def close(self) -> None:
        """Nothing is open."""
