"""Two states and a sink in one file commit in one transaction of it: a reader sees all of them agree, at any moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import define, field

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import TransactionAttempt
from tests.unit.trident_py.given import Given
from trident_py.errors import FencedError, StateError, StoreBusyException
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import StateFactory
from trident_py.operations.builtin import Count
from trident_py.participants.participant import Participant, SharedTransactions, SinkParticipant, everything
from trident_py.participants.states import AggregateParticipant
from trident_py.rows.schema import schema_of
from trident_py.sinks.sql.sink import SQLSink
from trident_py.sinks.sql.writer import Prepared
from trident_py.states.memory import MemoryMapState
from trident_py.states.sql.sqlite import SQLiteState

IDENTITY = TopologyIdentity("words", "8d1f", 1)
FIELDS = schema_of("word string, count bigint")


class Killed(BaseException):
    """The process dies here."""


class Stepping(sqlite3.Connection):
    """Dies before or after one of its statements."""

    left: int | None = None

    def execute(self, *given: Any) -> Any:
        self._die()
        found = super().execute(*given)
        try:
            self._die()
        except Killed:
            found.close()  # else SQLite keeps the connection open
            raise
        return found

    def _die(self) -> None:
        if Stepping.left is not None:
            Stepping.left -= 1
            if Stepping.left < 0:
                raise Killed


@define
class World:
    """A database, and the process that leads; as `Commits` uses the participants."""

    path: Path
    epoch: int = 0
    outputs: tuple[Participant, ...] = ()
    transactions: SharedTransactions = field(factory=SharedTransactions)

    def start(self, *outputs: Participant) -> None:
        self.epoch += 1
        self.outputs = outputs or (self.counting("counts"), self.counting("totals"), self.log())
        self.transactions = SharedTransactions()
        for each in everything(self.outputs):
            each.recover(IDENTITY, self.epoch)
        self.transactions.join(self.outputs)

    def counting(
        self, table: str, downstream: Participant | None = None, factory: StateFactory | None = None
    ) -> AggregateParticipant:
        made = (factory or SQLiteState(self.path, table=table)).for_fields(schema_of("word string"), FIELDS.fields[1])
        return AggregateParticipant(
            name=table,
            state=made.make_state(TridentConfig(), Metrics(), 0, 1),
            aggregator=Count(),
            keys=1,
            downstream=partial(self.hand_on, downstream) if downstream else None,
            downstream_outputs=(downstream,) if downstream else (),
        )

    def hand_on(self, output: Participant, tx: SinkTransaction, values: list[Any], _: list[Any]) -> None:
        """As `CommitStream` does."""
        call = partial(output.apply, tx, Given(values, FIELDS))
        call() if self.transactions.is_in(output) else self.transactions.after(call)

    def log(self) -> SinkParticipant:
        sink = SQLSink(f"sqlite:///{self.path}", "log")
        sink.check_fields(FIELDS)
        return SinkParticipant("log", sink)

    def transaction(self, txid: int, attempt: int = 0, first: int | None = None) -> SinkTransaction:
        key = TransactionKey(IDENTITY.uuid, IDENTITY.incarnation, txid)
        return SinkTransaction(key, TransactionAttempt(txid, attempt), self.epoch, group_first=first)

    def commit(self, *txids: int, attempt: int = 0, branches: Sequence[int] | None = None) -> None:
        """One step: each transaction counts a word of its own, and one that all have."""
        group = [self.transaction(txid, attempt, txids[0]) for txid in txids]
        numbers = range(len(self.outputs)) if branches is None else branches
        with self.transactions.committing(numbers, group[-1]):
            for output in (self.outputs[number] for number in numbers):
                output.commit_group([(tx, receipt(output, tx)) for tx in group])

    def fail(self, txid: int) -> None:
        """The same, but the last one raises when all have done their part."""
        tx = self.transaction(txid)
        with self.transactions.committing(range(len(self.outputs)), tx):
            for output in self.outputs:
                output.commit_group([(tx, receipt(output, tx))])
            raise ValueError("no")

    def crash(self) -> None:
        """Nothing is rolled back by us."""
        for each in everything(self.outputs):
            if each.table is not None:
                each.table.commit_link.close()
            each.close()

    def seen(self, *tables: str) -> list[list[tuple[str, int]]]:
        """What a reader sees in one look."""
        with closing(sqlite3.connect(self.path)) as reader:
            reader.execute("BEGIN")
            return [reader.execute(f"SELECT word, count FROM {table} ORDER BY 1, 2").fetchall() for table in tables]  # noqa: S608


def receipt(output: Participant, tx: SinkTransaction) -> Any:
    rows = pa.table({"word": ["all", f"word {tx.txid}"], "count": pa.array([1, 1], pa.int64())})
    return Prepared(rows, staged=False) if isinstance(output, SinkParticipant) else rows


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    Stepping.left = None
    made = World(tmp_path / "words.db")
    yield made
    Stepping.left = None
    made.crash()


def after(txids: int) -> list[tuple[str, int]]:
    return sorted([("all", txids), *((f"word {txid}", 1) for txid in range(1, txids + 1))])


def rows(txids: int) -> list[tuple[str, int]]:
    return sorted([*[("all", 1)] * txids, *((f"word {txid}", 1) for txid in range(1, txids + 1))])


def test_a_reader_never_sees_them_disagree_wherever_a_leader_dies(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Stepping))
    world.start()
    assert world.transactions.together == (frozenset({0, 1, 2}),)
    world.commit(1)
    txid, steps = 2, 0
    while steps < 1_000:
        Stepping.left = steps
        try:
            world.commit(txid, txid + 1)
        except Killed:
            Stepping.left = None
            there = world.seen("counts", "totals", "log")
            assert there in ([after(has), after(has), rows(has)] for has in (txid - 1, txid + 1))
        else:
            break
        world.crash()
        world.start()
        assert len({each.recovered for each in world.outputs}) == 1
        world.commit(txid, attempt=1)
        world.commit(txid + 1, attempt=1)
        assert world.seen("counts", "totals", "log") == [after(txid + 1), after(txid + 1), rows(txid + 1)]
        txid, steps = txid + 2, steps + 1
    assert 20 < steps < 1_000


def test_one_that_raises_rolls_back_all_and_the_next_attempt_commits_all(world: World) -> None:
    world.start()
    world.commit(1)
    with pytest.raises(ValueError, match="no"):
        world.fail(2)
    assert world.seen("counts", "totals", "log") == [after(1), after(1), rows(1)]
    world.commit(2, attempt=1)
    assert world.seen("counts", "totals", "log") == [after(2), after(2), rows(2)]


def test_each_decides_by_its_own_token_where_they_committed_one_by_one_before(world: World) -> None:
    world.start(world.counting("counts"))
    world.commit(1, 2)
    world.crash()
    world.start(world.log())
    world.commit(1)
    world.crash()
    world.start()
    world.commit(1, attempt=1)
    assert world.seen("counts", "totals", "log") == [after(2), after(1), rows(1)]
    world.commit(2, attempt=1)
    world.commit(3)
    assert world.seen("counts", "totals", "log") == [after(3), after(3), rows(3)]


def test_a_leader_that_was_taken_over_by_one_table_commits_to_none(world: World) -> None:
    world.start()
    world.commit(1)
    old = world.outputs
    newer = world.counting("totals")
    newer.recover(IDENTITY, world.epoch + 1)
    with pytest.raises(FencedError):
        world.commit(2)
    assert world.seen("counts", "totals", "log") == [after(1), after(1), rows(1)]
    newer.close()
    assert old == world.outputs


def test_a_state_that_feeds_the_same_database_takes_groups_and_hands_on_within_its_transaction(world: World) -> None:
    fed = world.counting("fed")
    counts, totals = world.counting("counts", downstream=fed), world.counting("totals")
    assert not counts.takes_groups
    world.start(counts, totals)
    assert counts.takes_groups
    assert totals.takes_groups
    world.commit(1, 2)
    assert world.seen("fed") == [[("all", 3), ("word 1", 1), ("word 2", 1)]]
    world.crash()
    world.start(counts, totals)
    world.commit(1, attempt=1)  # torn by another output: skipped, so nothing is handed on
    world.commit(2, attempt=1)
    world.commit(3)
    assert world.seen("counts", "fed") == [after(3), [("all", 6), *((f"word {each}", 1) for each in (1, 2, 3))]]


def test_a_sink_of_a_table_commits_a_group_at_once_also_if_it_is_alone(world: World) -> None:
    log = world.log()
    assert not log.takes_groups
    world.start(log)
    assert log.takes_groups
    world.commit(1)
    with pytest.raises(ValueError, match="no"):
        world.fail(2)
    world.commit(2, 3)
    world.crash()
    world.start(world.log())
    world.commit(2, 3, 4, attempt=1)
    assert world.seen("log") == [rows(4)]


def test_what_is_fed_elsewhere_is_written_once_the_transaction_is_committed(world: World) -> None:
    seen: list[Any] = []
    elsewhere = world.counting("elsewhere", factory=MemoryMapState.factory())
    counts = world.counting("counts", downstream=elsewhere)
    world.start(counts, world.counting("totals"))
    apply = elsewhere.apply

    def looking(tx: SinkTransaction, rows: Any) -> None:
        seen.append(world.seen("counts", "totals"))
        apply(tx, rows)

    elsewhere.apply = looking  # type: ignore[method-assign]
    world.commit(1)
    assert seen == [[after(1), after(1)]]
    assert not counts.takes_groups
    with pytest.raises(ValueError, match="no"):
        world.fail(2)
    assert len(seen) == 1


def test_branches_that_feed_one_database_are_one_step_whatever_they_are_themselves(
    world: World, tmp_path: Path
) -> None:
    fed = world.counting("fed")
    cache = world.counting("cache", downstream=fed, factory=MemoryMapState.factory())
    other = World(tmp_path / "other.db").counting("alone")
    world.start(cache, other, world.counting("totals"))
    assert world.transactions.together == (frozenset({0, 2}),)
    assert not cache.takes_groups
    world.commit(1, branches=(0, 2))
    assert world.seen("fed", "totals") == [after(1), after(1)]


def test_one_file_by_two_names_is_one_database(world: World, tmp_path: Path) -> None:
    world.path.touch()
    (tmp_path / "link.db").symlink_to(world.path)
    world.start(world.counting("counts"), World(tmp_path / "link.db").counting("totals"))
    assert world.transactions.together == (frozenset({0, 1}),)
    world.commit(1)
    assert world.seen("counts", "totals") == [after(1), after(1)]


def test_the_thread_that_commits_reads_what_the_transaction_has_and_others_what_is_committed(world: World) -> None:
    world.start(world.counting("counts"), world.counting("totals"))
    counts: Any = world.outputs[0]
    tx = world.transaction(1)
    with world.transactions.committing((0, 1), tx):
        counts.commit_group([(tx, receipt(counts, tx))])
        assert counts.state.multi_get([["all"]]) == [1]
        assert sorted(counts.state.get_tuples()) == after(1)
        assert world.seen("counts") == [[]]
    assert counts.state.multi_get([["all"]]) == [1]


def test_a_database_that_lost_what_it_confirmed_is_found_out(world: World) -> None:
    world.start()
    world.commit(1)
    with closing(sqlite3.connect(world.path)) as other:
        other.execute("UPDATE _trident SET txid = NULL WHERE state = 'totals'")
        other.commit()
    with pytest.raises(StateError, match=r"'totals' .*lost commits"):
        world.commit(2)


def test_whoever_holds_the_database_makes_the_commit_wait_and_then_fail(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.states.sql.sqlite_database.BUSY_SECONDS", 0.01)
    world.start()
    with closing(sqlite3.connect(world.path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyException):
            world.commit(1)
    world.commit(1, attempt=1)
    assert world.seen("counts", "totals", "log") == [after(1), after(1), rows(1)]
