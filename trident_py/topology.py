"""`TridentTopology`: where a program begins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from trident_py.config import TridentConfig
from trident_py.errors import TopologyError
from trident_py.graph import Graph, RequestSource, Source
from trident_py.planner.endings import state_names, unused
from trident_py.planner.explain import explain
from trident_py.planner.plan import plan
from trident_py.planner.queries import StaticState
from trident_py.query import TridentQuery
from trident_py.runtime import start_topology
from trident_py.schema import schema_of, shown
from trident_py.spouts.base import IBatchSpout, ITridentSpout
from trident_py.states.base import StateFactory, StateKind
from trident_py.stream import Stream, TridentState, described

_NAME = re.compile(r"[a-z0-9-]+")


class TridentTopology:
    """A topology: streams from spouts through operations into states and sinks.

    Args:
        name: part of every durable key; lower-case letters, digits and hyphens. A topology that is started again under
            its name goes on where it was.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise TopologyError(f"a topology's name is made of lower-case letters, digits and '-', not {shown(name)}")
        self._graph = Graph(name)

    @property
    def name(self) -> str:
        """Its name."""
        return self._graph.topology

    def new_stream(self, tx_id: str, spout: ITridentSpout[Any] | IBatchSpout) -> Stream:
        """The rows of a spout.

        Args:
            tx_id: under which the spout's position is stored; unique in the topology, and the same in every run.
            spout: an instance of any of the spout interfaces.
        """
        with self._graph.declaring(f"new_stream({tx_id!r})") as title:
            if not isinstance(tx_id, str) or not tx_id or "/" in tx_id:
                raise TopologyError(f"a tx_id is a string that is not empty and has no '/', not {shown(tx_id)}")
            if any(isinstance(node.operation, Source) and node.operation.tx_id == tx_id for node in self._graph.nodes):
                raise TopologyError(f"there is a stream {tx_id!r} already; each has a tx_id of its own")
            if not isinstance(spout, ITridentSpout | IBatchSpout):
                raise TopologyError(f"a spout is an instance of ITridentSpout or IBatchSpout, not {shown(spout)}")
            if not hasattr(spout, "output_schema"):
                raise TopologyError(f"{type(spout).__name__} declares no output_schema, the fields of its rows")
            source = Source(title, tx_id, spout, schema_of(spout.output_schema))
            return Stream(self._graph, self._graph.add(source))

    def new_drpc_stream(self, function: str) -> Stream:
        """The requests of ``TridentQuery.execute(function, args)``, one row each, with the one field ``args string``.

        Every request runs alone through what is declared here; the stream declared last is its answer. It may ask
        states, and change none. There are no servers: requests come from the process that leads (Storm T7, D1-D3).

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
        """A state that the topology only asks, by ``state_query``, and something else fills (Storm T9).

        It is made when the topology starts, once, and asked on the commit thread. It has no part in transactions.
        """
        with self._graph.declaring(f"new_static_state({described(factory)})") as title:
            if not isinstance(factory, StateFactory):
                raise TopologyError(f"a state factory is an instance of StateFactory, not {shown(factory)}")
            if factory.kind is StateKind.FENCED:
                raise TopologyError(
                    f"{factory!r} is filled by a topology; ask it there, or read it by a state of yours"
                )
            name = unused(factory.name or "static-state", state_names(self._graph))
            return TridentState(self._graph, self._graph.add(StaticState(title, name, factory)))

    def start(
        self,
        config: TridentConfig | None = None,
        *,
        spark: SparkSession | None = None,
        code: Path | None = None,
        standby: bool = False,
    ) -> TridentQuery:
        """Plan, acquire leadership, recover, run.

        Args:
            config: how to run it.
            spark: the session to run in, of which a ``newSession()`` is taken; None: the active one, or a local one
                that stops with the topology.
            code: a Python file, or the directory of a package, that user functions are in and that Spark's workers
                can't import by themselves; it travels to them.
            standby: don't wait for an earlier leader to end: return at once, and lead from the moment that nobody else
                does, however late that is. ``status`` says which it is.

        Raises:
            TopologyError: it has no stream, or Spark can't do one of its operations.
            ConfigError: something is missing on this machine.
            FencedError: it runs elsewhere.
            TridentError: its record, a spout, state or sink can't be used as it is.
        """
        if not self._graph.nodes:
            raise TopologyError(f"topology {self.name!r} has no stream; declare one with new_stream")
        return start_topology(
            self.name, plan(self._graph), config or TridentConfig(), spark, code=code, standby=standby
        )

    def explain(self) -> str:
        """The plan as text: phases, Spark stages, states, and the delivery guarantee of every state with its reason."""
        return explain(self._graph)
