"""From what the planner says ends a branch to the participant that does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from coordinators.record import CoordinatorRecord
from trident_py.engine.commit_lane import torn_upto
from trident_py.engine.participants import Leaf, Participant, SinkParticipant
from trident_py.engine.shape import BranchShape, SpoutShape, TopologyShape
from trident_py.engine.spout_executor import TridentSpoutExecutor
from trident_py.engine.staged import StagedParticipant
from trident_py.engine.states import (
    AggregateParticipant,
    StateParticipant,
    Tail,
    UpdateParticipant,
    WindowParticipant,
)
from trident_py.errors import StateError
from trident_py.graph.graph import Graph
from trident_py.graph.outputs import AggregateState, UpdatedState
from trident_py.graph.queries import StateQuery, static_states
from trident_py.graph.windowing import WindowState, WindowUpdater
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.operations import CombinerAggregator
from trident_py.interfaces.sinks import SinkTransaction
from trident_py.interfaces.states import StagingState, State, StateFactory
from trident_py.planner.commits import CommitStream, PartitionPersist, PersistentAggregate, SinkWrite
from trident_py.planner.plan import Branch
from trident_py.rows.schema import select, shown
from trident_py.states.parts import PartitionedState, parts_of
from trident_py.states.sql.reading import TableReader


def ensure_stores(graph: Graph) -> None:
    """Look whether the stores of all states are there, before anything is made or started.

    Raises:
        StateError: one isn't.
    """
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, AggregateState | UpdatedState | WindowState):
            with graph.declaring(f"state {operation.name!r}", operation.name):
                operation.factory.ensure_usable()


def participant_of(branch: Branch, config: TridentConfig, metrics: Metrics) -> Participant:
    """The participant at the end of ``branch``, with its state made."""
    match branch.committer:
        case None:
            return Leaf(branch.name)
        case SinkWrite(name=name, sink=sink):
            return SinkParticipant(name, sink)
        case PersistentAggregate() as aggregate:
            return _aggregating(aggregate, config, metrics, by_tasks=True)
        case PartitionPersist() as persist:
            return _updating(persist, config, metrics)


def shape_of(
    spouts: Mapping[str, TridentSpoutExecutor],
    branches: Sequence[frozenset[str]],
    participants: Sequence[Participant],
    shareable: Collection[int],
) -> TopologyShape:
    """What the data plane has to know of a topology.

    Args:
        spouts: the emitters, by spout.
        branches: for each branch, the spouts that it reads.
        participants: their outputs.
        shareable: the branches that may share jobs.
    """
    return TopologyShape(
        spouts=tuple(SpoutShape(name=name, is_committer=each.is_committer) for name, each in spouts.items()),
        branches=tuple(
            BranchShape(
                name=participant.name,
                spouts=reads,
                is_shareable=number in shareable,
                commits=participant.commits,
                keeps_alive=participant.is_ours,
                is_fenced=participant.is_fenced,
            )
            for number, (reads, participant) in enumerate(zip(branches, participants, strict=True))
        ),
    )


def everything(participants: list[Participant]) -> list[Participant]:
    """These participants, and the states that their new values go into."""
    found: list[Participant] = []
    for participant in participants:
        fed = list(participant.fed) if isinstance(participant, StateParticipant) else []
        found += [participant, *everything([*fed])]
    return found


def states_of(
    participants: list[Participant], graph: Graph, config: TridentConfig, metrics: Metrics
) -> dict[str, State]:
    """All states by name; those that nothing writes are made here.

    Raises:
        StateError: a factory has made something else than is needed, or a query can't ask such a state.
        TopologyError: what is asked for are no keys of another topology's table.
    """
    written = [each for each in everything(participants) if isinstance(each, StateParticipant)]
    states = {each.name: each.state for each in written}
    for static in static_states(graph):
        with graph.declaring(static.title, static.name):
            states[static.name] = _made(static.factory, config, metrics)
    for name, part in [(name, part) for name, state in states.items() for part in parts_of(state)]:
        with graph.declaring(f"state {name!r}", name):
            if not isinstance(part, State):
                raise StateError(f"its factory must make a State, it made {shown(part)}")
    for each in written:
        with graph.declaring(f"state {each.name!r}", each.name):
            each.check()
    for node in graph.nodes:
        if isinstance(node.operation, StateQuery):
            with graph.declaring(node.operation.title):
                _check_query(node.operation, node.inputs[0].schema, parts_of(states[node.operation.state])[0])
    return states


def _check_query(query: StateQuery, source: StructType | None, state: State) -> None:
    """The query can ask such a state; of the keys of another topology's table is known only now what they are."""
    if not isinstance(state, query.function.needs):
        wanted = " or ".join(kind.__name__ for kind in query.function.needs)
        raise StateError(
            f"{type(query.function).__name__} asks a {wanted}, and state {query.state!r} is a {type(state).__name__}",
            state=query.state,
        )
    if isinstance(state, TableReader):
        query.function.check(select(source, query.in_fields) if source else None, state.keys, query.out)


