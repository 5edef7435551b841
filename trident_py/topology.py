"""`TridentTopology`: the start of every program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Unpack

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from coordinators.backends.coordination import Coordination
from coordinators.status.listener import TridentListener
from coordinators.values.errors import located
from coordinators.values.log_fields import logging_about
from trident_py.engine.monitoring.listeners import listening
from trident_py.errors import TopologyError
from trident_py.graph.graph import Graph, Node, RequestSource, Source
from trident_py.graph.joining import Merge, join_all_of, join_of
from trident_py.graph.migrations import DeclaredMigration
from trident_py.graph.multi import MultiReduce
from trident_py.graph.naming import state_names, unused
from trident_py.graph.queries import StaticState
from trident_py.graph.time_join import JoinTimeArguments
from trident_py.graph.tracing import check_partition_fields
from trident_py.history.recorder import recorded, this_program
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.operations import GroupedMultiReducer, MultiReducer
from trident_py.interfaces.states import StateFactory
from trident_py.planner.explain import diagram, explain
from trident_py.planner.migrations import check_migrations
from trident_py.planner.plan import plan
from trident_py.query import TridentQuery
from trident_py.rows.schema import names_of, schema_of, shown
from trident_py.runtime import start_topology
from trident_py.spouts.adapting import SPOUTS, AnySpout
from trident_py.streams.dead_letters import with_dead_letters
from trident_py.streams.row_stream import described
from trident_py.streams.stream import GroupedStream, Stream, TridentState, joined_over_time
from trident_py.telemetry.installed import installed_listeners
from trident_py.web.serving import served
from trident_py.windows.join_store import JoinTimeOptions

_NAME = re.compile(r"[a-z0-9-]+")


# large: one method for each thing that a topology declares
class TridentTopology:
    """A topology: streams from spouts through operations into states and sinks.

    Args:
        name: part of every durable key: lower-case letters, digits and hyphens. A topology that is started again under
            its name continues after its last committed transaction.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise TopologyError(f"a topology's name is made of lower-case letters, digits and '-', not {shown(name)}")
        self._graph = Graph(name)

    def __repr__(self) -> str:
        return f"TridentTopology({self.name!r})"

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self._graph.topology

    def new_stream(self, tx_id: str, spout: AnySpout) -> Stream:
        """Begin a stream with the rows of a spout.

        Args:
            tx_id: the id under which the spout's position is stored; unique in the topology, and the same in every run.
            spout: an instance of any of the spout interfaces.
        """
        with self._graph.declaring(f"new_stream({tx_id!r})") as title:
            if not isinstance(tx_id, str) or not tx_id or "/" in tx_id:
                raise TopologyError(f"a tx_id is a string that is not empty and has no '/', not {shown(tx_id)}")
            if any(source.tx_id == tx_id for source in self._graph.sources):
                raise TopologyError(f"there is a stream {tx_id!r} already; each has a tx_id of its own")
            if not isinstance(spout, SPOUTS):
                kinds = ", ".join(kind.__name__ for kind in SPOUTS)
                raise TopologyError(f"a spout is an instance of one of {kinds}, not {shown(spout)}")
            if not hasattr(spout, "output_schema"):
                raise TopologyError(f"{type(spout).__name__} declares no output_schema, the fields of its rows")
            source = Source(title, tx_id, spout, schema_of(spout.output_schema))
            check_partition_fields(source)
            rows = Stream(self._graph, self._graph.add(source))
        return rows.map(spout.decoder.function, spout.decoder.fields) if spout.decoder else rows

    def new_drpc_stream(self, function: str) -> Stream:
        """Declare a request function: a stream of the requests of ``TridentQuery.execute(function, args)``.

        Each request is one row, with the field ``args string``. It runs alone through the operations declared on this
        stream; the stream declared last is its answer. It may read states, but change none. Requests come from the
        leading process, or over HTTP if ``TridentConfig.serve`` is set.

        Args:
            function: a name, unique in the topology.
        """
        with self._graph.declaring(f"new_drpc_stream({function!r})") as title:
            if not isinstance(function, str) or not function:
                raise TopologyError(f"a function's name is a string that is not empty, not {shown(function)}")
            if any(function in node.requests for node in self._graph.nodes):
                raise TopologyError(f"there is a function {function!r} already; each has a name of its own")
            return Stream(self._graph, self._graph.add(RequestSource(title, function)))

    def new_static_state(self, factory: StateFactory) -> TridentState:
        """Declare a state that the topology only reads, by ``state_query``; another program writes it.

        It is made once, when the topology starts, and read on the commit thread. It takes no part in transactions. A
        ``SQLiteState`` or ``PostgresState`` reads the table that another topology has written so far. The start checks
        that the table exists and has keys of the queried types.
        """
        with self._graph.declaring(f"new_static_state({described(factory)})") as title:
            if not isinstance(factory, StateFactory):
                raise TopologyError(f"a state factory is an instance of StateFactory, not {shown(factory)}")
            read = factory.for_reading()
            name = unused(read.name or "static-state", state_names(self._graph))
            return TridentState(self._graph, self._graph.add(StaticState(title, name, read)))

    def merge(self, *streams: Stream) -> Stream:
        """Merge the rows of several streams within each batch, under the field names of the first stream.

        Raises:
            TopologyError: there is no stream, one belongs to another topology, or their types differ.
        """
        with self._graph.declaring(f"merge({len(streams)} streams)") as title:
            nodes = self._nodes(*streams)
            if not nodes:
                raise TopologyError("name the streams to merge")
            return Stream(self._graph, self._graph.add(Merge(title), *nodes))

    def join(
        self,
        left: Stream,
        left_keys: str | Sequence[str],
        right: Stream,
        right_keys: str | Sequence[str],
        fields: str | Sequence[str],
        how: Literal["inner", "left", "outer"] = "inner",
        *,
        preserve: bool = False,
        **over_time: Unpack[JoinTimeOptions],
    ) -> Stream:
        """Join the rows with equal keys: within each batch, or over time if ``within=`` is given.

        Within a batch, a transaction's batches of all spouts are joined. A null equals a null, as in ``group_by``.

        Over time, rows are joined if their times differ by at most ``within``, whichever transactions bring them. A
        null matches nothing. The rows are kept in a state, and the next operations run in its commits, as for windows.

        Args:
            left: a stream of this topology.
            left_keys: its key fields.
            right: another stream, or the same one.
            right_keys: its key fields: the same number and types.
            fields: the names of the result: the keys, the other fields of ``left``, the other fields of ``right``.
            how: the rows that come without a partner, with nulls for its fields: none, those of ``left``, or all.
            preserve: the result has all fields of ``left``, then all fields of ``right``, including keys. Those of a
                missing partner are null, including its keys. This is Storm's ``JoinOutFieldsMode.PRESERVE``.
            **over_time: for a join over time; see `JoinTimeOptions` and `Stream.late_rows`.

        Raises:
            TopologyError: a field doesn't exist, keys differ in number or type, or ``fields`` has the wrong length.
        """
        within = [f"within={over_time['within']}"] if "within" in over_time else []
        with self._graph.declaring(f"join({', '.join([*map(repr, (left_keys, right_keys, how)), *within])})") as title:
            nodes, times = self._nodes(left, right), JoinTimeArguments(**over_time).checked()
            joined = join_of(title, left_keys, right_keys, fields, how, preserve=preserve)
            if times is None:
                return Stream(self._graph, self._graph.add(joined, *nodes))
            return joined_over_time((left, right), joined, times, over_time.get("store"))

    def join_all(
        self,
        streams: Sequence[Stream],
        keys: Sequence[str | Sequence[str]],
        fields: str | Sequence[str],
        how: Literal["inner", "outer"] | Sequence[Literal["inner", "outer"]] = "inner",
        *,
        preserve: bool = False,
    ) -> Stream:
        """Combine the rows of two or more streams with equal keys, within each batch.

        Args:
            streams: streams of this topology.
            keys: the key fields of each stream.
            fields: the field names of the result: the keys, then the other fields of each stream.
            how: for each stream, or for all: ``"inner"`` if a result row needs a row of this stream, ``"outer"`` if
                missing fields become nulls.
            preserve: the result has all fields of each stream, including keys, as in `join`.

        Raises:
            TopologyError: as in `join`.
        """
        given = list(keys) if isinstance(keys, Iterable) else [keys]
        with self._graph.declaring(f"join_all({', '.join(map(repr, given))}, {how!r})") as title:
            nodes = self._nodes(*streams)
            if len(nodes) < 2 or len(nodes) != len(given):
                raise TopologyError(f"name two streams or more, and keys for each, not {len(nodes)} and {len(given)}")
            return Stream(
                self._graph, self._graph.add(join_all_of(title, given, fields, how, preserve=preserve), *nodes)
            )

    def multi_reduce(
        self,
        streams: Sequence[Stream] | Sequence[GroupedStream],
        reducer: MultiReducer[Any] | GroupedMultiReducer[Any],
        out_schema: str | StructType,
        in_fields: Sequence[str | Sequence[str]] | None = None,
    ) -> Stream:
        """Reduce the rows of several streams, within each batch; return the stream of the rows that the reducer emits.

        Args:
            streams: ungrouped ones for a `MultiReducer`, which sees the whole batch; grouped ones for a
                `GroupedMultiReducer`, with the same number and types of group fields.
            reducer: runs in Spark tasks.
            out_schema: the fields that it emits; the result has no other fields.
            in_fields: for each stream, the fields that the reducer receives; None: all fields.

        Raises:
            TopologyError: streams and reducer don't match, or a field doesn't exist.
        """
        with self._graph.declaring(f"multi_reduce({described(reducer)}, {len(streams)} streams)") as title:
            kind, wanted = (GroupedStream, "grouped") if isinstance(reducer, GroupedMultiReducer) else (Stream, "plain")
            if not isinstance(reducer, MultiReducer | GroupedMultiReducer):
                raise TopologyError(f"a reducer is a MultiReducer or GroupedMultiReducer, not {shown(reducer)}")
            if not streams or not all(isinstance(each, kind) for each in streams):
                raise TopologyError(
                    f"{type(reducer).__name__} takes {wanted} streams, at least one, not {shown(streams)}"
                )
            keys = [each.group_fields if isinstance(each, GroupedStream) else () for each in streams]
            seen = [names_of(each) for each in in_fields or [()] * len(streams)]
            if len(seen) != len(streams) or len(set(map(len, keys))) > 1:
                raise TopologyError("each stream has its in_fields, and as many group fields as the others")
            nodes = self._nodes(*(each.to_stream() if isinstance(each, GroupedStream) else each for each in streams))
            operation = MultiReduce(title, tuple(keys), tuple(seen), reducer, schema_of(out_schema))
            return Stream(self._graph, self._graph.add(operation, *nodes))

    def migrate(
        self,
        state_or_spout: str,
        *,
        rename: str | Mapping[str, str] | None = None,
        widen: Mapping[str, str] | None = None,
        add: Mapping[str, Any] | None = None,
        with_: Callable[[Any], Any] | None = None,
        drop: bool = False,
    ) -> None:
        """Declare that a stored spout, state or sink continues under this program, although it has changed.

        The next start carries it out, before anything is read, or refuses it and changes nothing. If the start is
        killed, the next one continues. Afterwards the call changes nothing, and may stay in the program.
        `docs/how-to/migrating-state.md` says what survives which change.

        Args:
            state_or_spout: the name under which it is stored.
            rename: its new name, or new names of a state's key and value fields, as ``{"old": "new"}``. A SQL state
                is named after its table, which is renamed, too.
            widen: new types by field, under the new names: a longer integer, a double for a float, a decimal with
                more digits.
            add: the values of fields that are added at the end of a struct, which is the state's value.
            with_: a function that returns the new value for each value, if its type or the aggregator has changed. It
                is called on the driver, more than once for a value. A function migrates a state once, by its name.
            drop: forget a spout's position, or a state that is not declared any more; its table stays as it is.

        Raises:
            TopologyError: an argument is wrong, or none says what changes.
        """
        with self._graph.declaring(f"migrate({state_or_spout!r})"):
            call = DeclaredMigration.of(state_or_spout, rename, widen, add, with_, drop)
            self._graph.migrations.append(call)

    def _nodes(self, *streams: Stream) -> list[Node]:
        nodes: list[Node] = []
        for stream in streams:
            if not isinstance(stream, Stream):
                raise TopologyError(f"a stream is an instance of Stream, not {shown(stream)}")
            nodes.append(stream._node)  # noqa: SLF001 - a stream is a handle of it
            if not any(node is nodes[-1] for node in self._graph.nodes):
                raise TopologyError("a stream of another topology can't take part")
        return nodes

    def start(
        self,
        config: TridentConfig | None = None,
        *,
        spark: SparkSession | None = None,
        listeners: Sequence[TridentListener] = (),
        code: Path | Sequence[Path] = (),
        coordination: Coordination | None = None,
        standby: bool = False,
    ) -> TridentQuery:
        """Plan the topology, acquire leadership, recover and run.

        Args:
            config: the settings of this run.
            spark: the session to run in; the topology uses a ``newSession()`` of it. None: the active session, or a
                local one that stops with the topology.
            listeners: receive events, from this start on; docs/how-to/observing.md lists them.
            code: Python files, archives, or directories of packages, which user functions need and Spark's workers
                can't import by themselves. They are sent to the workers.
            coordination: stores the record and elects the leader, such as the `LocalCoordination` of
                ``trident_py.testing``; None: ZooKeeper, as ``config`` says.
            standby: don't wait until an earlier leader ends. Return at once, and lead as soon as no other process does.
                ``status`` shows whether this process leads.

        Raises:
            TopologyError: it has no stream, or Spark can't run one of its operations. Or it has changed since its last
                start in a way that would count rows twice, skip or mix them, and ``config.accept`` doesn't accept the
                change.
            ConfigError: a requirement is missing on this machine.
            FencedError: the topology runs in another process.
            TridentError: its record, a spout, state or sink can't be used in its present condition.
        """
        with located(topology=self.name), logging_about(topology=self.name):
            if not self._graph.nodes:
                raise TopologyError(f"topology {self.name!r} has no stream; declare one with new_stream")
            placed, where = (config or TridentConfig()).placed(coordination), coordination
            return _started(self._graph, placed, spark, listeners, code=code, coordination=where, standby=standby)

    def explain(self) -> str:
        """Return the plan as text.

        It shows phases, Spark stages, states, and the delivery guarantee of every state with its reason.
        """
        return explain(self._graph)


def _started(
    graph: Graph,
    config: TridentConfig,
    spark: SparkSession | None,
    listeners: Sequence[TridentListener],
    *,
    code: Path | Sequence[Path],
    coordination: Coordination | None,
    standby: bool,
) -> TridentQuery:
    """Start the declared topology, with its listeners, history and page."""
    check_migrations(graph)
    declared, graph = graph, with_dead_letters(graph, config)
    if graph is not declared:
        config.state_dir.mkdir(parents=True, exist_ok=True)
    name, planned = graph.topology, plan(graph)
    program = cache(lambda: this_program(code, diagram(graph)))
    told = listening(name, [*listeners, *installed_listeners(name)])
    with served(name, config, program, [each.spout for each in planned.spouts]) as page:
        told = page.listening(recorded(told, config.history_place, name, program))
        query = start_topology(
            name,
            planned,
            config,
            spark,
            told,
            code=code,
            coordination=coordination,
            standby=standby,
            address=page.address,
        )
        page.show(query)
    return query
