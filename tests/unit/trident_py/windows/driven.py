"""The state of a window, a join over time or a function with timers, driven as the engine drives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, evolve
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from tests.transactions import begin
from trident_py.graph.aggregation import AnyAggregator
from trident_py.graph.event_time import EventTimeArguments
from trident_py.graph.graph import RowFlow
from trident_py.graph.timed_state import TimedState
from trident_py.graph.timed_updater import VALUES, TimedUpdater
from trident_py.graph.windowing import WindowState, window_state
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import Aggregator
from trident_py.interfaces.sinks import SinkTransaction, TopologyKey, TransactionKey
from trident_py.interfaces.states import FencedState, StateFactory
from trident_py.rows.row import Row, rows_of
from trident_py.rows.schema import arrow_table, schema_of
from trident_py.states.changes import UpdateCollector
from trident_py.states.maps import IBackingMap
from trident_py.states.memory import MemoryMapState
from trident_py.windows.window_store import LocalWindows
from trident_py.windows.windows import SlidingCount, SlidingDuration, TumblingCount, TumblingDuration, Window

TOPOLOGY = TopologyKey("windows", "8d1f", 1)


def directory() -> IBackingMap[Any]:
    raise AssertionError("nothing is started here")


class All(Aggregator[list[Any]]):
    """Emits the window's id and its rows."""

    def init(self, batch_id: Any, collector: TridentCollector) -> list[Any]:
        return [batch_id]

    def aggregate(self, value: list[Any], row: Any, collector: TridentCollector) -> None:
        value.append(tuple(row))

    def complete(self, value: list[Any], collector: TridentCollector) -> None:
        collector.emit((value[0], value[1:]))


def declared(
    window: Window,
    aggregator: AnyAggregator | None = None,
    out: str = "id bigint, rows array<string>",
    *,
    in_fields: str | Sequence[str] = "n",
    keys: tuple[str, ...] = (),
    factory: StateFactory | None = None,
    event_time: EventTimeArguments | None = None,
) -> WindowState:
    factory = factory or LocalWindows("windows", "-".join(["some", *keys]))
    given = event_time or EventTimeArguments()
    return window_state("window", "some", factory, window, keys, bool(keys), in_fields, aggregator or All(), out, given)


@define
class Driver:
    """Commits batches into such a state, as the engine does, at a time of ours."""

    state: FencedState[Any]
    operation: TimedState
    source: StructType
    now: float = 0
    epoch: int = 1
    txid: int = 0

    def commit(self, rows: Sequence[Any], *, attempt: int = 0, again: bool = False) -> list[Any]:
        """One transaction; ``again``: the last one once more."""
        self.txid += not again
        tx = self.transaction(attempt)
        assert begin(self.state, tx)
        emitted = self.change(rows)
        self.state.commit_group()
        return emitted

    def commit_together(self, group: Sequence[tuple[float, Sequence[Any]]]) -> list[list[Any]]:
        """Several transactions in one step, each at its time."""
        self.txid += 1
        first = self.txid
        self.txid += len(group) - 1
        members = [evolve(self.transaction(0, first + number), group_first=first) for number in range(len(group))]
        assert len(self.state.begin_group(members)) == len(group)
        emitted = []
        for tx, (now, rows) in zip(members, group, strict=True):
            self.state.begin_member(tx)
            self.now = now
            emitted.append(self.change(rows))
        self.state.commit_group()
        return emitted

    def fail(self, rows: Sequence[Any], *, attempt: int = 0) -> None:
        """An attempt that is given up in mid-commit."""
        self.txid += 1
        assert begin(self.state, self.transaction(attempt))
        self.change(rows)
        self.state.rollback()
        self.txid -= 1

    def meet(self, fate: str, rows: Sequence[Any], others: Sequence[Any]) -> list[tuple[float, list[Any]]]:
        """A transaction with ``rows`` meets one of `fates`; return its time and what it emits.

        An attempt with ``others`` is given up in mid-commit, or replayed after it with ``rows``; or the process comes
        and goes between both. A group has two transactions, and ``others`` are those of the second.
        """
        if fate == "group":
            times = self.now, self.now + 1
            return list(zip(times, self.commit_together(list(zip(times, (rows, others), strict=True))), strict=True))
        if fate == "fails":
            self.fail(others)
        elif fate != "commits":
            self.commit(others)
        if fate == "crashes":
            self.epoch += 1
            self.state.close()
            self.state.recover(TOPOLOGY, self.epoch)
        return [(self.now, self.commit(rows, attempt=1, again=fate in {"is replayed", "crashes"}))]

    def change(self, rows: Sequence[Any]) -> list[Any]:
        given = arrow_table(rows, self.source).to_batches()
        table = self.operation.on_rows([RowFlow.of(given, self.source, travels=False)], None).table()
        return self.changed([row for batch in table.to_batches() for row in rows_of(batch)])

    def changed(self, rows: Sequence[Row]) -> list[Any]:
        """Change the state by rows as the driver receives them; return what is emitted."""
        collector = UpdateCollector("here", self.outputs)
        self.updater.feed(self.state, rows, round(self.now * 1000), collector)
        return collector.rows

    @property
    def updater(self) -> TimedUpdater:
        return self.operation.updater(self.source)

    @property
    def outputs(self) -> Sequence[str]:
        """The fields of what is emitted."""
        return VALUES if self.operation.times else self.operation.output([self.source]).names

    @property
    def fed(self) -> StructType:
        """The fields of the rows that the driver receives."""
        return self.operation.fields(self.source)

    def transaction(self, attempt: int, txid: int | None = None) -> SinkTransaction:
        number = self.txid if txid is None else txid
        key = TransactionKey(TOPOLOGY.uuid, TOPOLOGY.incarnation, number)
        return SinkTransaction(key, TransactionAttempt(number, attempt), self.epoch)

    def size(self) -> int:
        """How many values are stored."""
        return len(self.state.get_tuples()) if isinstance(self.state, MemoryMapState) else 0


def begun(state: MemoryMapState[Any]) -> MemoryMapState[Any]:
    """A state in its first transaction."""
    state.recover(TOPOLOGY, 1)
    key = TransactionKey(TOPOLOGY.uuid, TOPOLOGY.incarnation, 1)
    assert begin(state, SinkTransaction(key, TransactionAttempt(1, 0), 1))
    return state


@contextmanager
def driven(
    operation: TimedState, schema: str | StructType, directory: Path | None = None, epoch: int = 1
) -> Iterator[Driver]:
    """A driver over SQLite in ``directory``, else over memory."""
    source = schema_of(schema)
    conf = TridentConfig(state_dir=directory) if directory else TridentConfig()
    state: Any = MemoryMapState() if directory is None else operation.typed(source).make_state(conf, Metrics(), 0, 1)
    state.recover(TOPOLOGY, epoch)
    driver = Driver(state, operation, source, epoch=epoch)
    try:
        yield driver
    finally:
        state.close()


fates = st.sampled_from(["commits", "commits", "fails", "is replayed", "crashes", "group"])


def fated(rows: st.SearchStrategy[Any], later: int) -> st.SearchStrategy[list[Any]]:
    """Transactions: their rows, their fates, the rows of other attempts, and the time since the one before."""
    return st.lists(st.tuples(rows, fates, rows, st.integers(0, later)), max_size=10)


windows = st.sampled_from(
    [TumblingCount(3), SlidingCount(7, 2), SlidingCount(4, 3), TumblingDuration(3), SlidingDuration(5, 2)]
)
