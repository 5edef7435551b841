"""From the graph to a plan: the spouts, and a branch of operations for each state, sink or unconsumed stream.

`check` completes the plan: Spark analyses the operations over empty frames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from attrs import evolve, field, frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from coordinators.values.attempt import TransactionAttempt
from trident_py.errors import TopologyError
from trident_py.graph.bad_rows import DEAD_LETTERS
from trident_py.graph.flow import Flow
from trident_py.graph.graph import Graph, Node, Operation, Phase, Source
from trident_py.graph.naming import state_names, unused
from trident_py.graph.output import CommitStream, Output, OutputPlace, output_of
from trident_py.graph.partitioning import fields_before, hint_before, hinted
from trident_py.graph.queries import StateQuery
from trident_py.interfaces.spouts import ITridentSpout
from trident_py.planner.quarantine import DividedBranch, Division, RowFunctions, begun_at, row_functions
from trident_py.spark.frames import DeferredScan, empty_frame
from trident_py.spouts.adapting import as_trident_spout
from trident_py.worker.counters import building, counting_at
from trident_py.worker.pipeline import RowPipeline


def placed(graph: Graph, node: Node) -> OutputPlace | None:
    """Return the output of ``node``, with its known fields; None if the node is not an output."""
    output = output_of(node)
    if output is None:
        return None
    return _placed(graph, node, output.settled(graph.consumers(node)), by_tasks=True)


def shards_of(graph: Graph, node: Node, output: Output) -> int:
    """Return into how many shards the state or sink at ``node`` is divided; 1: it isn't."""
    return output.shards(graph.shards.get(output.name, 0), hint_before(node.inputs[0]))


def _placed(graph: Graph, node: Node, output: Output, *, by_tasks: bool) -> OutputPlace:
    return OutputPlace(
        output=output,
        source=node.inputs[0].schema or StructType(),
        emits=node.schema or StructType(),
        shards=shards_of(graph, node, output),
        spread_by=fields_before(node.inputs[0]),
        new_values=_new_values(graph, node),
        by_tasks=by_tasks,
    )


def _new_values(graph: Graph, state: Node) -> CommitStream | None:
    origins = graph.consumers(state)
    if not origins:
        return None
    ends = tuple(dict.fromkeys(end for each in origins for end in _ends(graph, each)))
    outputs = {end: output for end in ends if (output := output_of(end)) is not None}
    return CommitStream(
        origins=frozenset(origins),
        ends=ends,
        outputs={end: _placed(graph, end, output, by_tasks=False) for end, output in outputs.items()},
    )


def _ends(graph: Graph, node: Node) -> list[Node]:
    """Return the nodes at which the paths from ``node`` end."""
    following = graph.consumers(node)
    if output_of(node) is not None or not following:
        return [node]
    return [end for each in following for end in _ends(graph, each)]


Ask: TypeAlias = Callable[[StateQuery, Flow], Flow]
"""Queries a state: runs the operations before the query, and returns the rows with the answers."""


@frozen(kw_only=True)
class SpoutPlan:
    """A spout of a plan.

    Attributes:
        tx_id: the id under which its position is stored.
        schema: the fields of its rows.
    """

    tx_id: str
    spout: ITridentSpout[Any]
    schema: StructType


@frozen(kw_only=True)
class Branch:
    """The path of a batch to one state or sink, or to an unconsumed stream: one Spark job for every attempt.

    Attributes:
        name: the name of the state or sink; unique among the branches.
        spouts: the ``tx_id`` of each spout that it reads.
        end: its last node.
        output: the output of the result; None for an unconsumed stream.
        leading: by spout, the row functions in front of everything else, if rows over which one raises are left out. If
            a batch has such rows, these functions run when the spout emits.
        collects: the branches whose bad rows it reads, in the place of the rows of its spouts.
    """

    name: str
    spouts: tuple[str, ...]
    end: Node
    output: OutputPlace | None
    leading: Mapping[str, RowFunctions] = field(factory=dict)
    collects: frozenset[str] = frozenset()

    @property
    def keeps_letters(self) -> bool:
        """Whether it reads dead letters, which trident_py keeps."""
        return bool(self.collects) and any(source.schema == DEAD_LETTERS for source in self.end.sources)

    def build(
        self,
        frames: Mapping[str, DataFrame | DeferredScan],
        batch_id: TransactionAttempt | None = None,
        ask: Ask | None = None,
        sifted: Collection[str] = (),
    ) -> DataFrame:
        """Return the operations on a batch as DataFrame expressions; only ``ask`` may run an action.

        Args:
            frames: the batch of each of ``spouts``, with the spout's fields in order.
            batch_id: the batch id that an `Aggregator` receives.
            ask: runs a ``state_query``; required if the branch has one.
            sifted: the spouts whose frames are the output of `leading`.
        """
        # A spout that is read more than once is read unchanged, so that its tasks report under one name.
        given = {
            spout: each.frame() if isinstance(each, DeferredScan) and spout in self.rereads else each
            for spout, each in frames.items()
        }
        return _built(self.begun(sifted), given, batch_id, ask).native()

    def begun(self, sifted: Collection[str]) -> Node:
        """Return its last node, of a branch that begins behind the `leading` of these spouts."""
        end = self.end
        for each in (self.leading[spout] for spout in sifted if spout in self.leading):
            end = begun_at(end, each.last, each.pipeline.target)
        return end

    def row_functions(self) -> dict[str, list[RowPipeline]]:
        """Return the row functions before everything else, of each path, by the spout at which it begins."""
        found: dict[str, list[RowPipeline]] = {}
        for each in row_functions(self.end):
            found.setdefault(each.spout, []).append(each.pipeline)
        return found

    @property
    def rereads(self) -> frozenset[str]:
        """The spouts that it reads more than once, because several paths from one spout meet in a merge or join."""
        read = Counter(source.tx_id for source in self.end.sources)
        return frozenset(spout for spout, times in read.items() if times > 1)

    @property
    def reads_all(self) -> bool:
        """Whether it certainly reads every row; the user's ``transform`` may have a ``limit``."""
        return all(node.operation.reads_all for node in self.end.ancestry)


