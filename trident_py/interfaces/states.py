"""The interfaces of states: Storm's in PEP 8, and the fenced kind that the shipped ones are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from trident_py.errors import StateError, TopologyError
from trident_py.interfaces.collector import TridentCollector
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.identity import Identified
from trident_py.interfaces.operations import CombinerAggregator, ReducerAggregator
from trident_py.interfaces.removal import REMOVE
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey

T = TypeVar("T")
S = TypeVar("S", bound="State")
R = TypeVar("R")

Key: TypeAlias = Sequence[Any]
"""The values of the group fields, in order; empty for a value that is not grouped."""

ValueUpdater: TypeAlias = Callable[[T | None], T]
"""``old -> new``. ``old`` is ``None`` for a key that has no value. If ``new`` is `REMOVE`, the key is deleted."""


Columns: TypeAlias = Sequence[Sequence[Any]]
"""The values of each field, for all rows."""


class StateKind(Enum):
    """The data by which a state recognises a replay. With the spout's `Replay` it decides how often a row counts."""

    NON_TRANSACTIONAL = "non-transactional"
    """Nothing: a replay is counted again. The default for a user's state, unless its factory says otherwise."""

    TRANSACTIONAL = "transactional"
    """The txid, stored with the data and compared by each commit: a replay of an applied transaction is skipped."""

    OPAQUE = "opaque"
    """The txid and the previous value: a replay starts from the previous value."""

    FENCED = "fenced"
    """The same, in one atomic step with a commit token, by which older leaders are refused."""


class State(ABC):
    """A store that batches change, in txid order. Runs in the driver's process, on the commit thread."""

    @abstractmethod
    def begin_commit(self, txid: int) -> None:
        """Begin the changes of ``txid``.

        Called again with the same txid if an earlier attempt did not finish.
        """

    @abstractmethod
    def commit(self, txid: int) -> None:
        """Finish the changes of ``txid``: all of them were made."""


DRIVER = "driver"
"""The placement of a state that changes in the driver's process."""

TASKS = "tasks"
"""The placement of a state that user code changes in Spark's tasks, if a batch is large."""

AT_LEAST_ONCE = "at-least-once"
UNLESS_PAUSED = "exactly-once unless a leader that was paused in mid-write wakes up"
"""Guarantee of a state that compares txids, but writes data and txid without a fence."""


class StateFactory(Identified, ABC):
    """Makes a state when the topology starts.

    Attributes:
        guarantee: how often a row counts in it, over crashes and replays, if the spout gives the same batch again.
            ``explain()`` prints it, and ``check_state`` verifies it.
        kind: the data that it keeps to recognise a replay. If the commits of your state compare the txid with a stored
            one, set `StateKind.TRANSACTIONAL`; if they also keep previous values, `StateKind.OPAQUE`.
        name: identifies its data, as a table's name does; two equal factories mean the same data. The record and errors
            call the state so. Empty: the data has no name, and the state is named after its stream.
        volatile: whether its states are empty at the start of each run, so that a change of the topology can't mix
            data.
        ttl: how long a key stays without a write, by the times of transactions; None: forever.
        placement: where aggregators and updaters change its values: `DRIVER` or `TASKS`. Its states are then
            `TaskedState`.
    """

    guarantee: str = AT_LEAST_ONCE
    kind: StateKind = StateKind.NON_TRANSACTIONAL
    name: str = ""
    volatile: bool = False
    ttl: timedelta | None = None
    placement: str = DRIVER

    @property
    def lacks_fields(self) -> bool:
        """Whether it keeps typed columns and has no types for them yet; ``persistent_aggregate`` sets them."""
        return False

    def ensure_usable(self) -> None:
        """Check that the store exists and accepts us, without changing it. Called before Spark is started.

        Raises:
            StateError: it doesn't; the message says what to do.
        """

    @abstractmethod
    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        """Make the state of one partition; called once per run, with partition 0 of 1."""

    def for_fields(self, keys: StructType, value: StructField) -> StateFactory:
        """Return this factory for values of these types. Called when the state is declared.

        A factory that keeps typed columns returns a copy with these types; other factories return themselves.

        Raises:
            StateError: the state can't hold a value of such a type.
        """
        return self

    def for_reading(self) -> StateFactory:
        """Return this factory for a state that is only read. Called by ``new_static_state``.

        Raises:
            TopologyError: only a topology that writes such a state can read it.
        """
        if self.kind is StateKind.FENCED:
            raise TopologyError(f"{self!r} is written by a topology; query it there, or read it with your own state")
        return self


