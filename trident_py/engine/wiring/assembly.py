"""Assembly of a topology's runtime from its plan.

It creates the participant (state, sink, window) at the end of each branch, and all states. It describes the topology
for the data plane, checks states against the record, and derives the settings of a leadership.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from coordinators.backends.coordination import Coordination
from coordinators.record.record import CoordinatorRecord
from coordinators.values.cursors import Cursors
from coordinators.values.settings import LeadershipSettings
from trident_py.engine.plane.commit_lane import partial_commit_txid
from trident_py.engine.plane.work import BranchShape, SpoutShape, TopologyShape
from trident_py.engine.threads.spout_executor import TridentSpoutExecutor
from trident_py.errors import FailedException, StateError
from trident_py.graph.graph import Graph
from trident_py.graph.output import output_of
from trident_py.graph.queries import StateQuery, state_queries, static_states
from trident_py.graph.timed_participants import TimedParticipant
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.spouts import ITridentSpout, Replay
from trident_py.interfaces.states import State
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import Leaf, Participant, SinkParticipant, everything
from trident_py.participants.states import StateParticipant
from trident_py.planner.plan import Branch, Plan
from trident_py.rows.schema import select, shown
from trident_py.spouts.partition_executor import PartitionedSpoutAdapter
from trident_py.states.shards import made, shards_of
from trident_py.states.sql.reading import TableReader


def ensure_stores(graph: Graph) -> None:
    """Check that the stores of all states exist, before anything is created or started.

    Raises:
        StateError: one doesn't.
    """
    for node in graph.nodes:
        output = output_of(node)
        if output and output.factory:
            with graph.declaring(f"state {output.name!r}", output.name):
                output.factory.ensure_usable()


def ensure_recoverable(planned: Plan, config: TridentConfig, coordination: Coordination) -> None:
    """Check that a standby could take over the spouts, as far as their positions are stored.

    Raises:
        SpoutError: it couldn't.
    """
    name = planned.graph.topology
    record = coordination.describe(name).record if name in coordination.topologies() else None
    if record is None:
        return
    for each in planned.spouts:
        cursors = record.cursors.get(each.tx_id, Cursors())
        context = TopologyContext(name, each.tx_id)
        each.spout.ensure_recoverable(dict(cursors.items()), config, context)


def assembled(planned: Plan, context: ParticipantContext) -> tuple[list[Participant], dict[str, State]]:
    """Return the participants of all branches, and all states by name; adds the states to ``context`` for queries."""
    participants = [participant_of(branch, context) for branch in planned.branches]
    context.states.update(states_of(participants, planned.graph, context))
    return participants, context.states


def participant_of(branch: Branch, context: ParticipantContext) -> Participant:
    """Return the participant at the end of ``branch``, with its state."""
    return branch.output.participant(context) if branch.output else Leaf(branch.name)


def shape_of(
    spouts: Mapping[str, TridentSpoutExecutor],
    branches: Sequence[frozenset[str]],
    collects: Sequence[frozenset[str]],
    participants: Sequence[Participant],
    shareable: Collection[int],
) -> TopologyShape:
    """Return the description of a topology that the data plane needs.

    Args:
        spouts: the emitters, by spout.
        branches: for each branch, the spouts that it reads.
        collects: for each branch, those whose bad rows it reads.
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
                collects=collects[number],
                capabilities=participant.capabilities,
            )
            for number, (reads, participant) in enumerate(zip(branches, participants, strict=True))
        ),
    )


def states_of(participants: list[Participant], graph: Graph, context: ParticipantContext) -> dict[str, State]:
    """Return all states by name; creates those that no branch writes.

    Raises:
        StateError: a factory has returned an unsuitable object, or a query can't use such a state.
        TopologyError: the queried fields are not the keys of another topology's table.
    """
    written = [each for each in everything(participants) if isinstance(each, StateParticipant)]
    states = {each.name: each.state for each in written}
    for static in static_states(graph):
        with graph.declaring(static.title, static.name):
            states[static.name] = made(static.factory, context.config, context.metrics)
    for name, shard in [(name, shard) for name, state in states.items() for shard in shards_of(state)]:
        with graph.declaring(f"state {name!r}", name):
            if not isinstance(shard, State):
                raise StateError(f"its factory must make a State, it made {shown(shard)}")
    for each in written:
        with graph.declaring(f"state {each.name!r}", each.name):
            each.check_state()
    for query, asking in state_queries(graph):
        with graph.declaring(query.title):
            _check_query(query, asking.schema, shards_of(states[query.state])[0])
    return states


def _check_query(query: StateQuery, source: StructType | None, state: State) -> None:
    """Check that the query can use this state; the keys of another topology's table are known only now."""
    if not isinstance(state, query.function.needs):
        wanted = " or ".join(kind.__name__ for kind in query.function.needs)
        raise StateError(
            f"{type(query.function).__name__} asks a {wanted}, and state {query.state!r} is a {type(state).__name__}",
            state=query.state,
        )
    if isinstance(state, TableReader):
        query.function.check(select(source, query.in_fields) if source else None, state.keys, query.out)


