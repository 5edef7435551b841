"""States as participants: how the change of a batch is applied to each kind of state, under the transaction's token."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
from attrs import define, field
from pyspark.sql import DataFrame

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken, TransactionAttempt
from coordinators.values.error_text import error_text
from trident_py.errors import StateError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import (
    FencedState,
    GroupState,
    MapState,
    RemovableMapState,
    Snapshottable,
    State,
    StateUpdater,
    ValueUpdater,
    combiner_updater,
    reducer_updater,
)
from trident_py.participants.participant import (
    Collect,
    Columns,
    CommitRows,
    Downstream,
    Participant,
    Rows,
    earliest,
)
from trident_py.participants.portions import in_key_order, portions
from trident_py.rows.row import column_values, row_class
from trident_py.rows.schema import shown
from trident_py.states.keys import encode_key
from trident_py.states.maps import SnapshottableMap
from trident_py.states.shards import PartitionedState, gathered, shards_of, spread
from trident_py.states.sql.fenced_table import FencedTable
from trident_py.worker.counters import working_for

log = logging.getLogger(__name__)


@define(kw_only=True)
class StateParticipant(Participant):
    """A state and what a batch does to it.

    Attributes:
        downstream: what is done with the new values; None where nobody wants them.
        downstream_outputs: what the new values go into.
    """

    name: str
    state: State
    downstream: Downstream | None = None
    downstream_outputs: tuple[Participant, ...] = ()
    prepares_again = True
    _abandoned: bool = field(default=False, init=False)

    @property
    def keeps_alive(self) -> bool:  # type: ignore[override]
        """A fenced state is one of ours; what follows new values may be a user's."""
        committing = [output for output in self.downstream_outputs if output.commits]
        return isinstance(self.state, FencedState) and all(output.keeps_alive for output in committing)

    @property
    def is_fenced(self) -> bool:  # type: ignore[override]
        """A user's state has no fence; new values are written within the same commit."""
        return isinstance(self.state, FencedState) and all(output.is_fenced for output in self.downstream_outputs)

    @property
    def remembers(self) -> bool:  # type: ignore[override]
        """A user's state has no token to remember by."""
        return isinstance(self.state, FencedState) and not self.state.volatile

    @property
    def is_volatile(self) -> bool:  # type: ignore[override]
        """As the state says."""
        return isinstance(self.state, FencedState) and self.state.volatile

    @property
    def takes_groups(self) -> bool:  # type: ignore[override]
        """Whether several transactions may commit at once.

        One that is skipped has no new values to hand on: so only where all that they go into skips it, too, as it
        commits in the same transaction of a database.
        """
        return isinstance(self.state, GroupState) and (self.downstream is None or self._hands_on_within)

    @property
    def _hands_on_within(self) -> bool:
        outputs = self.downstream_outputs
        return (
            bool(outputs)
            and self.shared is not None
            and all(output.shared is self.shared and output.takes_groups for output in outputs)
        )

    @property
    def table(self) -> FencedTable | None:  # type: ignore[override]
        """The state's, if it is in a database."""
        return self.state if isinstance(self.state, FencedTable) else None

    @property
    def next_window_at(self) -> int | None:  # type: ignore[override]
        """That of the windows that the new values go into."""
        return earliest(output.next_window_at for output in self.downstream_outputs)

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        self.recovered = self.state.recover(topology, epoch) if isinstance(self.state, FencedState) else None
        return self.recovered

    def pass_over(self, topology: TopologyIdentity, epoch: int, txids: range) -> None:
        """Commit these without any change, instead of what it has of the first; in one step if it takes several."""
        keys = [TransactionKey(topology.uuid, topology.incarnation, txid) for txid in txids]
        missing = [SinkTransaction(key, TransactionAttempt(key.txid, 0), epoch) for key in keys]
        if isinstance(self.state, GroupState):
            with _rolled_back(self.state):
                for tx in self.state.begin_group(missing):
                    self.state.begin_member(tx)
                self.state.commit_group()
            return
        for tx in missing:
            with self._transaction(tx):
                pass

    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> pa.Table:
        """Run the job; the change stays in the driver's memory until it is committed or given up."""
        return collect(frame)

    def receipt_rows(self, receipt: Any) -> int | None:
        """Count the rows of the change; of an aggregation, that is the keys of the batch."""
        return receipt.num_rows if isinstance(receipt, pa.Table) else None

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        """Apply the changes one by one, each as its own transaction, in one atomic step; then hand new values on."""
        if not isinstance(self.state, GroupState):
            for tx, receipt in group:
                working_for(tx.attempt)
                self._applied(tx, partial(self._prepared_change, tx, receipt))
            return
        receipts, state, changes = dict(group), self.state, dict[SinkTransaction, tuple[Rows, Rows]]()
        with _rolled_back(state):
            due = state.begin_group(list(receipts))
            for tx in due:
                state.begin_member(tx)
                working_for(tx.attempt)
                changes[tx] = self._with_rolled_back(self._prepared_change(tx, receipts[tx]))
            if due:
                self._ensure_wanted()
                state.commit_group()
        if self.downstream is not None:
            for tx in due:
                working_for(tx.attempt)
                self.downstream(tx, *changes[tx])

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        """Apply the change that comes from another state's new values."""
        self._applied(tx, lambda: self._prepared_change(tx, rows.table()))

    def _applied(self, tx: SinkTransaction, change: Callable[[], list[tuple[Any, ...]]]) -> None:
        changes: tuple[Rows, Rows] = [], []
        with self._transaction(tx) as due:
            if due:
                changes = self._with_rolled_back(change())
        if self.downstream is not None:
            self.downstream(tx, *changes)

    def _prepared_change(self, tx: SinkTransaction, receipt: Any) -> list[tuple[Any, ...]]:
        return self._change(tx, [column_values(column) for column in receipt.columns])

    def _with_rolled_back(self, values: Rows) -> tuple[Rows, Rows]:
        """Add the values of keys that only an older attempt of the open transaction had changed."""
        return values, ()

    def check(self) -> None:
        """Look at the state that the factory has made.

        Raises:
            StateError: it is none of the kind that is needed.
        """

    def abandon(self) -> None:
        """Write nothing more, although no newer leader may have raised the fence yet."""
        self._abandoned = True
        for output in self.downstream_outputs:
            output.abandon()

    def close(self) -> None:
        """Close what is ours to close."""
        if isinstance(self.state, FencedState):
            self.state.close()
        for output in self.downstream_outputs:
            output.close()

    @abstractmethod
    def _change(self, tx: SinkTransaction, columns: Columns) -> list[tuple[Any, ...]]:
        """Apply the change to the state; returns the new values, if anybody wants them."""

    @contextmanager
    def _transaction(self, tx: SinkTransaction) -> Iterator[bool]:
        state = self.state
        if not isinstance(state, FencedState):
            self._ensure_wanted()
            state.begin_commit(tx.txid)
            yield True
            self._ensure_wanted()
            state.commit(tx.txid)
            return
        with _rolled_back(state):
            due = state.begin_transaction(tx)
            yield due
            if due:
                self._ensure_wanted()
                state.end_transaction(tx)

    def _ensure_wanted(self) -> None:
        if self._abandoned:
            raise StateError(
                f"state {self.name!r} was left behind when its topology ended; nothing is written any more",
                state=self.name,
            )