def promised_kind(factory: StateFactory) -> StateKind:
    """Return the kind of a state; a factory that promises exactly-once keeps at least the txid."""
    is_silent = factory.kind is StateKind.NON_TRANSACTIONAL and factory.guarantee != AT_LEAST_ONCE
    return StateKind.TRANSACTIONAL if is_silent else factory.kind


class StateUpdater(ABC, Generic[S]):
    """Applies the rows of a batch to a state."""

    @abstractmethod
    def update_state(self, state: S, tuples: Sequence[Any], collector: TridentCollector) -> None:
        """Apply all rows of the batch at once; emitted rows go to ``TridentState.new_values_stream()``."""


class QueryFunction(ABC, Generic[S, R]):
    """Looks values up in a state, for ``Stream.state_query``. Runs in the driver's process.

    Attributes:
        needs: the classes of states that it can read, any of them; checked when the topology is started.
    """

    needs: tuple[type, ...] = (State,)

    def check(self, seen: StructType | None, keys: StructType | None, out: StructType) -> None:
        """Check the declaration.

        Args:
            seen: the input fields; None if only Spark knows them.
            keys: the group fields of the state; None if the topology doesn't know them.
            out: the output fields.

        Raises:
            TopologyError: the declaration can't work.
        """

    @abstractmethod
    def batch_retrieve(self, state: S, args: Sequence[Any]) -> Sequence[R]:
        """Return one result for each of ``args``, which are rows of the input fields.

        Called once for a batch, on the commit thread.
        """

    @abstractmethod
    def execute(self, row: Any, result: R, collector: TridentCollector) -> None:
        """Emit zero or more tuples of output fields for ``row``, which has only the input fields, and its result."""


class ReadOnlyState(State):
    """A state that no batch changes: for ``TridentTopology.new_static_state``."""

    def begin_commit(self, txid: int) -> None:
        raise StateError(f"{type(self).__name__} is read only; no transaction can change it")

    def commit(self, txid: int) -> None:
        raise StateError(f"{type(self).__name__} is read only; no transaction can change it")

    def close(self) -> None:
        """Release resources: the topology stops."""


class ITupleCollection(ABC):
    """A state that can list its values."""

    @abstractmethod
    def get_tuples(self) -> Iterable[Sequence[Any]]:
        """Yield the committed values: for each key its values, then the value."""


class ReadOnlyMapState(State, Generic[T]):
    """Values by key, read only."""

    @abstractmethod
    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Return the value of each key, in the order of ``keys``; ``None`` for a key without a value."""


class MapState(ReadOnlyMapState[T]):
    """Values by key."""

    @abstractmethod
    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[T]]) -> list[T]:
        """Update each key: its updater gets the old value and returns the new one. Return the new values.

        A `RemovableMapState` removes a key if its updater returns `REMOVE`; its new value is then ``None``.
        """

    @abstractmethod
    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Set the value of each key."""


class RemovableMapState(MapState[T]):
    """Values by key that can be removed."""

    @abstractmethod
    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Remove the value of each key; a replay starts from the values before its transaction."""


class TaskReader(ABC):
    """Reads a state's committed values in a Spark task; sent to the worker.

    Attributes:
        kind: the class of the state that it opens.
    """

    kind: ClassVar[type[State]]

    @abstractmethod
    def opened(self) -> AbstractContextManager[State]:
        """Return a context manager that gives its block the state, for reading."""


class TaskReadableState(ABC):
    """A state that Spark's tasks may read for a query of a large batch, while no transaction commits."""

    @property
    @abstractmethod
    def task_reader(self) -> TaskReader | None:
        """Its reader in tasks; None: queries read it on the driver."""


class ReadOnlySnapshottable(State, Generic[T]):
    """One value, read only."""

    @abstractmethod
    def get(self) -> T | None:
        """Return the value; ``None`` if it was never set."""


class Snapshottable(ReadOnlySnapshottable[T]):
    """One value, for example the result of a global aggregate."""

    @abstractmethod
    def update(self, updater: ValueUpdater[T]) -> T:
        """Update the value: ``updater`` gets the old one and returns the new one. Return the new value."""

    @abstractmethod
    def set(self, value: T) -> None:
        """Set the value."""


