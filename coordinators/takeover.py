"""Taking over: from a claimed epoch to a record that this leader has written.

The order is the point. The epoch is claimed already (`RecordStore` exists only with one). Then every state's fence is
raised, so that nothing of an older leader lands any more; only then is the record read, and compared with what the
states say they have; and the first write proves that we still lead. Crashing anywhere and starting over is harmless.

Decision table, with F and T the first and last transaction of a state's last commit (the same, but for a run), and C
the lowest uncommitted one of the record:

    ===================  ===============================================================================
    T = C - 1            where the record is
    T = C                committed there, not closed in the record: C is replayed under a higher token
    F <= C < T           the same for a run; each of it was attempted, as far as the record knows
    T > C otherwise      the record is from the past: stop
    T < C - 1            the state is from the past: stop
    nothing, and C is
    past where it joined the state is gone: stop
    ===================  ===============================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from attrs import evolve

from coordinators.errors import StateError
from coordinators.record import CoordinatorRecord
from coordinators.store import RecordStore, TopologyIdentity

log = logging.getLogger(__name__)


class Recoverable(Protocol):
    """What commits transactions, as far as a takeover is concerned."""

    @property
    def name(self) -> str:
        """Names it in the record; unique in the topology."""
        ...

    @property
    def remembers(self) -> bool:
        """Whether it knows its last commit after a restart; otherwise there is nothing to compare."""
        ...

    def recover(self, topology: TopologyIdentity, epoch: int) -> range | None:
        """Refuse older epochs from now on, sweep what they left; returns the txids of the last commit, None if none."""
        ...


def recover(store: RecordStore, states: Sequence[Recoverable]) -> CoordinatorRecord:
    """Take over the topology of ``store``; returns the record to go on from, as just written.

    Raises:
        StateError: a state and the record don't belong together, or a state refuses.
        MetadataError: the record cannot be read.
        FencedError: a newer leader exists.
        CoordinationLost: ZooKeeper is out of reach.
    """
    identity = store.identity
    committed = {state.name: state.recover(identity, store.epoch) for state in states}
    found = store.read()
    record = found or CoordinatorRecord(epoch=store.epoch)
    for state in states:
        if state.remembers:
            _reconcile(identity.name, state.name, committed[state.name], record)
    joined = {state.name: record.states.get(state.name, record.current_txid) for state in states}
    record = evolve(record, epoch=store.epoch, seq=record.seq + 1, states={**record.states, **joined})
    store.write(record)
    log.info(
        "topology %s: epoch %d leads from transaction %d on%s",
        identity.name,
        store.epoch,
        record.current_txid,
        "" if found else " (it is new)",
    )
    return record


def _reconcile(topology: str, state: str, run: range | None, record: CoordinatorRecord) -> None:
    current = record.current_txid
    if run is None:
        if record.states.get(state, current) < current:
            raise StateError(
                f"topology {topology!r}: state {state!r} is gone, it has nothing of what was committed to it while the "
                f"topology is at transaction {current}; restore it, or `trident reset {topology}` to start over"
            )
        return
    committed = run[-1]
    if committed > current and not (run[0] <= current and committed in record.attempt_ids):
        raise StateError(
            f"topology {topology!r}: state {state!r} has transaction {committed}, the record in ZooKeeper is only at "
            f"{current}: ZooKeeper was restored from the past; restore a newer record, or `trident reset {topology}`"
        )
    if committed < current - 1:
        raise StateError(
            f"topology {topology!r}: state {state!r} ends with transaction {committed}, the record is at {current}: "
            f"transactions {committed + 1} to {current - 1} are missing from it; restore a newer copy of it, or "
            f"`trident reset {topology}` to start over"
        )