@contextmanager
def _rolled_back(state: FencedState[Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        state.rollback()
        raise


@define(kw_only=True)
class AggregateParticipant(StateParticipant):
    """``persistent_aggregate``: one value per key, or one in all.

    Attributes:
        keys: how many key columns the change has; 0: not grouped.
        inputs: the fields of the rows that a reducer sees.
    """

    aggregator: CombinerAggregator[Any] | ReducerAggregator[Any]
    keys: int
    inputs: Sequence[str] = ()

    def check(self) -> None:
        """Check that the state has values by key, or the one that is needed."""
        wanted = MapState if self.keys else Snapshottable | MapState
        for shard in shards_of(self.state):
            if not isinstance(shard, wanted):
                names = "a MapState" if self.keys else "a Snapshottable or MapState"
                raise StateError(f"persistent_aggregate needs {names}, its factory made {shown(shard)}")

    def _prepared_change(self, tx: SinkTransaction, receipt: Any) -> list[tuple[Any, ...]]:
        whole = (
            self.downstream
            or not isinstance(self.state, FencedState)
            or not isinstance(self.aggregator, CombinerAggregator)
        )
        if whole:  # new values go on in an order that doesn't depend on how the change was made
            return super()._prepared_change(tx, in_key_order(receipt, self.keys) if self.downstream else receipt)
        for portion in portions(receipt, self.keys):
            values = super()._prepared_change(tx, portion)
        return values

    def _change(self, tx: SinkTransaction, columns: Columns) -> list[tuple[Any, ...]]:
        keys: list[tuple[Any, ...]] = list(zip(*columns[: self.keys], strict=True))
        if self.keys == 0:
            keys = [()] * len(columns[0])
        state, aggregator = self.state, self.aggregator
        if isinstance(state, FencedState) and isinstance(aggregator, CombinerAggregator):
            state.multi_merge(keys, columns[self.keys], aggregator)
            return self._with_keys(keys, state.multi_get(keys)) if self.downstream else []
        if isinstance(aggregator, CombinerAggregator):
            updaters = [combiner_updater(aggregator, partial) for partial in columns[self.keys]]
        else:
            keys, updaters = self._reductions(keys, columns[self.keys :], aggregator)
        return self._with_keys(keys, self._update(keys, updaters))

    def _reductions(
        self, keys: list[tuple[Any, ...]], inputs: Columns, aggregator: ReducerAggregator[Any]
    ) -> tuple[list[tuple[Any, ...]], list[ValueUpdater[Any]]]:
        rows = map(row_class(tuple(self.inputs))._make, zip(*inputs, strict=True))
        groups: dict[str, tuple[tuple[Any, ...], list[Any]]] = {}
        for key, row in zip(keys, rows, strict=True):
            groups.setdefault(encode_key(key), (key, []))[1].append(row)
        found = list(groups.values())
        return [key for key, _ in found], [reducer_updater(aggregator, group) for _, group in found]

    def _update(self, keys: list[tuple[Any, ...]], updaters: list[ValueUpdater[Any]]) -> list[Any]:
        if not isinstance(self.state, PartitionedState):
            return self._update_shard(self.state, keys, updaters) if keys else []
        found = [
            (
                positions,
                self._update_shard(shard, [keys[each] for each in positions], [updaters[each] for each in positions]),
            )
            for shard, positions in spread(self.state, keys)
            if positions
        ]
        return gathered(found, len(keys))

    def _update_shard(self, shard: State, keys: list[tuple[Any, ...]], updaters: list[ValueUpdater[Any]]) -> list[Any]:
        kept_in = shard.state if isinstance(shard, SnapshottableMap) else shard
        if not isinstance(kept_in, RemovableMapState):
            updaters = [partial(self._value, shard, updater) for updater in updaters]
        if isinstance(shard, Snapshottable) and self.keys == 0:
            return [shard.update(updater) for updater in updaters]
        if isinstance(shard, MapState):
            return shard.multi_update([list(key) for key in keys], updaters)
        raise AssertionError(f"state {self.name!r} was not checked")

    def _value(self, shard: State, updater: ValueUpdater[Any], stored: Any) -> Any:
        """Return the new value for a state that can't remove a key."""
        value = updater(stored)
        if value is REMOVE:
            raise StateError(
                f"state {self.name!r}: {type(self.aggregator).__name__} returned REMOVE, and {type(shard).__name__} "
                f"can't remove a key; only a RemovableMapState can",
                state=self.name,
            )
        return value

    def _with_rolled_back(self, values: Rows) -> tuple[Rows, Rows]:
        state = self.state
        if not isinstance(state, GroupState) or not (rolled_back := state.rolled_back):
            return values, ()
        changed = {encode_key(row[: self.keys]) for row in values}
        keys = [tuple(key) for key in rolled_back if encode_key(key) not in changed]
        return values, self._with_keys(keys, state.multi_get(keys))

    def _with_keys(self, keys: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(*key, value) for key, value in zip(keys, values, strict=True)]


@define
class UpdateCollector(TridentCollector):
    """Takes the new values that a state updater emits."""

    where: str
    fields: Sequence[str]
    rows: list[tuple[Any, ...]] = field(factory=list)

    def emit(self, row: Sequence[Any]) -> None:
        """Emit one row of the updater's output fields."""
        if not isinstance(row, tuple | list):
            raise TypeError(f"{self.where}: emitted {row!r}; emit a tuple, list or Row")
        if len(row) != len(self.fields):
            raise ValueError(f"{self.where}: emitted {row!r} for the {len(self.fields)} fields {list(self.fields)}")
        self.rows.append(tuple(row))

    def report_error(self, error: BaseException) -> None:
        """Log ``error``; the attempt goes on."""
        log.error("%s: reported %s", self.where, error_text(error))


@define(kw_only=True)
class UpdateParticipant(StateParticipant):
    """``partition_persist``: a user's updater over the rows of the batch, also if there are none.

    Attributes:
        inputs: the fields of the rows that the updater sees.
        outputs: the fields of what it emits.
        places: positions of the inputs that say which part of the state a row is for.
    """

    updater: StateUpdater[Any]
    inputs: Sequence[str]
    outputs: Sequence[str] = ()
    places: Sequence[int] = ()

    def _change(self, tx: SinkTransaction, columns: Columns) -> list[tuple[Any, ...]]:
        collector = UpdateCollector(f"state {self.name!r}, attempt {tx.attempt}", self.outputs)
        rows = list(map(row_class(tuple(self.inputs))._make, zip(*columns, strict=True)))
        if not isinstance(self.state, PartitionedState):
            self.updater.update_state(self.state, rows, collector)
            return collector.rows
        keys = [[row[place] for place in self.places] for row in rows]
        for shard, positions in spread(self.state, keys):
            self.updater.update_state(shard, [rows[each] for each in positions], collector)
        return collector.rows