class GroupState(ABC, Generic[T]):
    """A state with the one commit protocol that the engine uses: consecutive transactions are applied as a group.

    A group is ``begin_group`` → for each transaction ``begin_member`` and updates → ``commit_group``, one atomic step
    in a `FencedState`. Each member's changes are made under its own txid, so that the last one can still be undone
    alone. A member that comes again, from ``group_first`` on, was committed before and is skipped. So batches come in
    groups of several only if they are the same in each attempt. The key of a value that is not grouped is empty.

    Attributes:
        volatile: the state is empty at each start, so after a restart no earlier commit is expected in it.
        is_fenced: it keeps a commit token together with its data, in the same atomic step.
        takes_groups: several members with changes are one atomic step. Else only members without changes come together.
        can_remove: an updater may return `REMOVE`.
        can_tell_rolled_back: it knows `rolled_back`.
        tells_rolled_back: the engine reads `rolled_back`; set before the first transaction.
    """

    volatile: ClassVar[bool] = False
    is_fenced: ClassVar[bool] = True
    takes_groups: ClassVar[bool] = True
    can_tell_rolled_back: ClassVar[bool] = False
    tells_rolled_back: bool = False

    @property
    def can_remove(self) -> bool:
        """Whether an updater may return `REMOVE`."""
        return True

    @property
    def rolled_back(self) -> Sequence[Key]:
        """The keys changed by older attempts of the open transaction, and rolled back when it began."""
        return ()

    @abstractmethod
    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader: refuse older epochs from now on.

        Returns:
            The token of the last commit; None if nothing was ever committed here.

        Raises:
            StateError: it belongs to another topology, is damaged or read-only, or was not made by trident_py.
            FencedError: a newer epoch has recovered this state.
        """

    @abstractmethod
    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Open ``members`` under a lock. Return the members that must be applied now; they are the last ones.

        If an attempt with an older token applied the first of them, its changes are rolled back first.

        Raises:
            FencedError: a newer epoch has recovered this state.
            StateError: the first one is not the next transaction.
        """

    @abstractmethod
    def begin_member(self, tx: SinkTransaction) -> None:
        """Begin the changes of ``tx``, the next of the members that `begin_group` returned."""

    @abstractmethod
    def commit_group(self) -> None:
        """Make all changes and the token of the last member durable, in one atomic step."""

    @abstractmethod
    def rollback(self) -> None:
        """Abort the open group, if there is one; none of its changes stay."""

    @abstractmethod
    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Return the value of each key, in the order of ``keys``; None for a key without a value."""

    @abstractmethod
    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[T]]) -> list[T]:
        """Update each key: its updater gets the old value and returns the new one. Return the new values."""

    @abstractmethod
    def multi_merge(
        self, keys: Sequence[Key], values: Sequence[T], aggregator: CombinerAggregator[T], *, returns: bool = False
    ) -> Sequence[T | None]:
        """Combine the partial value ``values[i]`` with the value of ``keys[i]``, or store it if the key has none.

        Args:
            keys: the keys.
            values: a partial value for each key.
            aggregator: combines two values.
            returns: whether to return the new values; if False, an implementation may return an empty sequence.
        """

    @abstractmethod
    def close(self) -> None:
        """Release resources: the topology stops."""


class FencedState(GroupState[T], RemovableMapState[T]):
    """A state that keeps a commit token with its data, in the same atomic step: the basis of exactly-once.

    Inside a transaction, its thread reads its own writes. Every other thread reads committed values, at any time.
    """

    def multi_merge(
        self, keys: Sequence[Key], values: Sequence[T], aggregator: CombinerAggregator[T], *, returns: bool = False
    ) -> Sequence[T | None]:
        """Combine each partial value with the stored value of its key, by `multi_update`; return the new values.

        A state whose own engine can do the operation that ``aggregator.merge`` names overrides this.
        """
        return self.multi_update(keys, [combiner_updater(aggregator, value) for value in values])

    def begin_commit(self, txid: int) -> None:
        """Do nothing: the engine calls `begin_group` instead."""

    def commit(self, txid: int) -> None:
        """Do nothing: the engine calls `commit_group` instead."""

    def close(self) -> None:
        """Release resources: the topology stops."""


class StagingState(FencedState[T]):
    """A fenced state to which Spark's tasks send the changes of a batch while the batch is processed.

    The tasks stage the partial values of a `CombinerAggregator`, one row for each key. Every task that has stored its
    rows returns one row to the driver: its report. Only rows named in the reports that Spark returned are merged. Rows
    of tasks that Spark ran twice, or that continued after their attempt was cancelled, are not merged.
    """

    @abstractmethod
    def stage(self, tx: SinkTransaction, frame: DataFrame) -> DataFrame:
        """Prepare to stage ``tx``. Several attempts may be prepared at once, each on its own thread.

        Returns:
            A frame that, when run, stages ``frame`` (key columns and partial value); its rows are the reports.

        Raises:
            FencedError: a newer epoch has recovered this state.
        """

    @abstractmethod
    def merges(self, aggregator: ReducerAggregator[Any] | CombinerAggregator[Any]) -> bool:
        """Return whether the store itself combines values as ``aggregator`` does."""

    @abstractmethod
    def merge_staged(self, reports: Sequence[Sequence[Any]], aggregator: CombinerAggregator[T]) -> None:
        """Combine the rows staged by these tasks into the stored values, within the transaction that staged them.

        Raises:
            StoreBusyException: the staged rows differ from the reports; the attempt must be replayed.
        """

    @abstractmethod
    def discard(self, tx: SinkTransaction) -> None:
        """Remove the staged rows of ``tx``, which will never commit, as soon as possible."""


class StateChange(ABC):
    """The effect of a batch's rows on a state, partition by partition. Fields of rows are read by their positions."""

    @abstractmethod
    def partitions(self, rows: pa.Table, count: int) -> Sequence[int]:
        """Return the partition of each row, as a number below ``count``."""

    @abstractmethod
    def apply(self, state: MapState[Any], rows: pa.Table, partition: int) -> Sequence[Emitted]:
        """Change ``state`` by the rows of one partition; return what the driver receives.

        ``state`` has the keys of the partition. A partition without rows may have no fields, either.
        """


