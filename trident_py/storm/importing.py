"""``trident import``: a topology of ours continues where one of Storm's has stopped.

The import is a takeover of a topology without a record. It has four steps, and may be killed between any two of them:

1. It leads the topology, so no other process can start it or import into it.
2. It raises the fence of every imported state.
3. It commits the values to each state, as one transaction: the last one that counts as committed. Values and token are
   stored in one step.
4. It writes the record. Until then, the topology has not begun.

If it is repeated, step 3 rolls back what an earlier import has committed, and commits again. If the record has the mark
of the same import, nothing is left to do. Nothing is written to Storm's ZooKeeper and Redis.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from attrs import evolve, field, frozen

from coordinators.backends.coordination import Coordination
from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import RecordStore
from coordinators.takeover.takeover import recover
from coordinators.values.attempt import FIRST_ATTEMPT_ID, INITIAL_TXID, TransactionAttempt
from coordinators.values.errors import located, our_bug
from trident_py.engine.rows.row_engine import spark_needed
from trident_py.errors import ConfigError, StateError, TopologyError
from trident_py.graph.graph import Graph
from trident_py.graph.output import OutputPlace, output_of
from trident_py.graph.outputs import AggregateState
from trident_py.interfaces.config import TridentConfig
from trident_py.interfaces.context import Metrics
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.interfaces.states import Key
from trident_py.participants.context import ParticipantContext
from trident_py.participants.participant import Participant
from trident_py.participants.states import StateParticipant
from trident_py.planner.declaring import declarations
from trident_py.planner.plan import Plan, check, placed, plan
from trident_py.spark.session import topology_session
from trident_py.storm.record import IMPORTED, Verdict, import_mark, imported_record, verdict
from trident_py.storm.snapshot import StormSnapshot
from trident_py.storm.spouts import ImportedSpout, imported_spout
from trident_py.storm.states import StateFields, StormState, StormValues

EMPTY = None
"""The entry in `Wanted.states` for a state that begins without values."""


@frozen(kw_only=True)
class Wanted:
    """The request for an import.

    Attributes:
        name: the name of the topology in Storm.
        read: returns what Storm has stored of spouts, by their ids; raises if the topology may still begin batches.
        states: by the name of our state, where Storm keeps it, or `EMPTY`.
        read_state: returns the stored texts of a state by the texts of their keys.
        settle: for a topology that is inactive, how long to wait for its transactions in flight, in seconds.
        wait: waits so long, and may tell a user.
    """

    name: str
    read: Callable[[Sequence[str]], StormSnapshot]
    states: Mapping[str, StormState | None]
    read_state: Callable[[StormState], Mapping[str, str]]
    settle: float = 0.0
    wait: Callable[[float], None] = time.sleep

    @property
    def described_states(self) -> list[str]:
        """The texts that stand for the imports of states."""
        return [f"{name}={state.text if state else 'empty'}" for name, state in self.states.items()]


@frozen(kw_only=True)
class ImportedState:
    """A state and its keys and values."""

    participant: StateParticipant
    rows: Sequence[tuple[Key, object]] = field(repr=False)


@frozen(kw_only=True)
class Imported:
    """The result of an import.

    Attributes:
        record: the record of our topology.
        verdict: the transaction that everything was brought to; None: an earlier import has written the record.
        others: the outputs into which nothing was imported.
        states: the states with their values.
    """

    record: CoordinatorRecord
    verdict: Verdict | None = None
    others: Sequence[str] = ()
    states: Sequence[ImportedState] = ()


def import_topology(graph: Graph, config: TridentConfig, coordination: Coordination, wanted: Wanted) -> Imported:
    """Import a topology of Storm into the one that ``graph`` declares, which has never run.

    Raises:
        ConfigError: Storm's topology may still run, or still changes.
        TopologyError: the program can't continue from it, or has run already.
        StateError: a state can't be imported.
        TridentError: something can't be read or reached.
    """
    with located(topology=graph.topology), ExitStack() as resources:
        planned = plan(graph)
        if spark_needed(planned) is not None:
            planned = check(planned, resources.enter_context(topology_session(graph.topology, None)))
        ensure_one_group(planned)
        outputs = outputs_of(planned)
        ensure_imports(outputs, wanted.states)
        snapshot = settled(planned, wanted)
        store = coordination.lead(graph.topology)
        resources.callback(store.close)
        mark = import_mark(snapshot, wanted.described_states)
        if (found := earlier(store, mark)) is not None:
            return Imported(record=found)
        values = read_values(planned, wanted)
        ensure_settled(planned, wanted, snapshot)
        others = [name for name in outputs if wanted.states.get(name) is None]
        at = verdict(graph.topology, snapshot, values, others, spouts_from(planned, snapshot, snapshot.current))
        states = [state_of(outputs[each.name], each, at, config, resources) for each in values]
        record = imported_record(
            epoch=store.epoch,
            verdict=at,
            attempts=snapshot.attempts,
            spouts=spouts_from(planned, snapshot, at.txid + 1),
            states=[each.participant.name for each in states],
            declarations=declarations(planned.graph, ()),
            mark=mark,
        )
        return Imported(record=taken(store, record, states), verdict=at, others=others, states=states)


def earlier(store: RecordStore, mark: str) -> CoordinatorRecord | None:
    """Return the record, if the topology has one of the import that has this mark.

    Raises:
        TopologyError: it has another record.
    """
    topology, found = store.identity.name, store.read()
    if found is None or mark in found.accepted:
        return found
    marks = [each for each in found.accepted if each.startswith(f"{IMPORTED}:")]
    before = f", and was imported from other data of Storm ({marks[0]})" if marks else ""
    raise TopologyError(
        f"topology {topology!r} is at transaction {found.current_txid}{before}; an import is for a topology that has "
        f"never run, and nothing was imported. To fix this: give the topology another name; or delete its position by "
        f"`trident reset {topology}`, then import again",
        topology=topology,
    )


def taken(store: RecordStore, record: CoordinatorRecord, states: Sequence[ImportedState]) -> CoordinatorRecord:
    """Commit the values, then write ``record``; return it as written.

    Raises:
        StateError: a state has other data than those of this import.
    """
    topology, last = store.identity.name, record.current_txid - 1

    def checked(_: CoordinatorRecord) -> CoordinatorRecord:
        for state in states:
            _ensure_ours(topology, state.participant, last)
        return evolve(record, states={})  # they have nothing yet

    def commit(_: CoordinatorRecord, __: CoordinatorRecord) -> None:
        key = TransactionKey(store.identity.uuid, store.identity.incarnation, last)
        tx = SinkTransaction(key, TransactionAttempt(last, FIRST_ATTEMPT_ID), store.epoch, store.claimed_at)
        for state in states if last >= INITIAL_TXID else ():
            with located(topology=topology, state=state.participant.name):
                state.participant.load(tx, state.rows)

    participants = [state.participant for state in states]
    return recover(store, participants, renamed=checked, adopt=lambda _, __: record, migrate=commit)


def _ensure_ours(topology: str, participant: Participant, last: int) -> None:
    """Check that a state has nothing, or only what an import that was killed has committed.

    Raises:
        StateError: it has something else.
    """
    token = participant.recovered
    if token is not None and token.txid != last:
        raise StateError(
            f"topology {topology!r}: state {participant.name!r} has transaction {token.txid} of an earlier import, "
            f"which was killed, and Storm's last transaction is {last} now; nothing was imported. To fix this: "
            f"`trident reset {topology}`, then import again",
            topology=topology,
            state=participant.name,
        )


# --- the program ------------------------------------------------------------------------------------------------------


def tx_ids(planned: Plan) -> list[str]:
    """Return the ids of all spouts."""
    return [each.tx_id for each in planned.spouts]


def ensure_one_group(planned: Plan) -> None:
    """Check that all spouts are connected, so that Storm has numbered their transactions together.

    Raises:
        TopologyError: they aren't.
    """
    groups: list[set[str]] = []
    for node in planned.graph.nodes:
        joined = [each for each in groups if each & set(node.spouts)]
        groups = [each for each in groups if each not in joined] + [set(node.spouts).union(*joined)]
    groups = [each for each in groups if each]
    if len(groups) != 1:
        raise TopologyError(
            f"topology {planned.graph.topology!r} has {len(groups)} groups of spouts that are not joined or merged "
            f"({'; '.join(', '.join(sorted(each)) for each in groups) or 'no spout'}). Storm numbers the transactions "
            f"of each group separately, and we number all of them together. To fix this: make a topology of each group"
        )


def outputs_of(planned: Plan) -> dict[str, OutputPlace]:
    """Return the outputs by name, also those after the new values of others."""
    graph = planned.graph
    found = [place for node in graph.nodes if output_of(node) and (place := placed(graph, node))]
    return {each.output.name: each for each in found}


def ensure_imports(outputs: Mapping[str, OutputPlace], states: Mapping[str, StormState | None]) -> None:
    """Check that each state has an entry, which fits it.

    Raises:
        TopologyError: a state can't be imported, doesn't exist, or has no entry.
    """
    if unknown := sorted(states.keys() - outputs.keys()):
        raise TopologyError(f"there is no state {unknown[0]!r}; there is {', '.join(sorted(outputs)) or 'none'}")
    for name, place in outputs.items():
        output, state = place.output, states.get(name)
        keeps_values = output.kind != "sink" and output.keeps_token and not getattr(output.factory, "volatile", False)
        can_import = keeps_values and isinstance(output, AggregateState)
        if keeps_values and name not in states:
            values = f"--state {name}=KIND,hash=KEY for the values of Storm's RedisMapState, or " * can_import
            raise TopologyError(
                f"nothing says what {output.kind} {name!r} begins with. To fix this: {values}--state {name}=empty"
            )
        if state is not None and not can_import:
            raise TopologyError(
                f"{output.kind} {name!r} can't be imported: {output.described()}. An import takes the state of a "
                f"persistent_aggregate that keeps a token, such as SQLiteState, PostgresState, MySQLState or "
                f"RedisState. A map over an IBackingMap keeps what its store has, and needs no import"
            )


# --- Storm ------------------------------------------------------------------------------------------------------------


def settled(planned: Plan, wanted: Wanted) -> StormSnapshot:
    """Return the stored data of Storm, when nothing changes any more.

    If a topology is inactive, its transactions in flight may still commit.

    Raises:
        ConfigError: it still changes.
    """
    snapshot = wanted.read(tx_ids(planned))
    if snapshot.is_killed or not wanted.settle:
        return snapshot
    wanted.wait(wanted.settle)
    ensure_settled(planned, wanted, snapshot)
    return snapshot


def ensure_settled(planned: Plan, wanted: Wanted, snapshot: StormSnapshot) -> None:
    """Check that Storm has still stored the same.

    Raises:
        ConfigError: it has stored something else.
    """
    if wanted.read(tx_ids(planned)).digest != snapshot.digest:
        raise ConfigError(
            f"Storm's topology {wanted.name!r} has changed what it stores during the import: it still commits; nothing "
            f"was imported. To fix this: wait until its transactions in flight have ended, and repeat the import"
        )


def read_values(planned: Plan, wanted: Wanted) -> list[StormValues]:
    """Return the values of the states to import.

    Raises:
        StateError: one has no values, or they can't be read.
    """
    found = []
    for name, state in wanted.states.items():
        if state is None:
            continue
        values = StormValues.of(name, state, wanted.read_state(state))
        if not values.by_key:
            raise StateError(
                f"state {name!r}: there is nothing in {state.shown}. To fix this: name the place of its values; if it "
                f"is to begin without values: --state {name}=empty",
                topology=planned.graph.topology,
                state=name,
            )
        found.append(values)
    return found


def spouts_from(planned: Plan, snapshot: StormSnapshot, current: int) -> dict[str, ImportedSpout]:
    """Return the spouts by name, from the transaction ``current`` on."""
    return {
        each.tx_id: imported_spout(each.spout, snapshot.spouts[each.tx_id], current, snapshot.name)
        for each in planned.spouts
    }


def state_of(
    place: OutputPlace, values: StormValues, found: Verdict, config: TridentConfig, resources: ExitStack
) -> ImportedState:
    """Return our state and its values; ``resources`` closes the state."""
    output, participant = place.output, place.participant(ParticipantContext(config=config, metrics=Metrics()))
    if not (isinstance(output, AggregateState) and isinstance(participant, StateParticipant)):
        raise AssertionError(our_bug(f"{output.name} is imported, and can't be"))
    resources.callback(participant.close)
    fields = output.aggregation.fields(place.source)
    rows = StateFields(fields.keys.fields, fields.results.fields[0]).rows(values, found.txid)
    return ImportedState(participant=participant, rows=list(rows))
