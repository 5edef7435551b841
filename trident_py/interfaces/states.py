"""The interfaces of states: Storm's in PEP 8, and the fenced kind that the shipped ones are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

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
"""The values of the group fields, in order; empty for what is not grouped."""

ValueUpdater: TypeAlias = Callable[[T | None], T]
"""``old -> new``; old is None for a key that has no value; new is `REMOVE` for one that is to have none."""


class StateKind(Enum):
    """What a state keeps to recognise a replay; with the spout's `Replay` it decides how often a row counts."""

    NON_TRANSACTIONAL = "non-transactional"
    """Nothing: a replay is counted again. What a user's own state is taken for, unless its factory says more."""

    TRANSACTIONAL = "transactional"
    """The txid beside the data, which each commit compares: a replay is skipped where it was applied."""

    OPAQUE = "opaque"
    """The txid and the value before it: a replay starts from that."""

    FENCED = "fenced"
    """The same, in one atomic step with a commit token that older leaders are refused by."""


class State(ABC):
    """Something that batches change, in txid order. Runs in the driver's process, on the commit thread."""

    @abstractmethod
    def begin_commit(self, txid: int) -> None:
        """Begin with the changes of ``txid``.

        Called again, with the same txid, if an earlier try of it did not finish.
        """

    @abstractmethod
    def commit(self, txid: int) -> None:
        """End with the changes of ``txid``, all of which were made."""


AT_LEAST_ONCE = "at-least-once"
UNLESS_PAUSED = "exactly-once unless a leader that was paused in mid-write wakes up"
"""How often a row counts in a state that compares txids, but writes data and txid under no fence."""


class StateFactory(Identified, ABC):
    """Makes a state when the topology starts.

    Attributes:
        guarantee: how often a row counts in it, over crashes and replays, behind a spout that gives the same batch
            again; printed by ``explain()``. ``check_state`` verifies it.
        kind: what it keeps to recognise a replay. If the commits of your state compare the txid with a stored one, its
            factory says so by `StateKind.TRANSACTIONAL`; if they also keep previous values, by `StateKind.OPAQUE`.
        name: what identifies its data, as a table's name; then two equal factories mean the same data, and the state is
            called so in the record and in errors. Empty: nothing does, and it is named by its stream.
        volatile: whether its states start empty with each run, so that there is nothing which a change could mix.
        ttl: how long a key stays without a write, by the times of transactions; None: for ever.
    """

    guarantee: str = AT_LEAST_ONCE
    kind: StateKind = StateKind.NON_TRANSACTIONAL
    name: str = ""
    volatile: bool = False
    ttl: timedelta | None = None

    @property
    def lacks_fields(self) -> bool:
        """Whether it keeps typed columns and wasn't told their types, as ``persistent_aggregate`` does."""
        return False

    def ensure_usable(self) -> None:
        """Look whether the store is there and lets us in, and change nothing; called before Spark is started.

        Raises:
            StateError: it isn't or doesn't; says what to do.
        """

    @abstractmethod
    def make_state(self, conf: TridentConfig, metrics: Metrics, partition_index: int, num_partitions: int) -> State:
        """Make the state of one partition; called once per run, with partition 0 of 1."""

    def for_fields(self, keys: StructType, value: StructField) -> StateFactory:
        """Return this factory for values of these types; called where the state is declared.

        A factory that keeps typed columns returns a copy that knows them; the others return themselves.

        Raises:
            StateError: it can't hold a value of such a type.
        """
        return self

    def for_reading(self) -> StateFactory:
        """Return this factory for a state that is only asked; called where ``new_static_state`` declares it.

        Raises:
            TopologyError: only a topology that fills such a state can ask it.
        """
        if self.kind is StateKind.FENCED:
            raise TopologyError(f"{self!r} is filled by a topology; ask it there, or read it by a state of yours")
        return self


def promised_kind(factory: StateFactory) -> StateKind:
    """Return what a state keeps, by its factory's word; one that promises exactly-once keeps the txid at least."""
    is_silent = factory.kind is StateKind.NON_TRANSACTIONAL and factory.guarantee != AT_LEAST_ONCE
    return StateKind.TRANSACTIONAL if is_silent else factory.kind


class StateUpdater(ABC, Generic[S]):
    """Applies the rows of a batch to a state."""

    @abstractmethod
    def update_state(self, state: S, tuples: Sequence[Any], collector: TridentCollector) -> None:
        """Apply all rows of the batch at once; what is emitted goes to ``TridentState.new_values_stream()``."""