@frozen(kw_only=True)
class Emitted:
    """Rows that a change emits in a task.

    Attributes:
        place: rows of a lower place come first.
        stream: the number of their stream, if there are several.
        rows: an Arrow record batch without its schema.
    """

    place: int
    stream: int = 0
    rows: bytes


class TaskedState(StagingState[T], TaskReadableState):
    """A state that user code can change in Spark's tasks, in the commit phase, after the transaction before.

    Each task reads the values as they were before the transaction, even if an earlier attempt of it has committed. It
    stages the new values and reports them, with the commit token that it has read. The driver replaces the values in
    one transaction, if the token is still the same.
    """

    @abstractmethod
    def update(self, tx: SinkTransaction, change: StateChange, frame: DataFrame) -> DataFrame | None:
        """Prepare to change the state by the rows of ``frame``, partition by partition.

        Returns:
            A frame that, when run, stages the new values. Its rows are the reports, whose last field is an array of
            `Emitted`. None: ``tx`` is committed already.

        Raises:
            FencedError: a newer epoch has recovered this state.
            StateError: ``tx`` is not the next transaction.
        """

    @abstractmethod
    def replace_staged(self, reports: Sequence[Sequence[Any]]) -> None:
        """Replace values by the staged values of these tasks, within the transaction that staged them.

        The reports don't have what was emitted.

        Raises:
            StoreBusyException: the staged rows differ from the reports, or the tasks have read another transaction's
                values; the attempt must be replayed.
            StateError: two tasks have changed the same key.
        """


def combiner_updater(aggregator: CombinerAggregator[T], partial: T) -> ValueUpdater[T]:
    """Return an updater that combines ``partial`` with the stored value; without one, ``partial`` is the value."""
    return lambda stored: partial if stored is None else aggregator.combine(stored, partial)


def reducer_updater(aggregator: ReducerAggregator[T], tuples: Sequence[Any]) -> ValueUpdater[T]:
    """Return an updater that reduces ``tuples`` onto the stored value, or onto ``init()`` if there is no value."""

    def update(stored: T | None) -> T:
        value = aggregator.init() if stored is None else stored
        for row in tuples:
            value = aggregator.reduce(aggregator.init() if value is REMOVE else value, row)
        return value

    return update
