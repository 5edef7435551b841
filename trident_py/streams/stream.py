"""The handles with which users declare a topology: streams, grouped streams and states.

Each call checks its arguments, adds a node to the graph, and returns a handle.
"""

# ruff: noqa: SLF001 - streams, groups and states are handles of one graph

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from attrs import frozen
from pyspark.sql.types import StructField, StructType

from trident_py.errors import TopologyError
from trident_py.graph.aggregation import AnyAggregator, Scope, aggregation
from trident_py.graph.bad_rows import bad_rows_of
from trident_py.graph.event_time import EventTime, EventTimeArguments
from trident_py.graph.graph import Graph, Node
from trident_py.graph.joining import Join
from trident_py.graph.keyed import keyed_state
from trident_py.graph.min_by import BestRow, ExtremeRow, compared_fields
from trident_py.graph.naming import default_name, state_name
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
from trident_py.graph.time_join import Sides, join_state
from trident_py.graph.timed_state import TimedResults, TimedState, late_rows
from trident_py.graph.windowing import window_state
from trident_py.graph.writing import check_writing
from trident_py.interfaces.keyed import KeyedFunction
from trident_py.interfaces.operations import Aggregator, Assembly, CombinerAggregator, ReducerAggregator
from trident_py.interfaces.sinks import TransactionalSink
from trident_py.interfaces.states import QueryFunction, StateFactory, StateUpdater
from trident_py.operations.builtin import Count
from trident_py.rows.schema import names_of, schema_of, select, shown
from trident_py.streams.chain import ChainedAggregatorDeclarer, chained
from trident_py.streams.row_stream import RowStream, check_instance
from trident_py.windows.window_store import LocalWindows
from trident_py.windows.windows import EventTimeOptions, Window


