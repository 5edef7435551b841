"""What users declare with: streams, grouped streams and states. Each call checks, adds a node, and returns a handle."""

# ruff: noqa: SLF001 - streams, groups and states are handles of one graph

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from pyspark.sql.types import StructType

from trident_py.errors import TopologyError
from trident_py.graph.aggregation import AnyAggregator, Scope, aggregation
from trident_py.graph.graph import Graph, Node
from trident_py.graph.min_by import BestRow, ExtremeRow, compared_fields
from trident_py.graph.naming import state_name
from trident_py.graph.outputs import (
    AggregateState,
    NewValues,
    UpdatedState,
    WrittenSink,
    check_unshared,
    new_values,
    state_keys,
)
from trident_py.graph.partitioning import parallelism_hint
from trident_py.graph.queries import StateQuery
from trident_py.graph.windowing import window_state
from trident_py.graph.writing import check_writing
from trident_py.interfaces.operations import Aggregator, Assembly, CombinerAggregator, ReducerAggregator
from trident_py.interfaces.sinks import TransactionalSink
from trident_py.interfaces.states import QueryFunction, StateFactory, StateUpdater
from trident_py.rows.schema import names_of, schema_of, select, shown
from trident_py.streams.chain import ChainedAggregatorDeclarer, chained
from trident_py.streams.row_stream import RowStream, check_instance
from trident_py.windows.window_store import LocalWindows
from trident_py.windows.windows import Window