class QueryFunction(ABC, Generic[S, R]):
    """Looks values up in a state, for ``Stream.state_query`` (Storm ST5). Runs in the driver's process.

    Attributes:
        needs: the classes of states that it can ask, any of them; checked when the topology is started.
    """

    needs: tuple[type, ...] = (State,)

    def check(self, seen: StructType | None, keys: StructType | None, out: StructType) -> None:
        """Look at what it is declared with.

        Args:
            seen: the input fields; None where only Spark can tell.
            keys: the group fields of the state; None where the topology doesn't know them.
            out: the output fields.

        Raises:
            TopologyError: that can't work.
        """

    @abstractmethod
    def batch_retrieve(self, state: S, args: Sequence[Any]) -> Sequence[R]:
        """Return one result for each of ``args``, the rows of input fields.

        Called once for a batch, on the commit thread.
        """

    @abstractmethod
    def execute(self, row: Any, result: R, collector: TridentCollector) -> None:
        """Emit zero or more tuples of output fields for ``row``, the input fields only, and its result."""


class ReadOnlyState(State):
    """A state that no batch changes: for ``TridentTopology.new_static_state`` (Storm ST24)."""

    def begin_commit(self, txid: int) -> None:
        raise StateError(f"{type(self).__name__} is read only; no transaction can change it")

    def commit(self, txid: int) -> None:
        raise StateError(f"{type(self).__name__} is read only; no transaction can change it")

    def close(self) -> None:
        """Close: the topology stops."""


class ITupleCollection(ABC):
    """A state whose values can be gone through (Storm ST10)."""

    @abstractmethod
    def get_tuples(self) -> Iterable[Sequence[Any]]:
        """Give the committed values: for each key its values, then the value."""


class ReadOnlyMapState(State, Generic[T]):
    """Values by key, to be read."""

    @abstractmethod
    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Return the value of each key, in the order of ``keys``; None where there is none."""


class MapState(ReadOnlyMapState[T]):
    """Values by key."""

    @abstractmethod
    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[T]]) -> list[T]:
        """Replace the value of each key by what its updater makes of it; returns the new values.

        A `RemovableMapState` removes a key whose updater returns `REMOVE`; its new value is None.
        """

    @abstractmethod
    def multi_put(self, keys: Sequence[Key], values: Sequence[T]) -> None:
        """Set the value of each key."""


class RemovableMapState(MapState[T]):
    """Values by key, which can be removed."""

    @abstractmethod
    def multi_remove(self, keys: Sequence[Key]) -> None:
        """Forget the value of each key; a replay finds what was there before its transaction."""


class ReadOnlySnapshottable(State, Generic[T]):
    """One value, to be read."""

    @abstractmethod
    def get(self) -> T | None:
        """Return the value; None where there is none."""


class Snapshottable(ReadOnlySnapshottable[T]):
    """One value: what an aggregate over everything is kept in."""

    @abstractmethod
    def update(self, updater: ValueUpdater[T]) -> T:
        """Replace the value by what ``updater`` makes of it; returns the new one."""

    @abstractmethod
    def set(self, value: T) -> None:
        """Set the value."""


class GroupState(ABC, Generic[T]):
    """A state as commits use it: the one commit protocol. It takes transactions that follow each other as a group.

    One group is ``begin_group`` → for each transaction ``begin_member`` and updates → ``commit_group``, one atomic step
    in a `FencedState`. Each member's change is made under its own txid, so that the last one can still be undone by
    itself. A member that comes again, from ``group_first`` on, was committed before and is skipped: only batches that
    are the same each time come in groups of several. The key of a value that is not grouped is empty.

    Attributes:
        volatile: it is empty at each start; then nothing is expected to be in it after a restart.
        is_fenced: it keeps a commit token beside its data, in the same atomic step.
        can_remove: an updater may return `REMOVE`.
        tells_rolled_back: the engine asks for `rolled_back`; set before the first transaction.
    """

    volatile: ClassVar[bool] = False
    is_fenced: ClassVar[bool] = True
    tells_rolled_back: bool = False

    @property
    def can_remove(self) -> bool:
        """Whether an updater may return `REMOVE`."""
        return True

    @property
    def rolled_back(self) -> Sequence[Key]:
        """The keys that older attempts of the open transaction had changed, and that were rolled back as it began."""
        return ()

    @abstractmethod
    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over for a new leader: refuse older epochs from now on.

        Returns:
            The token of the last commit; None if nothing was ever committed here.

        Raises:
            StateError: it belongs to another topology, or is damaged, read-only or not ours.
            FencedError: a newer epoch has been here.
        """

    @abstractmethod
    def begin_group(self, members: Sequence[SinkTransaction]) -> Sequence[SinkTransaction]:
        """Open ``members`` under lock and decide; returns the members to apply now, which are the last ones.

        If the first of them was applied by an older token, its changes are rolled back first.

        Raises:
            FencedError: a newer epoch has been here.
            StateError: the first one is not the transaction that comes next.
        """

    @abstractmethod
    def begin_member(self, tx: SinkTransaction) -> None:
        """Begin with the changes of ``tx``, the next of those that `begin_group` returned."""

    @abstractmethod
    def commit_group(self) -> None:
        """Make all changes and the token of the last member durable, in one atomic step."""

    @abstractmethod
    def rollback(self) -> None:
        """Abort the open group, if there is one; nothing of it stays."""

    @abstractmethod
    def multi_get(self, keys: Sequence[Key]) -> list[T | None]:
        """Return the value of each key, in the order of ``keys``; None for a key without a value."""

    @abstractmethod
    def multi_update(self, keys: Sequence[Key], updaters: Sequence[ValueUpdater[T]]) -> list[T]:
        """Replace the value of each key by what its updater returns; returns the new values."""

    @abstractmethod
    def multi_merge(
        self, keys: Sequence[Key], values: Sequence[T], aggregator: CombinerAggregator[T], *, returns: bool = False
    ) -> Sequence[T | None]:
        """Combine the partial value ``values[i]`` into that of ``keys[i]``; a key without one takes the partial itself.

        Args:
            keys: the keys.
            values: a partial value for each key.
            aggregator: combines.
            returns: whether the new values are returned; else an implementation may return nothing.
        """

    @abstractmethod
    def close(self) -> None:
        """Close: the topology stops."""