# large: one method for each operation, so that they can be chained
@frozen(repr=False)
class Stream(RowStream):
    """Rows with named fields, batch by batch. Immutable: every operation returns another stream.

    If an operation can't work, its call raises `TopologyError`. Some things only Spark can check: a ``Column``, a SQL
    string, fields after `transform` without ``schema=``. They are checked at the start of the topology, before anything
    is emitted.
    """

    # --- state queries ------------------------------------------------------------------------------------------------

    def state_query(
        self,
        state: TridentState,
        in_fields: str | Sequence[str],
        function: QueryFunction[Any, Any],
        out_schema: str | StructType,
    ) -> Stream:
        """Append the values that ``function`` looks up in ``state`` for each row.

        This step runs on the driver. A separate job brings the stream's rows there with all fields, so `project` first.
        The state is read once for the whole batch, on the commit thread between two commits. Then the rows return to
        Spark, at about 100 000 a second. Every state and sink after this step repeats all of it.

        The values seen are committed, but the transactions that they include depend on the moment. With
        ``max_spout_pending`` above 1, earlier transactions may be missing. A replay may see other values, even those
        that a failed attempt of the same transaction left in a state that had already committed. So this step makes
        every stream opaque; see ``explain()``.

        Args:
            state: a state of this topology.
            in_fields: the fields of each row that the function receives; ``[]`` for one without input, such as
                ``SnapshotGet()``.
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
        """Aggregate the batch to one row, even if it is empty; with an `Aggregator`, to the rows that it emits.

        Args:
            aggregator: a built-in one becomes a Spark expression.
            out: the name of the result for a built-in one, ``"name type"`` for others; for an `Aggregator` its fields.
            in_fields: the fields that a user-written one receives; None: its own ``in_fields``, or all if these are
                empty.
        """
        return self._aggregate("aggregate", (), aggregator, out, in_fields)

    def partition_aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> Stream:
        """Aggregate each partition of the batch separately, including empty partitions.

        The last `partition_by`, `shuffle`, `global_` or `parallelism_hint` defines the partitions, if only Python
        operations follow it. Else they are the partitions in which the spout emitted the rows, and an empty one: expect
        the result of no rows among the results. The arguments are those of `aggregate`.
        """
        return self._aggregate("partition_aggregate", (), aggregator, out, in_fields)

    def chained_agg(self) -> ChainedAggregatorDeclarer[Stream]:
        """Chain aggregators in one pass: ``chained_agg().aggregate(…).aggregate(…).chain_end()``."""
        return chained(self, ())

    def min_by(self, in_field: str | Sequence[str], key: Callable[[Any], Any] | None = None) -> Stream:
        """Keep the row of the batch with the least value of a field; no row if no row has a value.

        Of rows with equal values, keep the last. Storm keeps one for each partition.

        Args:
            in_field: the field to compare, or several: a later one decides if all earlier ones are equal.
            key: a function of the value to compare: it receives the field's value, or a `Row` of the values of several
                fields. It runs in Spark tasks, and the fields must be known.
        """
        return self._extreme("min_by", in_field, key, greatest=False)

    def max_by(self, in_field: str | Sequence[str], key: Callable[[Any], Any] | None = None) -> Stream:
        """Keep the row with the greatest value of a field; see `min_by`. NaN is the greatest, as in Spark."""
        return self._extreme("max_by", in_field, key, greatest=True)

    def apply(self, assembly: Assembly | Callable[[Stream], Stream]) -> Stream:
        """Return the result of applying an assembly, such as ``FirstN(10, "score")``, or a function to this stream."""
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
        **event_time: Unpack[EventTimeOptions],
    ) -> Stream:
        """Aggregate windows over the rows of all batches; each window that fires makes a row.

        The window is a state. Batches are added to it in order, in the commit phase, under the transaction's token. So
        each row is in its windows once, and each window fires in one transaction. The operations that follow belong to
        that transaction; see `TridentState.new_values_stream`. There is one window for the whole stream; directly after
        `partition_by`, or `group_by`, one for each value. Windows without rows never fire. The row of a window by time
        ends with ``window_start`` and ``window_end``; its rows are from the first until before the second.

        Args:
            window: `TumblingCount`, `SlidingCount`, `TumblingDuration`, `SlidingDuration` or `SessionWindow`.
            in_fields: the fields that the aggregator may read of each row; ``[]``: the fields that a built-in one
                declares.
            aggregator: of any kind. It runs on the driver, over all rows of a window; a built-in combiner over fixed
                spans of event time runs in the tasks. Its `Aggregator.init` receives the number of the window, from 1;
                for a window by time its end, in microseconds since the epoch.
            out_schema: the name of the result for a built-in aggregator, ``"name type"`` for others.
            store: the store of the rows, for this window only: a fenced state such as `PostgresState`. None: a SQLite
                database in the ``state_dir``, under the name of the stream; set that with `name`.
            **event_time: ``timestamp``, ``watermark``, ``idle``, ``by`` and ``max_ahead``, see `EventTimeOptions`.
                Without them, a window by time uses the time of transactions, and fires with the first one after its
                end.
        """
        given = EventTimeArguments(**event_time)
        keys = self._node.operation.spread_by
        return self._window(keys, False, window, in_fields, aggregator, out_schema, store, given)

    def late_rows(self) -> Stream:
        """Return the late rows; call it on the stream of a window or function with ``timestamp=``.

        No window has them, and no function receives them. They have the fields before it, then ``late_reason`` and
        ``late_watermark``. The reason is ``late``, ``too far ahead`` or ``no timestamp``. Each row comes in its own
        transaction, as the results do.

        Call it on the stream of a join with ``within=`` for the rows that are not joined. They have the fields of the
        join, with nulls for the other side, then ``late_side``, which is ``left`` or ``right``, and the other two.
        """
        with self._declaring("late_rows") as title:
            late, (window,) = late_rows(title, self._node), self._node.inputs
            return Stream(self._graph, self._graph.add(late, window))

    # --- ends ---------------------------------------------------------------------------------------------------------

    def partition_persist(
        self,
        state_factory: StateFactory,
        updater: StateUpdater[Any],
        in_fields: str | Sequence[str],
        out_schema: str | StructType | None = None,
    ) -> TridentState:
        """Pass the rows of each batch, all at once, to a user-written updater of a state.

        Args:
            state_factory: makes the state; its ``begin_commit`` and ``commit`` enclose each batch.
            updater: runs on the driver, in the commit phase.
            in_fields: the fields of each row that the updater receives.
            out_schema: the fields that it emits for `TridentState.new_values_stream`, if any.
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

    def on_error(self, to: TransactionalSink[Any] | StateFactory | None = None) -> Stream:
        """Leave out the rows of the spout over which a row function raises, and return them as a stream.

        It concerns each branch through this stream, and in it the row functions (`map`, `map_async`, `flat_map`,
        `filter`, `each`, `peek`) between the spout and the first other operation. If one raises, nothing that came of
        the spout's row is in that branch. The row counts in this stream instead, in the same transaction.

        The rows have the fields of the spout, and ``_error string``, ``_operation string`` and ``_txid bigint``. More
        bad rows in one branch of a batch than ``TridentConfig(bad_rows_max=…)`` allows fail the batch.

        Args:
            to: a sink for the rows, or the factory of a state: its keys are the rows, with ``error``, ``operation`` and
                ``txid``, and its value ``count`` is how often each came. If nothing reads the stream, the rows are in a
                table in the ``state_dir``, and ``trident dead-letters`` lists them.
        """
        with self._declaring("on_error", *([] if to is None else [to])) as title:
            name = self._label or default_name(self._node, "dead-letters")
            bad = Stream(self._graph, self._graph.add(bad_rows_of(title, self._node), self._node))
            match to:
                case None:
                    pass
                case TransactionalSink():
                    bad.name(name).write_to(to)
                case StateFactory():
                    bad.name(to.name or name)._counted_in(to)
                case _:
                    raise TopologyError(f"to= is a sink or a state factory, not {shown(to)}")
            return bad

    def _counted_in(self, state: StateFactory) -> None:
        """Keep each row as a key, without the underscore before a name, which a table's own columns have."""
        fields = self.schema or StructType()
        plain = StructType([_plain(each, fields) for each in fields.fields])
        named = self if plain == fields else self.map(tuple, plain)
        named.group_by(*plain.names).persistent_aggregate(state, Count(), "count")

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
        event_time: EventTimeArguments,
    ) -> Stream:
        with self._declaring("window", window, aggregator, *keys) as title:
            name, factory = _state(self._graph, self._node, self._label, "window", store)
            operation = window_state(
                title, name, factory, window, keys, emits_keys, in_fields, aggregator, out_schema, event_time
            )
            return _results(self._graph, self._node, self._label, operation, "windows that fire")

    def _process(
        self,
        keys: tuple[str, ...],
        function: KeyedFunction,
        store: StateFactory | None,
        event_time: EventTimeArguments,
    ) -> Stream:
        with self._declaring("process", function, *keys) as title:
            name, factory = _state(self._graph, self._node, self._label, "process", store)
            operation = keyed_state(title, name, factory, function, keys, event_time)
            return _results(self._graph, self._node, self._label, operation, "results of the function")

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
    """A stream with batches grouped by some of its fields."""

    _stream: Stream
    group_fields: tuple[str, ...]

    def __repr__(self) -> str:
        return f"GroupedStream({self._stream!r}, group_fields={self.group_fields!r})"

    def to_stream(self) -> Stream:
        """Return the ungrouped stream."""
        return self._stream

    def aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> Stream:
        """Aggregate each group of the batch: a row has the group fields and the result; no rows for an empty batch."""
        return self._stream._aggregate("aggregate", self.group_fields, aggregator, out, in_fields)

    def partition_aggregate(
        self, aggregator: AnyAggregator, out: str | StructType, in_fields: str | Sequence[str] | None = None
    ) -> Stream:
        """Aggregate each group within its partition: it may come once for each partition; see `Stream.aggregate`."""
        return self._stream._aggregate("partition_aggregate", self.group_fields, aggregator, out, in_fields)

    def state_query(
        self,
        state: TridentState,
        in_fields: str | Sequence[str],
        function: QueryFunction[Any, Any],
        out_schema: str | StructType,
    ) -> Stream:
        """Query as `Stream.state_query` does; each key is looked up in its shard of the state."""
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
        **event_time: Unpack[EventTimeOptions],
    ) -> Stream:
        """Aggregate windows of each group's rows, over all batches: the result has the group fields and the result.

        A window by count waits for rows of its group, without limit; a group is never forgotten. The arguments are
        those of `Stream.window`.
        """
        given = EventTimeArguments(**event_time)
        return self._stream._window(self.group_fields, True, window, in_fields, aggregator, out_schema, store, given)

    def process(
        self, function: KeyedFunction, *, store: StateFactory | None = None, **event_time: Unpack[EventTimeOptions]
    ) -> Stream:
        """Call a function with the rows of each group, a value and timers of the group; return its results.

        The values and timers are a state: batches are added in order, in the commit phase, under the transaction's
        token. So each row counts once, and each timer fires in one transaction. The operations that follow belong to
        that transaction; see `TridentState.new_values_stream`.

        In each transaction the rows come first, by groups in the order of their first rows. Then the timers whose times
        have come fire, in the order of times, and of keys among equal times. A timer fires in the first transaction
        whose time is its time or later. If no rows come, this is a transaction without rows. With ``timestamp=``, it
        fires in the transaction that moves the watermark to its time, and late rows go to `Stream.late_rows`.

        Args:
            function: it receives all fields of the rows. It runs in the driver's process, or in Spark's tasks if the
                ``store`` says so; the timers then fire in this order within each of 16 groups of keys.
            store: the store of the values and timers, for this function only: a fenced state such as `PostgresState`.
                None: a SQLite database in the ``state_dir``, under the name of the stream; set that with `name`.
            **event_time: ``timestamp``, ``watermark``, ``idle``, ``by`` and ``max_ahead``, see `EventTimeOptions`.
                Without them, timers go by the times of transactions.
        """
        return self._stream._process(self.group_fields, function, store, EventTimeArguments(**event_time))