# large: one method for each operation, so that they can be chained
@frozen(repr=False)
class Stream(RowStream):
    """Rows with named fields, batch by batch. Immutable: every operation gives another stream.

    An operation that can't work raises `TopologyError` where it is called. What only Spark can tell (a ``Column``, a
    SQL string, fields after `transform` without ``schema=``) is checked when the topology is started, before anything
    is emitted.
    """

    # --- asking states ------------------------------------------------------------------------------------------------

    def state_query(
        self,
        state: TridentState,
        in_fields: str | Sequence[str],
        function: QueryFunction[Any, Any],
        out_schema: str | StructType,
    ) -> Stream:
        """Append what ``function`` finds in ``state`` for each row.

        This step is the driver's. A job of its own brings the stream's rows there, all fields, so `project` before it;
        the state is asked once for the whole batch, on the commit thread between two commits; then the rows go back to
        Spark, at some 100 000 a second. Every state and sink behind it does all that for itself.

        What is seen is committed, but by which transactions depends on the moment: with ``max_spout_pending`` above 1
        earlier ones may be missing, and a replay may see other values, also those that a failed attempt of its own
        transaction left in a state that had committed already. So it makes every stream opaque; see ``explain()``.

        Args:
            state: of this topology.
            in_fields: what the function sees of each row; ``[]`` for one that needs no input, as ``SnapshotGet()``.
            function: runs in the driver's process.
            out_schema: the fields that it emits; for ``MapGet()`` and ``SnapshotGet()`` the value.
        """
        with self._declaring("state_query", getattr(state, "name", state), function) as title:
            if not isinstance(state, TridentState) or state._graph is not self._graph:
                raise TopologyError(f"the state is a TridentState of this topology, not {shown(state)}")
            check_instance(function, QueryFunction, "a query")
            names = names_of(in_fields)
            out = schema_of(out_schema)
            seen = None if self.schema is None else select(self.schema, names)
            function.check(seen, state_keys(state._node), out)
            return self._next(StateQuery(title=title, state=state.name, function=function, in_fields=names, out=out))

    # --- aggregates ---------------------------------------------------------------------------------------------------

    def group_by(self, *fields: str) -> GroupedStream:
        """Group the rows of a batch by the values of ``fields``."""
        with self._declaring("group_by", *fields):
            names = names_of(fields)
            if not names:
                raise TopologyError("name the fields to group by; without any, aggregate the stream itself")
            if self._node.schema is not None:
                select(self._node.schema, names)
            return GroupedStream(self, names)

    def aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> Stream:
        """Aggregate the batch: one row, also if it is empty; from an `Aggregator` whatever it emits.

        Args:
            aggregator: a built-in one becomes a Spark expression.
            out: the name of the result for a built-in one, ``"name type"`` for others; `Aggregator`: its fields.
            in_fields: what a user-written one sees; None: its own ``in_fields``, and if that is empty, all.
        """
        return self._aggregate("aggregate", (), aggregator, out, in_fields)

    def partition_aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> Stream:
        """Aggregate each partition of the batch where it is, one without rows too.

        `partition_by`, `shuffle`, `global_` and `parallelism_hint` in front of it say which partitions there are, as
        long as only Python operations are between. Else they are as the spout gave the rows, and one without rows:
        expect the result of no rows among the results. The arguments are those of `aggregate`.
        """
        return self._aggregate("partition_aggregate", (), aggregator, out, in_fields)

    def chained_agg(self) -> ChainedAggregatorDeclarer[Stream]:
        """Chain aggregators in one pass: ``chained_agg().aggregate(…).aggregate(…).chain_end()``."""
        return chained(self, ())

    def min_by(self, in_field: str | Sequence[str], key: Callable[[Any], Any] | None = None) -> Stream:
        """Keep the row of the batch with the least value of a field; none where no row has a value.

        Of equal ones the last that is seen. Storm has one for each partition.

        Args:
            in_field: the field to compare; or several, of which a later one decides where those before it are equal.
            key: what to compare instead: of the field's value, or of a `Row` of the values of several fields; runs in
                Spark tasks. It needs the fields to be known.
        """
        return self._extreme("min_by", in_field, key, greatest=False)

    def max_by(self, in_field: str | Sequence[str], key: Callable[[Any], Any] | None = None) -> Stream:
        """Keep the row with the greatest value of a field; see `min_by`. NaN is the greatest, as in Spark."""
        return self._extreme("max_by", in_field, key, greatest=True)

    def apply(self, assembly: Assembly | Callable[[Stream], Stream]) -> Stream:
        """Return what an assembly, such as ``FirstN(10, "score")``, or a function makes of this stream."""
        with self._declaring("apply", assembly):
            made = assembly.apply(self) if isinstance(assembly, Assembly) else assembly(self)
            check_instance(made, Stream, "what an assembly gives")
            return made

    def persistent_aggregate(
        self,
        state_factory: StateFactory,
        aggregator: CombinerAggregator[Any] | ReducerAggregator[Any],
        out_field: str | StructType,
        in_fields: str | Sequence[str] | None = None,
    ) -> TridentState:
        """Aggregate all batches into one value of a state; the arguments are those of `aggregate`."""
        return self._persistent_aggregate((), state_factory, aggregator, out_field, in_fields)

    def window(
        self,
        window: Window,
        in_fields: str | Sequence[str],
        aggregator: AnyAggregator,
        out_schema: str | StructType,
        *,
        store: StateFactory | None = None,
    ) -> Stream:
        """Aggregate windows over the rows of all batches; a row for each window that fires.

        The window is a state. Batches are added to it in order, in the commit phase, under the transaction's token:
        over crashes and replays no row is lost or comes twice, and each window fires in one transaction. What follows
        is in that transaction, and runs on the driver; see `TridentState.new_values_stream`.

        It is one window over the whole stream; within a batch, rows come as Spark gives them. Directly behind
        `partition_by` it is one for each value of those fields (Storm has one for each task), and with `group_by` too.
        Windows by time fire with the first transaction that is committed after their end; where there is no input then,
        with an empty one, which no spout hears of. Windows without rows never fire.

        A row of a window by time has the result, and then ``window_start`` and ``window_end``, timestamps: the window
        has the rows from the first moment until before the second.

        Args:
            window: `TumblingCount`, `SlidingCount`, `TumblingDuration` or `SlidingDuration`.
            in_fields: what the aggregator may see of each row; ``[]``: the fields that a built-in one carries.
            aggregator: of any kind; runs on the driver, over all rows of a window. `Aggregator.init` is told the number
                of the window, from 1; of a window by time its end, in microseconds since the epoch.
            out_schema: the name of the result for a built-in aggregator, ``"name type"`` for others.
            store: where the rows are kept, for this window only: a fenced state such as `PostgresState`. None: in a
                SQLite database in the ``state_dir``, under the name of the stream; give it one by `name`.
        """
        return self._window(self._node.operation.spread_by, False, window, in_fields, aggregator, out_schema, store)

    # --- ends ---------------------------------------------------------------------------------------------------------

    def partition_persist(
        self,
        state_factory: StateFactory,
        updater: StateUpdater[Any],
        in_fields: str | Sequence[str],
        out_schema: str | StructType | None = None,
    ) -> TridentState:
        """Hand the rows of each batch, all at once, to a user-written updater of a state.

        Args:
            state_factory: makes the state; its ``begin_commit`` and ``commit`` enclose each batch.
            updater: runs on the driver, in the commit phase.
            in_fields: what the updater sees of each row.
            out_schema: what it emits for `TridentState.new_values_stream`, if anything.
        """
        with self._declaring("partition_persist", updater) as title:
            check_unshared(self._graph, state_factory)
            check_instance(updater, StateUpdater, "a state updater")
            operation = UpdatedState(
                title=title,
                name=state_name(self._graph, self._node, self._label, "state", state_factory),
                factory=state_factory,
                updater=updater,
                in_fields=names_of(in_fields),
                out_schema=None if out_schema is None else schema_of(out_schema),
            )
            return TridentState(self._graph, self._graph.add(operation, self._node, label=self._label))

    def write_to(self, sink: TransactionalSink[Any]) -> None:
        """Write each batch to a two-phase sink."""
        with self._declaring("write_to", sink) as title:
            check_instance(sink, TransactionalSink, "a sink")
            check_writing(self._graph, self._node, sink)
            name = state_name(self._graph, self._node, self._label, "sink", sink)
            self._graph.add(WrittenSink(title=title, name=name, sink=sink), self._node, label=self._label)

    # --- for GroupedStream --------------------------------------------------------------------------------------------

    def _aggregate(
        self,
        method: str,
        keys: tuple[str, ...],
        aggregator: AnyAggregator,
        out: str | StructType,
        in_fields: str | Sequence[str] | None,
    ) -> Stream:
        scope = Scope.PARTITION if method == "partition_aggregate" else Scope.BATCH
        with self._declaring(method, aggregator, *keys) as title:
            return self._next(aggregation(title, keys, aggregator, out, in_fields, scope))

    def _persistent_aggregate(
        self,
        keys: tuple[str, ...],
        state_factory: StateFactory,
        aggregator: CombinerAggregator[Any] | ReducerAggregator[Any],
        out_field: str | StructType,
        in_fields: str | Sequence[str] | None,
    ) -> TridentState:
        with self._declaring("persistent_aggregate", aggregator, *keys) as title:
            check_unshared(self._graph, state_factory)
            if isinstance(aggregator, Aggregator):
                raise TopologyError("a state takes a CombinerAggregator or ReducerAggregator; use aggregate first")
            operation = AggregateState(
                title=title,
                name=state_name(self._graph, self._node, self._label, "state", state_factory),
                factory=state_factory,
                aggregator=aggregator,
                aggregation=aggregation(title, keys, aggregator, out_field, in_fields),
            )
            return TridentState(self._graph, self._graph.add(operation, self._node, label=self._label))

    def _window(
        self,
        keys: tuple[str, ...],
        emits_keys: bool,
        window: Window,
        in_fields: str | Sequence[str],
        aggregator: AnyAggregator,
        out_schema: str | StructType,
        store: StateFactory | None,
    ) -> Stream:
        with self._declaring("window", window, aggregator, *keys) as title:
            if store is not None:
                check_unshared(self._graph, store)
            name = state_name(self._graph, self._node, self._label, "window", store)
            factory = store or LocalWindows(self._graph.topology, name)
            operation = window_state(title, name, factory, window, keys, emits_keys, in_fields, aggregator, out_schema)
            state = self._graph.add(operation, self._node, label=self._label)
            return Stream(self._graph, self._graph.add(NewValues("windows that fire"), state))

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _extreme(
        self, method: str, in_field: str | Sequence[str], key: Callable[[Any], Any] | None, *, greatest: bool
    ) -> Stream:
        with self._declaring(method, in_field, *([key] if key else [])) as title:
            fields = compared_fields(in_field)
            if key is None:
                return self._next(ExtremeRow(title, fields, greatest))
            if self.schema is None:
                raise TopologyError("with a key the fields must be known: give transform its schema=")
            select(self.schema, fields)
            best = BestRow(fields, key, greatest=greatest)
            return self.partition_aggregate(best, self.schema).aggregate(best, self.schema)