class FencedState(GroupState[T], RemovableMapState[T]):
    """A state that keeps a commit token beside its data, in the same atomic step: what exactly-once stands on.

    Inside a transaction its thread reads what it wrote; every other thread reads committed values, at any time.
    """

    def multi_merge(
        self, keys: Sequence[Key], values: Sequence[T], aggregator: CombinerAggregator[T], *, returns: bool = False
    ) -> Sequence[T | None]:
        """Combine by updaters; a state whose own engine can do what ``aggregator.merge`` says overrides this."""
        return self.multi_update(keys, [combiner_updater(aggregator, value) for value in values])

    def begin_commit(self, txid: int) -> None:
        """Do nothing: the engine calls `begin_group` instead."""

    def commit(self, txid: int) -> None:
        """Do nothing: the engine calls `commit_group` instead."""

    def close(self) -> None:
        """Close: the topology stops."""


class StagingState(FencedState[T]):
    """A fenced state that Spark's tasks hand the change of a batch to, apart, while the batch is processed.

    Staged are the partial values of a `CombinerAggregator`, one row a key. Every task that has stored its rows gives
    one row to the driver, its report. Only what is in the reports that Spark returned is ever merged: what tasks leave
    that Spark ran twice, or that go on after their attempt was cancelled, is not.
    """

    @abstractmethod
    def stage(self, tx: SinkTransaction, frame: DataFrame) -> DataFrame:
        """Make room for what ``tx`` stages; several attempts at once, on threads of their own.

        Returns:
            A frame that stages ``frame``, key columns and partial value, when it is run; its rows are the reports.

        Raises:
            FencedError: a newer epoch has been here.
        """

    @abstractmethod
    def merge_staged(self, reports: Sequence[Sequence[Any]], aggregator: CombinerAggregator[T]) -> None:
        """Combine what these tasks staged into the stored values, within the transaction that staged it.

        Raises:
            StoreBusyException: what is there is not what was reported; the attempt has to be replayed.
        """

    @abstractmethod
    def discard(self, tx: SinkTransaction) -> None:
        """Remove what ``tx`` staged, which will never commit, as soon as that can be."""


def combiner_updater(aggregator: CombinerAggregator[T], partial: T) -> ValueUpdater[T]:
    """Combine ``partial`` into the stored value; where there is none, ``partial`` is the value (Storm ST11)."""
    return lambda stored: partial if stored is None else aggregator.combine(stored, partial)


def reducer_updater(aggregator: ReducerAggregator[T], tuples: Sequence[Any]) -> ValueUpdater[T]:
    """Reduce ``tuples`` onto the stored value; where there is none, or it was removed, onto ``init()`` (Storm ST12)."""

    def update(stored: T | None) -> T:
        value = aggregator.init() if stored is None else stored
        for row in tuples:
            value = aggregator.reduce(aggregator.init() if value is REMOVE else value, row)
        return value

    return update
