"""A batch is parked, bisected and released while its leader ends at each write of the record, before it or after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from coordinators.driver.record_writer import RecordWriter
from tests.integration.trident_py.test_bisecting import Fails, rows_upto, total, totalled
from tests.integration.trident_py.test_parking import PATIENCE_SECONDS, FromQueue, Queue, config, select
from tests.topologies import until
from trident_py import Count, Max, SQLiteState, TridentQuery, TridentTopology
from trident_py.errors import TridentError
from trident_py.testing import LocalCoordination

BAD = frozenset({2})
LAST = 6
WRITES = 20
"""More than the story has without an end; an opaque spout makes more, by empty batches."""


class Ended(BaseException):
    """The leadership ends here."""


@define
class Writes:
    """Ends the leadership at one of the writes.

    Attributes:
        left: how many writes are done before; None: all.
        is_before: whether that write is not done.
    """

    left: int | None = None
    is_before: bool = True

    def around(self, write: Any) -> Any:
        def wrapped(*arguments: Any, **named: Any) -> None:
            self._count(here=self.is_before)
            write(*arguments, **named)
            self._count(here=not self.is_before)

        return wrapped

    def _count(self, *, here: bool) -> None:
        if not here or self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise Ended


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    found = Writes()
    monkeypatch.setattr(RecordWriter, "write", found.around(RecordWriter.write))
    return found


@define
class Story:
    """An operator, who continues where a leadership has ended."""

    place: Path
    queue: Queue | None
    coordination: LocalCoordination
    done: set[str] = field(factory=set)

    def topology(self) -> TridentTopology:
        made = TridentTopology("story")
        spout = FromQueue(self.queue) if self.queue else rows_upto(LAST, 3)
        stream = made.new_stream("numbers", spout).map(Fails(BAD, self.place / "mended"), "n bigint, kind string")
        total(stream, self.place / "a.db")
        stream.persistent_aggregate(SQLiteState(self.place / "a.db", table="most"), Max("n"), "n")
        stream.persistent_aggregate(SQLiteState(self.place / "b.db", table="counts"), Count(), "n")
        return made

    def lead(self) -> bool:
        """Return whether all was done; false: the leadership has ended before."""
        settings = config(on_poison="park", state_dir=self.place / "state", batch_interval=0.005)
        try:
            with self.topology().start(settings, coordination=self.coordination) as query:
                self._operate(query)
        except (Ended, TridentError, TimeoutError):
            return False
        return True

    def _operate(self, query: TridentQuery) -> None:
        self._settle(query)
        for entry in query.parked():
            self.done |= {"parked", *(["bisected"] if entry.rows == 1 else [])}
            if not (self.place / "mended").exists() and entry.rows != 1:
                query.bisect(entry.txid)
                self.done.add("bisected")
        self._settle(query)
        (self.place / "mended").touch()
        if query.parked():
            query.release()
        self._settle(query)
        assert query.parked() == ()

    def _settle(self, query: TridentQuery) -> None:
        """Wait until nothing is under way; an opaque spout always has one more batch, which may be empty."""
        if self.queue is None:
            query.process_all_available(PATIENCE_SECONDS)
            return
        queue = self.queue
        until(lambda: not query.is_active or self._is_settled(query, queue))
        query.await_termination(0)

    def _is_settled(self, query: TridentQuery, queue: Queue) -> bool:
        parked, is_mended = query.parked(), (self.place / "mended").exists()
        is_listed = not any(each.is_wanted for each in parked) and bool(parked or is_mended)
        return not queue.rows and not any(queue.given.values()) and is_listed


@pytest.mark.slow
@pytest.mark.parametrize(("is_before", "is_opaque"), [(True, False), (False, False), (True, True)])
def test_each_row_counts_once_wherever_a_leadership_ends(
    writes: Writes, tmp_path: Path, is_before: bool, is_opaque: bool
) -> None:
    for number in range(WRITES):
        place = tmp_path / str(number)
        place.mkdir()
        story = Story(place, Queue([*range(1, LAST + 1)]) if is_opaque else None, LocalCoordination())
        writes.left, writes.is_before = number, is_before
        leaderships = 1
        while not story.lead():
            leaderships += 1
            assert leaderships < 6, f"it never ends after an end at write {number}"
        assert story.done >= {"parked", "bisected"}
        assert totalled(place / "a.db") == sum(range(LAST + 1)), f"after an end at write {number}"
        assert select(place / "a.db", "SELECT n FROM most") == [(LAST,)]
        assert select(place / "b.db", "SELECT n FROM counts") == [(LAST,)]
    assert is_opaque or writes.left is not None, "there are more writes"
