"""States as participants: they apply a batch's change to each kind of state under the transaction's token.

The change comes from an aggregation, from a user's updater, or from tasks that have staged it.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from attrs import define, field, frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken, TransactionAttempt
from trident_py.errors import StateError
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import (
    GroupState,
    Key,
    StagingState,
    State,
    StateUpdater,
    ValueUpdater,
)
from trident_py.participants.capabilities import Capabilities
from trident_py.participants.participant import (
    Collect,
    CommitRows,
    Downstream,
    Participant,
    Rows,
)
from trident_py.rows.row import column_values, columns_in
from trident_py.states.changes import Aggregated, Updated
from trident_py.states.keys import encode_key, encode_keys, keys_of
from trident_py.states.shards import shards_of
from trident_py.states.sql.fenced_table import FencedTable
from trident_py.states.sql.staging import reported_rows
from trident_py.states.unfenced import check_values, group_state
from trident_py.worker.counters import working_for, working_for_all

log = logging.getLogger(__name__)


PORTION_ROWS = 4 * 1024
"""Rows of a change that are Python objects at one time.

A million keys take 300 MiB, and collecting such garbage takes as long as writing the keys. 43 000 keys take 245 ms at
once, and 245, 210 and 165 ms in portions of 64 Ki, 16 Ki and 4 Ki.
"""


def portions(change: pa.Table, keys: int) -> list[pa.Table]:
    """Cut ``change`` into pieces of some rows, in the order of the first ``keys`` columns, if Arrow compares them.

    Neighbouring keys share a store's pages: a table that is larger than its cache is written twice as fast in this
    order.
    """
    if change.num_rows <= PORTION_ROWS:
        return [change]
    ordered = _sorted(change, keys) if _compares(change, keys) else change
    return [ordered.slice(first, PORTION_ROWS) for first in range(0, ordered.num_rows, PORTION_ROWS)]


def in_key_order(change: pa.Table, keys: int) -> pa.Table:
    """Return the rows in the order of their keys; rows of one key keep their order; without keys, nothing changes.

    Keys that Arrow can't compare are sorted by their text.
    """
    if _compares(change, keys):
        return _sorted(change, keys) if keys else change
    texts = encode_keys(list(zip(*map(column_values, change.columns[:keys]), strict=True)))
    return change.take(pa.array(sorted(range(len(texts)), key=texts.__getitem__), pa.int64()))


def _compares(change: pa.Table, keys: int) -> bool:
    return not any(pa.types.is_nested(kind) for kind in change.schema.types[:keys])


def _sorted(change: pa.Table, keys: int) -> pa.Table:
    numbered = change.rename_columns([str(number) for number in range(change.num_columns)])
    return numbered.sort_by([(str(number), "ascending") for number in range(keys)])


def _replaced(value: object, _: object) -> object:
    return value


@define(kw_only=True)
class StateParticipant(Participant):
    """A state, and the effect of a batch on it.

    Attributes:
        downstream: the consumer of the new values; None if there is no consumer.
        downstream_outputs: the outputs that receive the new values.
        prepares_again: whether ``prepare`` may be called again for an attempt after it has raised.
    """

    prepares_again: ClassVar[bool] = True

    name: str
    state: State
    downstream: Downstream | None = None
    downstream_outputs: tuple[Participant, ...] = ()
    capabilities: Capabilities = field(init=False)
    table: FencedTable | None = field(init=False)
    _commits: GroupState[Any] = field(init=False)
    _is_abandoned: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._commits = kept = group_state(self.state)
        self.table = kept if isinstance(kept, FencedTable) else None
        takes_groups = kept.is_fenced and kept.takes_groups
        own = Capabilities(
            remembers=kept.is_fenced and not kept.volatile,
            rolls_back=kept.is_fenced,
            is_volatile=kept.volatile,
            keeps_alive=kept.is_fenced,
            is_fenced=kept.is_fenced,
            takes_groups=takes_groups and self.downstream is None,
            takes_groups_shared=takes_groups and (self.downstream is None or bool(self.downstream_outputs)),
            prepares_again=self.prepares_again,
        )
        self.capabilities = own.committing_with(output.capabilities for output in self.downstream_outputs)
        for output in self.downstream_outputs:
            output.is_told = kept.can_tell_rolled_back

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        self.recovered = self._commits.recover(topology, epoch)
        return self.recovered

    def pass_over(self, topology: TopologyIdentity, epoch: int, txids: range) -> None:
        """Commit these transactions without changes, and undo its change of the first; one step if it takes groups."""
        keys = [TransactionKey(topology.uuid, topology.incarnation, txid) for txid in txids]
        with self._rolled_back():
            for tx in self._commits.begin_group(
                [SinkTransaction(key, TransactionAttempt(key.txid, 0), epoch) for key in keys]
            ):
                self._commits.begin_member(tx)
            self._commits.commit_group()

    def load(self, tx: SinkTransaction, rows: Sequence[tuple[Key, object]]) -> None:
        """Commit these keys and values as the changes of ``tx``; those of an earlier attempt of it are rolled back."""
        with self._rolled_back():
            for each in self._commits.begin_group([tx]):
                self._commits.begin_member(each)
                self._commits.multi_update([key for key, _ in rows], [partial(_replaced, value) for _, value in rows])
                self._commits.commit_group()

    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> pa.Table:
        """Run the job; the change stays in the driver's memory until it is committed or aborted."""
        return collect(frame)

    def receipt_rows(self, receipt: Any) -> int | None:
        """Return the number of rows of the change; for an aggregation, the keys of the batch."""
        return receipt.num_rows if isinstance(receipt, pa.Table) else None

    def commit_group(self, group: Sequence[tuple[SinkTransaction, Any]]) -> None:
        """Apply the changes, each as its own transaction, in one atomic step; then pass on the new values."""
        receipts, changes = dict(group), dict[SinkTransaction, tuple[Rows, Rows]]()
        with self._rolled_back():
            for tx in self._commits.begin_group(list(receipts)):
                working_for(tx.attempt)
                self._ensure_wanted()
                self._commits.begin_member(tx)
                changes[tx] = self._with_rolled_back(self._prepared_change(tx, receipts[tx]))
            if changes:
                working_for_all(tuple(changes))
                self._ensure_wanted()
                self._commits.commit_group()
        if self.downstream is not None:
            for tx, change in changes.items():
                working_for(tx.attempt)
                self.downstream(tx, *change)

    def try_commit(self, tx: SinkTransaction, receipt: Any) -> bool:
        if self.table is not None:
            return super().try_commit(tx, receipt)
        if not self._commits.is_fenced:
            return False
        try:
            for each in self._commits.begin_group([tx]):
                self._commits.begin_member(each)
                self._prepared_change(each, receipt)
        finally:
            self._commits.rollback()
        return True

    def ensure_parkable(self, tx: SinkTransaction, *, may_have_begun: bool) -> None:
        if not self._commits.is_fenced:
            if may_have_begun:
                raise StateError(
                    "it may have its rows, and keeps no token that tells", state=self.name, attempt=tx.attempt
                )
            return
        try:
            self._commits.begin_group([tx])
        finally:
            self._commits.rollback()

    def park(self, tx: SinkTransaction) -> None:
        """Commit no change; pass on the values that the rollback of an earlier attempt has restored."""
        rolled_back: Rows = ()
        with self._rolled_back():
            due = self._commits.begin_group([tx])
            for each in due:
                working_for(tx.attempt)
                self._ensure_wanted()
                self._commits.begin_member(each)
                _, rolled_back = self._with_rolled_back(())
                self._look_again()
            if due:
                self._commits.commit_group()
        if self.downstream is not None:
            self.downstream(tx, (), rolled_back)

    def _look_again(self) -> None:
        """Read the state again, because a rollback may have changed it."""

    def apply(self, tx: SinkTransaction, rows: CommitRows) -> None:
        """Apply the change that follows from another state's new values."""
        self.commit_group([(tx, rows.table())])

    def _prepared_change(self, tx: SinkTransaction, receipt: Any) -> list[tuple[Any, ...]]:
        return self._change(tx, receipt)

    def _with_rolled_back(self, values: Rows) -> tuple[Rows, Rows]:
        """Add the values of keys that only an older attempt of the open transaction had changed."""
        return values, ()

    def check_state(self) -> None:
        """Check that the factory made a state of the right kind.

        Raises:
            StateError: the state is of another kind.
        """

    def abandon(self) -> None:
        """Write nothing more, even if no newer leader has raised the fence yet."""
        self._is_abandoned = True
        for output in self.downstream_outputs:
            output.abandon()

    def close(self) -> None:
        """Close the state and its downstream outputs."""
        self._commits.close()
        for output in self.downstream_outputs:
            output.close()

    @abstractmethod
    def _change(self, tx: SinkTransaction, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Apply the change by these rows to the state; return the new values, if there is a consumer."""

    @contextmanager
    def _rolled_back(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._commits.rollback()
            raise

    def _ensure_wanted(self) -> None:
        if self._is_abandoned:
            raise StateError(
                f"state {self.name!r} was still in use when its topology ended; nothing is written any more",
                state=self.name,
            )


@define(kw_only=True)
class AggregateParticipant(StateParticipant):
    """``persistent_aggregate``: one value per key, or a single value.

    Attributes:
        keys: the number of key columns of the change; 0 if not grouped.
        inputs: the fields of the rows that a reducer receives.
        output: the fields of the new values.
    """

    aggregator: CombinerAggregator[Any] | ReducerAggregator[Any]
    keys: int
    inputs: Sequence[str] = ()
    output: StructType = field(factory=StructType)

    @property
    def change(self) -> Aggregated:
        """The effect of the batch's rows."""
        output = self.output if self.downstream else None
        return Aggregated(aggregator=self.aggregator, keys=self.keys, inputs=self.inputs, output=output)

    def check_state(self) -> None:
        check_values(self.state, by_key=bool(self.keys))

    def _prepared_change(self, tx: SinkTransaction, receipt: Any) -> list[tuple[Any, ...]]:
        combines = isinstance(self.aggregator, CombinerAggregator)
        if self.downstream or not self._commits.is_fenced or not combines:
            # the order of new values must not depend on how the change was computed
            return super()._prepared_change(tx, in_key_order(receipt, self.keys) if self.downstream else receipt)
        for portion in portions(receipt, self.keys):
            values = super()._prepared_change(tx, portion)
        return values

    def _change(self, tx: SinkTransaction, rows: pa.Table) -> list[tuple[Any, ...]]:
        columns = columns_in(rows)
        keys, aggregator = keys_of(columns, self.keys), self.aggregator
        if isinstance(aggregator, CombinerAggregator) and self._commits.can_remove:
            wanted = self.downstream is not None
            values = self._commits.multi_merge(keys, columns[self.keys], aggregator, returns=wanted)
            return self._with_keys(keys, values) if wanted else []
        keys, updaters = self.change.updaters(columns)
        if not self._commits.can_remove:
            updaters = [partial(self._value, updater) for updater in updaters]
        return self._with_keys(keys, self._commits.multi_update(keys, updaters))

    def _value(self, updater: ValueUpdater[Any], stored: Any) -> Any:
        """Return the new value for a state that can't remove a key."""
        value = updater(stored)
        if value is REMOVE:
            raise StateError(
                f"state {self.name!r}: {type(self.aggregator).__name__} returned REMOVE, and "
                f"{type(shards_of(self.state)[0]).__name__} can't remove a key; only a RemovableMapState can",
                state=self.name,
            )
        return value

    def _with_rolled_back(self, values: Rows) -> tuple[Rows, Rows]:
        if not (rolled_back := self._commits.rolled_back):
            return values, ()
        changed = {encode_key(row[: self.keys]) for row in values}
        keys = [tuple(key) for key in rolled_back if encode_key(key) not in changed]
        return values, self._with_keys(keys, self._commits.multi_get(keys))

    def _with_keys(self, keys: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(*key, value) for key, value in zip(keys, values, strict=True)]


@define(kw_only=True)
class UpdateParticipant(StateParticipant):
    """``partition_persist``: a user's updater over the rows of the batch, even if it is empty.

    Attributes:
        inputs: the fields of the rows that the updater receives.
        output: the fields of the rows that it emits.
        places: the positions of the inputs that determine a row's shard.
        parts: the number of partitions of a state with one shard; the updater is called for each.
    """

    updater: StateUpdater[Any]
    inputs: Sequence[str]
    output: StructType = field(factory=StructType)
    places: Sequence[int] = ()
    parts: int = 1

    def change(self, attempt: TransactionAttempt) -> Updated:
        """Return the effect of the rows of ``attempt``."""
        where = f"state {self.name!r}, attempt {attempt}"
        return Updated(
            updater=self.updater,
            where=where,
            inputs=self.inputs,
            output=self.output,
            places=self.places,
            is_read=self.downstream is not None,
        )

    def _change(self, tx: SinkTransaction, rows: pa.Table) -> list[tuple[Any, ...]]:
        return self.change(tx.attempt).spread(shards_of(self.state) * self.parts, rows)


@frozen
class Staged:
    """The receipt of a change that tasks have staged: their reports."""

    reports: pa.Table


@define(kw_only=True)
class StagedParticipant(AggregateParticipant):
    """``persistent_aggregate`` into a state for which Spark's tasks stage the change: the receipt is their reports.

    If new values have a consumer, they come to the driver anyway; then the change does too, by `AggregateParticipant`.
    So does the change of a small batch, whose rows its shared job brings to the driver.
    """

    state: StagingState[Any]
    aggregator: CombinerAggregator[Any]
    prepares_again = False  # tasks may have staged rows

    def prepare(self, tx: SinkTransaction, frame: DataFrame, collect: Collect) -> Staged:
        """Run the job that stages the change."""
        return Staged(collect(self.state.stage(tx, frame)))

    def receipt_rows(self, receipt: Any) -> int | None:
        """Return the number of rows that the tasks report as staged; a key counts twice if two tasks have it."""
        return reported_rows(receipt.reports) if isinstance(receipt, Staged) else super().receipt_rows(receipt)

    def abort(self, tx: SinkTransaction, receipt: Staged | pa.Table | None) -> None:
        """Remove the staged rows, also of an attempt that didn't finish."""
        if not isinstance(receipt, pa.Table):
            self.state.discard(tx)

    def _prepared_change(self, tx: SinkTransaction, receipt: Any) -> list[tuple[Any, ...]]:
        if not isinstance(receipt, Staged):
            return super()._prepared_change(tx, receipt)
        self.state.merge_staged(list(zip(*columns_in(receipt.reports), strict=True)), self.aggregator)
        return []