@frozen
class GroupedStream:
    """A stream whose batches are grouped by some of its fields."""

    _stream: Stream
    group_fields: tuple[str, ...]

    def __repr__(self) -> str:
        return f"GroupedStream({self._stream!r}, group_fields={self.group_fields!r})"

    def to_stream(self) -> Stream:
        """Return the stream again, not grouped."""
        return self._stream

    def aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> Stream:
        """Aggregate each group of the batch: the group fields and the result; no rows for an empty batch."""
        return self._stream._aggregate("aggregate", self.group_fields, aggregator, out, in_fields)

    def partition_aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> Stream:
        """Aggregate each group where it is: it may come once for each partition; see `Stream.aggregate`."""
        return self._stream._aggregate("partition_aggregate", self.group_fields, aggregator, out, in_fields)

    def state_query(
        self,
        state: TridentState,
        in_fields: str | Sequence[str],
        function: QueryFunction[Any, Any],
        out_schema: str | StructType,
    ) -> Stream:
        """Ask as `Stream.state_query` does: whichever part of the state has the key is asked."""
        return self._stream.state_query(state, in_fields, function, out_schema)

    def chained_agg(self) -> ChainedAggregatorDeclarer[Stream]:
        """Chain several aggregators in one pass over each group; see `Stream.chained_agg`."""
        return chained(self._stream, self.group_fields)

    def persistent_aggregate(
        self,
        state_factory: StateFactory,
        aggregator: CombinerAggregator[Any] | ReducerAggregator[Any],
        out_field: str | StructType,
        in_fields: str | Sequence[str] | None = None,
    ) -> TridentState:
        """Aggregate all batches into a value of a state for each group; arguments as in `Stream.aggregate`."""
        return self._stream._persistent_aggregate(self.group_fields, state_factory, aggregator, out_field, in_fields)

    def window(
        self,
        window: Window,
        in_fields: str | Sequence[str],
        aggregator: AnyAggregator,
        out_schema: str | StructType,
        *,
        store: StateFactory | None = None,
    ) -> Stream:
        """Aggregate windows of each group's own rows, over all batches: the group fields and the result.

        A window by count waits for rows of its group, as long as it takes; a group is never forgotten. The arguments
        are those of `Stream.window`.
        """
        return self._stream._window(self.group_fields, True, window, in_fields, aggregator, out_schema, store)