@frozen
class TridentState:
    """A state that a stream is aggregated or persisted into."""

    _graph: Graph
    _node: Node

    def __repr__(self) -> str:
        return f"TridentState(topology={self._graph.topology!r}, name={self.name!r})"

    @property
    def name(self) -> str:
        """The name of the state in the record, in errors and in ``explain()``."""
        return self._node.operation.name

    def parallelism_hint(self, partitions: int) -> TridentState:
        """Set the number of shards of a user-written state; each has other keys.

        Each shard's ``make_state`` receives its index and their number. All shards are in the driver's process and take
        part in every transaction, one after the other; a query reads the shard of its key. If the number changes, keys
        move to other shards. A built-in state always has one shard, so that it applies a batch as a whole or not at
        all.
        """
        with self._graph.declaring(f"parallelism_hint({partitions!r})") as title:
            self._graph.shards[self.name] = parallelism_hint(title, partitions).partitions
            return self

    def new_values_stream(self) -> Stream:
        """Return the stream of each commit's changes: group fields and value, or the rows that the updater emits.

        All operations of a stream can follow. They count under the same transaction, and run before the commit ends.
        Python operations run on the driver, one transaction after the other. Operations that need Spark (`transform`,
        `sql`, a `filter` by SQL, `write_to`) run as a job of that commit. The stream can be joined and merged with
        other new values of the same state. A query sees states as they are in mid-commit.
        """
        with self._graph.declaring("new_values_stream()") as title:
            return Stream(self._graph, new_values(self._graph, title, self._node))


