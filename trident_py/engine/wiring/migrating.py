"""Migration of the values of states at a start, after all checks and before the record is written."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from coordinators.record.declarations import Declarations, StoredDeclaration
from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import TopologyIdentity
from coordinators.takeover.migrations import migrating
from trident_py.errors import StateError
from trident_py.graph.graph import Graph
from trident_py.participants.participant import Participant, everything
from trident_py.planner.migrations import value_migrations
from trident_py.states.sql.state import SQLMapState

log = logging.getLogger(__name__)


def plan_migrations(graph: Graph, participants: Sequence[Participant]) -> None:
    """Pass the declared migrations to the SQL states, before they recover."""
    planned = value_migrations(graph)
    for participant, state in _sql_states(participants):
        if participant.name in planned:
            state.plan_migration(planned[participant.name])


def migrate_values(
    identity: TopologyIdentity,
    participants: Sequence[Participant],
    declared: Declarations,
    before: CoordinatorRecord,
    after: CoordinatorRecord,
) -> None:
    """Migrate the states that differ from their declarations; first check that all of them can be migrated.

    Args:
        identity: the topology.
        participants: the outputs, which have recovered.
        declared: the current declarations.
        before: the record, as it was found, under the current names.
        after: the record with the current declarations; it isn't written yet.

    Raises:
        StateError: a state can't be migrated. Then none is, except those that an earlier start has migrated.
    """
    changed, due = migrating(before, after), list[tuple[str, SQLMapState, str]]()
    for participant, state in _sql_states(participants):
        name, made_for = participant.name, StoredDeclaration.of(declared.outputs[participant.name]).hash
        is_done = _is_done(identity, name, state, before.seq, made_for)
        if state.is_behind or (name in changed and not is_done):
            _ensure_whole(identity.name, participant, after)
            due.append((name, state, made_for))
    keys = {name: state.check_migration() for name, state, _ in due}
    for name, state, made_for in due:
        state.migrate(identity.incarnation, before.seq, made_for)
        log.warning("topology %s: state %r is migrated, %d keys", identity.name, name, keys[name])


def _is_done(identity: TopologyIdentity, name: str, state: SQLMapState, seq: int, made_for: str) -> bool:
    """Return whether a start that was killed before it wrote the record has migrated the state.

    Raises:
        StateError: it has, for another version of the program.
    """
    mark = state.mark
    if mark is None or not mark.is_of(identity.incarnation, seq):
        return False
    if mark.identity != made_for:
        raise StateError(
            f"topology {identity.name!r}: state {name!r} was migrated by another version of the program, which was "
            f"killed before its start was recorded. To fix this: start that version",
            topology=identity.name,
            state=name,
        )
    return True


def _ensure_whole(topology: str, participant: Participant, record: CoordinatorRecord) -> None:
    """Refuse a state that may still be rolled back, because others don't have its last transaction, or it has a gap.

    Raises:
        StateError: it may.
    """
    name, token, last = participant.name, participant.recovered, record.current_txid - 1
    gap = record.gaps.get(name)
    if (token is None or token.txid == last) and (gap is None or gap.stop <= last):
        return
    raise StateError(
        f"topology {topology!r}: state {name!r} can't be migrated now: the topology is at transaction {last + 1}, and "
        f"it is at {token}, because of a crash between commits, or because it was left out. To fix this: start the "
        f"version before the migration once more, and stop() it when transaction {last + 1} is committed",
        topology=topology,
        state=name,
    )


def _sql_states(participants: Sequence[Participant]) -> Iterator[tuple[Participant, SQLMapState]]:
    for participant in everything(participants):
        if isinstance(participant.table, SQLMapState):
            yield participant, participant.table