@frozen
class Plan:
    """A plan: the spouts and branches that run.

    Attributes:
        graph: the declared graph.
        spouts: the spouts, in the order of their declaration.
        branches: the branches with known fields. Branches after a ``transform`` without schema are added by `check`.
    """

    graph: Graph
    spouts: tuple[SpoutPlan, ...]
    branches: tuple[Branch, ...]


def plan(graph: Graph) -> Plan:
    """Return the plan, as far as it is known without Spark."""
    spouts = tuple(map(_spout_plan, graph.sources))
    ends = ends_of(graph)
    known = [(name, node) for name, node in ends if all(each.schema is not None for each in node.ancestry)]
    divided = Division(graph, ends).branches()
    return Plan(graph, spouts, tuple(_branch(graph, name, node, divided.get(name)) for name, node in known))


def check(planned: Plan, spark: SparkSession) -> Plan:
    """Let Spark analyse every operation over empty frames, without running a job; return the whole plan.

    Raises:
        TopologyError: Spark can't run an operation; the message names it.
        StateError: a state can't hold values of a type that only Spark could determine.
    """
    graph = planned.graph
    checked: dict[Node, Node] = {}
    flows: dict[Node, Flow] = {}
    for node in graph.nodes:
        with graph.declaring(node.operation.title):
            inputs = tuple(checked[each] for each in node.inputs)
            flows[node], found = _analysed(node.operation, inputs, [flows[each] for each in node.inputs], spark)
            checked[node] = _known(node, node.operation.with_schema(found), inputs)
    return plan(Graph(graph.topology, list(checked.values()), graph.shards, graph.migrations))


def _analysed(
    operation: Operation, nodes: tuple[Node, ...], inputs: list[Flow], spark: SparkSession
) -> tuple[Flow, StructType]:
    fields = operation.origin([node.fields for node in nodes])
    if fields is not None:
        return Flow.of(empty_frame(spark, fields), fields), fields
    try:
        flow = operation.build(inputs, None)
        return flow, flow.native().schema
    except TopologyError:
        raise
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise TopologyError(f"Spark can't run it: {type(error).__name__}: {reason}") from error


def _known(node: Node, operation: Operation, inputs: tuple[Node, ...]) -> Node:
    schemas = [each.schema for each in inputs if each.schema is not None]
    return evolve(node, operation=operation, inputs=inputs, schema=operation.output(schemas))


def _built(
    node: Node, frames: Mapping[str, DataFrame | DeferredScan], batch_id: TransactionAttempt | None, ask: Ask | None
) -> Flow:
    if isinstance(node.operation, Source):
        return Flow.of(frames[node.operation.tx_id], node.operation.schema)
    inputs = [_built(each, frames, batch_id, ask) for each in node.inputs]
    name = f"node {node.number}"
    with building(name):
        counting_at(name)
        if isinstance(node.operation, StateQuery) and ask is not None:
            return ask(node.operation, inputs[0])
        return node.operation.build(inputs, batch_id)


def _spout_plan(source: Source) -> SpoutPlan:
    return SpoutPlan(tx_id=source.tx_id, spout=as_trident_spout(source.spout), schema=source.schema)


def _branch(graph: Graph, name: str, node: Node, divided: DividedBranch | None) -> Branch:
    begun, place = divided or DividedBranch(node), placed(graph, node)
    end = place.output.at_end(begun.end) if place else begun.end
    leading = {each.spout: each for each in row_functions(end) if each.spout in begun.leading}
    return Branch(
        name=name,
        spouts=node.spouts,
        end=hinted(end),
        output=place,
        leading=leading,
        collects=begun.collects,
    )


def ends_of(graph: Graph) -> list[tuple[str, Node]]:
    """Return the nodes of the processing phase at which batches end, each with a unique name."""
    ends: list[tuple[str, Node]] = []
    taken = state_names(graph)
    for node in graph.nodes:
        output = output_of(node)
        if output is not None and node.phase is Phase.PROCESSING:
            ends.append((output.name, node))
        elif node.phase is Phase.PROCESSING and all(each.operation.collects for each in graph.consumers(node)):
            name = unused(node.label or "-".join(node.spouts), taken)
            taken.add(name)
            ends.append((name, node))
    return ends