def joined_over_time(
    streams: tuple[Stream, Stream],
    join: Join,
    times: tuple[int, tuple[EventTime, EventTime]],
    store: StateFactory | None,
) -> Stream:
    """Declare a join over time of two streams of one topology; for `TridentTopology.join`."""
    graph = streams[0]._graph
    label = "-".join(dict.fromkeys(each._label for each in streams if each._label)) or None
    sides = graph.add(Sides("left and right"), *(each._node for each in streams))
    name, factory = _state(graph, sides, label, "join", store)
    return _results(graph, sides, label, join_state(join, name, factory, times), "joined rows")


def _state(
    graph: Graph, source: Node, label: str | None, kind: str, store: StateFactory | None
) -> tuple[str, StateFactory]:
    """Return the name and the factory of a state that waits for a time."""
    if store is not None:
        check_unshared(graph, store)
    name = state_name(graph, source, label, kind, store)
    return name, store or LocalWindows(graph.topology, name)


def _results(graph: Graph, source: Node, label: str | None, operation: TimedState, title: str) -> Stream:
    """Add a state that waits for a time, and return the stream of its results."""
    state = graph.add(operation.traced(source), source, label=label)
    return Stream(graph, graph.add((TimedResults if operation.times else NewValues)(title), state))


def _plain(field: StructField, among: StructType) -> StructField:
    name = field.name.removeprefix("_")
    return field if name in among.names else StructField(name, field.dataType, field.nullable)
