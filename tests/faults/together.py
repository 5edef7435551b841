"""Faults under two states and a sink in one PostgreSQL database: somebody who looks all the time sees them agree.

They are reached by two connection strings that read differently; the server says that it is one database.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import psycopg
from attrs import define, field

from tests.faults.case import GONE, Case
from tests.faults.catalogue import fault, happened
from tests.faults.crashes import crash
from tests.faults.databases import crash_at

LOOK_SECONDS = 0.01
LOOKS_MIN = 50

_SUMS = (
    "SELECT (SELECT coalesce(sum(count), 0) FROM counts), (SELECT coalesce(sum(n), 0) FROM totals), "
    "(SELECT count(*) FROM words)"
)


@define(eq=False)
class Reader:
    """Looks at all tables at once, again and again.

    Attributes:
        looks: how often it did.
        torn: what it saw where they disagreed.
    """

    dsn: str
    looks: int = 0
    torn: list[tuple[int, ...]] = field(factory=list)
    _over: threading.Event = field(factory=threading.Event, init=False)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look for as long as the block takes."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            with suppress(*GONE), psycopg.connect(self.dsn, autocommit=True, connect_timeout=5) as connection:
                while not self._over.wait(LOOK_SECONDS):
                    self._look(connection)
            self._over.wait(LOOK_SECONDS)

    def _look(self, connection: psycopg.Connection[tuple[int, ...]]) -> None:
        [seen] = connection.execute(_SUMS.encode()).fetchall()
        self.looks += 1
        if len(set(seen)) > 1:
            self.torn.append(seen)


def together(case: Case, harm: partial[None]) -> None:
    """Whatever ``harm`` does, the reader sees all of a transaction or none of it."""
    case.together = True
    reader = Reader(case.dsn)
    with reader.looking():
        harm()
        case.drain()
    happened(reader.looks >= LOOKS_MIN, f"somebody looked, {reader.looks} times")
    assert not reader.torn, f"counts, total and rows disagreed: {reader.torn[:5]}"
    [(counted, total, rows)] = case.query(_SUMS)
    assert counted == total == rows > 0


for point in ("before_db_commit", "after_db_commit", "before_shared_commit", "after_shared_commit"):

    @fault(f"together-crash-{point.replace('_', '-')}", fast=point == "after_db_commit")
    def _(case: Case, point: str = point) -> None:
        """A2, A3: the leader dies when one of three has done its part, when all have, and when that is committed."""
        together(case, partial(crash, point, case))


@fault("together-postgres-restarted")
def _(case: Case) -> None:
    """D2: the server crashes when all three have done their part."""
    together(case, partial(crash_at, case, before_shared_commit=["hold", 1]))