def torn_upto_of(participants: list[Participant], record: CoordinatorRecord) -> int:
    """The last transaction that some states may have, and some not; 0: there is none."""
    states = [each for each in everything(participants) if isinstance(each, StateParticipant)]
    last = [state.recovered.txid if state.recovered else 0 for state in states if state.remembers]
    return torn_upto(last, record, all_remember=len(last) == len(states))


def _aggregating(
    aggregate: PersistentAggregate, config: TridentConfig, metrics: Metrics, *, by_tasks: bool
) -> StateParticipant:
    tail, fed = _tail(aggregate.new_values, config, metrics)
    state, aggregator = _made(aggregate.factory, config, metrics, aggregate.parts), aggregate.aggregator
    if isinstance(state, StagingState) and isinstance(aggregator, CombinerAggregator) and tail is None and by_tasks:
        return StagedParticipant(
            name=aggregate.name, state=state, aggregator=aggregator, keys=len(aggregate.keys.fields)
        )
    return AggregateParticipant(
        name=aggregate.name,
        state=state,
        aggregator=aggregator,
        keys=len(aggregate.keys.fields),
        inputs=aggregate.inputs.names,
        tail=tail,
        fed=fed,
    )


def _updating(
    persist: PartitionPersist, config: TridentConfig, metrics: Metrics
) -> UpdateParticipant | WindowParticipant:
    tail, fed = _tail(persist.new_values, config, metrics)
    state = _made(persist.factory, config, metrics, persist.parts)
    inputs, outputs = persist.fields.names, persist.out_schema.names if persist.out_schema else ()
    if isinstance(persist.updater, WindowUpdater):
        return WindowParticipant(
            name=persist.name, state=state, updater=persist.updater, inputs=inputs, outputs=outputs, tail=tail, fed=fed
        )
    return UpdateParticipant(
        name=persist.name,
        state=state,
        updater=persist.updater,
        inputs=inputs,
        outputs=outputs,
        places=persist.places,
        tail=tail,
        fed=fed,
    )


def _fed(persist: PartitionPersist | PersistentAggregate, config: TridentConfig, metrics: Metrics) -> StateParticipant:
    if isinstance(persist, PersistentAggregate):
        return _aggregating(persist, config, metrics, by_tasks=False)
    return _updating(persist, config, metrics)


def _made(factory: StateFactory, config: TridentConfig, metrics: Metrics, parts: int = 1) -> State:
    made = [factory.make_state(config, metrics, number, parts) for number in range(parts)]
    return made[0] if parts == 1 else PartitionedState(made)


def _tail(
    stream: CommitStream | None, config: TridentConfig, metrics: Metrics
) -> tuple[Tail | None, tuple[StateParticipant, ...]]:
    if stream is None:
        return None, ()
    fed: list[StateParticipant] = []
    ways: list[Tail] = []
    if stream.persist is not None:
        state = _fed(stream.persist, config, metrics)
        fed.append(state)
        width = len(stream.persist.fields.names)
        ways.append(lambda tx, rows: state.apply(tx, list(zip(*rows, strict=True)) or [()] * width))
    for each in stream.streams:
        way, below = _tail(each, config, metrics)
        fed.extend(below)
        ways.extend([way] if way else [])

    def run(tx: SinkTransaction, values: list[tuple[Any, ...]]) -> None:
        rows: list[Any] = list(stream.rows(values, tx.attempt))
        for way in ways:
            way(tx, rows)

    return run, tuple(fed)
