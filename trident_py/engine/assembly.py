"""From what the planner says ends a branch to the participant that does it."""

from __future__ import annotations

from typing import Any

from trident_py.config import TridentConfig
from trident_py.context import Metrics
from trident_py.engine.participants import Leaf, Participant, SinkParticipant
from trident_py.engine.states import AggregateParticipant, StagedParticipant, StateParticipant, Tail, UpdateParticipant
from trident_py.operations.base import CombinerAggregator
from trident_py.planner.commits import CommitStream, PartitionPersist, PersistentAggregate, SinkWrite
from trident_py.planner.plan import Branch
from trident_py.sinks.base import SinkTransaction
from trident_py.states.base import StagingState, State, StateFactory


def participant_of(branch: Branch, config: TridentConfig, metrics: Metrics) -> Participant:
    """The participant at the end of ``branch``, with its state made."""
    match branch.committer:
        case None:
            return Leaf(branch.name)
        case SinkWrite(name=name, sink=sink):
            return SinkParticipant(name, sink)
        case PersistentAggregate() as aggregate:
            return _aggregating(aggregate, config, metrics)
        case PartitionPersist() as persist:
            return _updating(persist, config, metrics)


def everything(participants: list[Participant]) -> list[Participant]:
    """These participants, and the states that their new values go into."""
    found: list[Participant] = []
    for participant in participants:
        fed = list(participant.fed) if isinstance(participant, StateParticipant) else []
        found += [participant, *everything([*fed])]
    return found


def _aggregating(aggregate: PersistentAggregate, config: TridentConfig, metrics: Metrics) -> StateParticipant:
    tail, fed = _tail(aggregate.new_values, config, metrics)
    state, aggregator = _made(aggregate.factory, config, metrics), aggregate.aggregator
    if isinstance(state, StagingState) and isinstance(aggregator, CombinerAggregator) and tail is None:
        return StagedParticipant(name=aggregate.name, state=state, aggregator=aggregator)
    return AggregateParticipant(
        name=aggregate.name,
        state=state,
        aggregator=aggregator,
        keys=len(aggregate.keys.fields),
        inputs=aggregate.inputs.names,
        tail=tail,
        fed=fed,
    )


def _updating(persist: PartitionPersist, config: TridentConfig, metrics: Metrics) -> UpdateParticipant:
    tail, fed = _tail(persist.new_values, config, metrics)
    return UpdateParticipant(
        name=persist.name,
        state=_made(persist.factory, config, metrics),
        updater=persist.updater,
        inputs=persist.fields.names,
        outputs=persist.out_schema.names if persist.out_schema else (),
        tail=tail,
        fed=fed,
    )


def _made(factory: StateFactory, config: TridentConfig, metrics: Metrics) -> State:
    return factory.make_state(config, metrics, 0, 1)


def _tail(
    stream: CommitStream | None, config: TridentConfig, metrics: Metrics
) -> tuple[Tail | None, tuple[StateParticipant, ...]]:
    if stream is None:
        return None, ()
    fed: list[StateParticipant] = []
    ways: list[Tail] = []
    if stream.persist is not None:
        updating = _updating(stream.persist, config, metrics)
        fed.append(updating)
        width = len(stream.persist.fields.names)
        ways.append(lambda tx, rows: updating.apply(tx, list(zip(*rows, strict=True)) or [()] * width))
    for each in stream.streams:
        way, below = _tail(each, config, metrics)
        fed.extend(below)
        ways.extend([way] if way else [])

    def run(tx: SinkTransaction, values: list[tuple[Any, ...]]) -> None:
        rows: list[Any] = list(stream.rows(values))
        for way in ways:
            way(tx, rows)

    return run, tuple(fed)