@frozen
class TridentState:
    """A state that a stream is aggregated or persisted into."""

    _graph: Graph
    _node: Node

    def __repr__(self) -> str:
        return f"TridentState(topology={self._graph.topology!r}, name={self.name!r})"

    @property
    def name(self) -> str:
        """Under which it is known in the record, in errors and in ``explain()``."""
        return self._node.operation.name

    def parallelism_hint(self, partitions: int) -> TridentState:
        """Have the factory make so many states of a user's own, each for keys of its own.

        Their ``make_state`` is told which of how many they are. All are in the driver's process and take part in every
        transaction, one after the other; a query asks the part that has the key. With another number keys move to other
        shards. A shipped state is one whatever is said, so that a batch is in it or not.
        """
        with self._graph.declaring(f"parallelism_hint({partitions!r})") as title:
            self._graph.shards[self.name] = parallelism_hint(title, partitions).partitions
            return self

    def new_values_stream(self) -> Stream:
        """Follow what each commit changes: the group fields with the value, or what the updater emits.

        Whatever a stream does can follow, and counts under the same transaction: it is done before the commit ends.
        What Python can do runs on the driver, one transaction after the other; what only Spark can (`transform`, `sql`,
        a `filter` by SQL, `write_to`) is a job of that commit. It can be joined and merged with other new values of the
        same state; a query sees states as they are in mid-commit.
        """
        with self._graph.declaring("new_values_stream()") as title:
            return Stream(self._graph, new_values(self._graph, title, self._node))