def partial_commit_of(participants: list[Participant], record: CoordinatorRecord) -> int:
    """Return the last transaction that may be in some states but not in all; 0: there is no such transaction."""
    states = [each for each in everything(participants) if isinstance(each, StateParticipant)]
    last = [state.recovered.txid if state.recovered else 0 for state in states if state.remembers]
    return partial_commit_txid(last, record, all_remember=len(last) == len(states))


def check_fed(topology: str, participants: Sequence[Participant], record: CoordinatorRecord) -> CoordinatorRecord:
    """Return ``record``, if no output of new values lacks transactions that their state would skip.

    A takeover calls it before it writes ``record``. A state may have several transactions that ``record`` doesn't have
    as committed. When they are replayed, it skips all of them except the last. A skipped transaction produces no new
    values, so the outputs of these values must have it, too.

    Raises:
        StateError: an output lacks them, because it joined while some outputs had the transactions, and others had not.
    """
    before = record.current_txid - 1
    for state in everything(participants):
        skipped = state.recovered.txid - 1 if state.recovered else before
        for output in everything(state.downstream_outputs):
            last = max(before, output.recovered.txid) if output.recovered else before
            if output.capabilities.commits and last < skipped:
                raise StateError(
                    f"topology {topology!r}: {output.name!r} can't join after the new values of state {state.name!r} "
                    f"now: transactions {last + 1} to {skipped} are in the state but not in all others, so they are "
                    f"replayed, and the state produces no new values for them. To fix this: start once more without "
                    f"{output.name!r}, until transaction {skipped + 1} is committed, then add it",
                    topology=topology,
                    state=output.name,
                )
    return record


def is_passing(error: BaseException) -> bool:
    """Return true if ``error`` says that a store is unavailable or locked just now."""
    cause = error.__cause__
    return cause is not None and (isinstance(cause, FailedException) or is_passing(cause))


def settings_of(
    plan: Plan, config: TridentConfig, participants: Sequence[Participant], *, has_committer_spouts: bool
) -> LeadershipSettings:
    """Return the settings of a leadership over ``plan``, with the outputs ``participants``."""
    needs_intents = _needs_intents(plan, participants)
    alone = needs_intents or has_committer_spouts
    leaves_rows_out = any(branch.leading for branch in plan.branches)
    return LeadershipSettings(
        max_spout_pending=config.max_spout_pending,
        message_timeout=config.message_timeout,
        batch_interval=config.batch_interval,
        idle_turn=min(1.0, config.session_timeout / 6),
        store_intents=needs_intents or leaves_rows_out,
        group_max=config.max_spout_pending if _take_groups(participants) and not alone else 1,
        attempts=config.retry.attempts,
        backoff=config.retry.backoff,
        backoff_max=config.retry.backoff_max,
        source_patience=config.source_patience,
        store_patience=config.store_patience,
        stored_spouts=frozenset(each.tx_id for each in plan.spouts if not gives_again(each.spout)),
        parks_poison=config.on_poison == "park",
        lettered=frozenset(name for branch in plan.branches if branch.keeps_letters for name in branch.collects),
        windows=frozenset(_with_windows(plan, participants)),
        drops_late=frozenset(_dropping_late(participants)),
        park_max=config.park_max,
    )


def gives_again(spout: ITridentSpout[Any]) -> bool:
    """Return true if ``spout`` emits the same batch from its metadata, even after the success of that batch."""
    is_exact = spout.replay is Replay.EXACT and not isinstance(spout, PartitionedSpoutAdapter)
    return is_exact and spout.gives_again


def _with_windows(plan: Plan, participants: Sequence[Participant]) -> Iterator[str]:
    """Yield the names of outputs that wait for a time, and of those with one behind their new values."""
    outputs = [output for node in plan.graph.nodes if (output := output_of(node))]
    windows = {output.name for output in outputs if output.waits}
    for participant in everything(participants):
        if any(each.name in windows for each in everything([participant])):
            yield participant.name


def _dropping_late(participants: Sequence[Participant]) -> Iterator[str]:
    """Yield the names of outputs by event time without a reader of their late rows."""
    return (each.name for each in everything(participants) if isinstance(each, TimedParticipant) and each.drops_late)


def _take_groups(participants: Sequence[Participant]) -> bool:
    """Return true if at least one output commits, and each that does can commit several transactions in one step.

    A sink may refuse rows when it commits. Then its transaction can be parked only if no other output has a later one.
    So a sink takes groups only if everything commits in one step with it.
    """
    committing = [participant for participant in participants if participant.capabilities.commits]
    steps = {id(participant.shared or participant) for participant in committing}
    refuses = any(isinstance(participant, SinkParticipant) for participant in committing)
    in_one_step = len(steps) == 1 or not refuses
    return bool(committing) and in_one_step and all(participant.takes_groups for participant in committing)


def _needs_intents(plan: Plan, participants: Sequence[Participant]) -> bool:
    """Return true if commit intents must be stored: attempts may have different rows, or an output has no fence."""
    opaque = any(spout.spout.replay is not Replay.EXACT for spout in plan.spouts)
    resolving = any(isinstance(spout.spout, PartitionedSpoutAdapter) for spout in plan.spouts)
    asking = bool(state_queries(plan.graph))  # and their answers depend on the time of the query
    unfenced = not all(participant.capabilities.is_fenced for participant in participants)
    return opaque or resolving or asking or unfenced
