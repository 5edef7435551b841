"""Taking over a topology: from a claimed epoch to a record that this leader has written.

The order is essential. The epoch is claimed already (`RecordStore` exists only with one). Then every state's fence is
raised, so that no write of an older leader succeeds any more. Only then is the record read, and compared with the last
commit of each state. The first write proves that this process still leads. A crash at any point is harmless: the
takeover starts again.

Three rules limit the traces of earlier commits. Each state takes transactions in order, without gaps. An
attempt is committed only after its id and its leader's epoch are in the record. Commits may run ahead of the record by
one group of transactions. Let ``T:A of epoch E`` be the token of a state's last commit, and C the lowest transaction
that is not committed according to the record:

- T = C - 1: the state agrees with the record.
- T = C - 1, and A is below the attempt by which T was committed. If the state rolls back replayed transactions, it is
  from the past: stop, except in a gap.
- T >= C: C to T are committed in the state, but not closed in the record.
- T >= C, and A is above the last attempt of T in the record, or the record has none: stop.
- E is above the record's epoch: the record is from the past: stop.
- T < C - 1: the state is from the past, or was left out meanwhile: stop, except in a gap, see below.
- No token, and C is above the transaction at which the state joined: the state's data is gone: stop.
- No token, and the state is not in the record: a new state. It joins with the first transaction that is not closed at
  this takeover.

Transactions that every state has are closed here, in the first write, and their success is owed; so they are never
replayed. A transaction that only some states have is torn: the others need it, made of the same rows by the same plan.
It is replayed, and the states that have it skip it or roll it back (see `trident_py.states.fenced`). A transaction that
every state has but that can't be closed is replayed too. If a new spout begins in such a
transaction, the states that skip it would get none of the spout's rows. For a transaction t from C up to the lowest T:

- No intent for t: no intents are stored if metadata determines the rows of a batch: closed.
- No intent for t, but cursors that move: an attempt found them out and never began to commit: replayed.
- The intent for t is the attempt that every state has, and of the definition in the record: closed. Cursors that it
  moves because it was emitted move now.
- Another intent: t was defined again since: replayed, and rolled back in the states that have it.
- A state keeps no token or is left out from now on, or a spout takes part in commits. It is unknown whether they have
  t: replayed.

A transaction that is being parked commits only as an empty attempt, from a stored attempt id on. It is closed, and on
the list, if every state has it by such an attempt. Any other commit of it is torn: a further empty attempt rolls it
back.

A state that was left out and comes back has a gap: F to C - 1, which others committed meanwhile. Once the record says
that a user accepts this, the state marks them as committed, without any change.

The state may have F already, by an attempt that died right before the state was left out, while others have another
batch of F. So if T >= F, the gap is passed over from T on, which rolls T back. Transactions between F and T were passed
over before, or have the same batch in every state.

A start may migrate values of states (`coordinators.takeover.migrations`). It does so after all checks and before the
first write. If it is killed in between, the record is the one of before, so the next takeover does the same again. The
store of each state tells whether its values are migrated already, for the record with this number of writes.

The gap stays in the record, so that a crash in between does no harm. Until C is committed, each takeover passes over it
once more, which rolls back nothing but an empty transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from attrs import evolve, frozen

from coordinators.record.declarations import Declared
from coordinators.record.parking import Parking
from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import RecordStore, TopologyIdentity
from coordinators.values.attempt import CommitToken, TransactionAttempt
from coordinators.values.canonical import Json, canonical_json, content_hash
from coordinators.values.cursors import Cursors
from coordinators.values.errors import StateError, located
from coordinators.values.log_fields import log_about

log = logging.getLogger(__name__)

Moved: TypeAlias = Callable[[str, Json], Mapping[str, Json] | None]
"""Returns, for a spout and its definition of a batch, the cursors that move when it is closed; None: unknown."""


class Recoverable(Protocol):
    """A participant in commits, as a takeover uses it."""

    @property
    def name(self) -> str:
        """Its name in the record; unique in the topology."""
        ...

    @property
    def remembers(self) -> bool:
        """Whether it knows its last commit after a restart; otherwise its last commit can't be compared."""
        ...

    @property
    def rolls_back(self) -> bool:
        """Whether a replay of its last transaction replaces the changes by an earlier attempt of it."""
        ...

    @property
    def is_volatile(self) -> bool:
        """Whether it starts empty each time, and so lacks no earlier transaction."""
        ...

    def recover(self, topology: TopologyIdentity, epoch: int) -> CommitToken | None:
        """Refuse older epochs from now on and remove their leftovers; return the token of the last commit, or None."""
        ...

    def pass_over(self, topology: TopologyIdentity, epoch: int, txids: range) -> None:
        """Mark these transactions as committed, without any change; its part of the first one is rolled back."""
        ...


@frozen
class Torn:
    """Transactions that some states have, and that are replayed because others lack them or may lack them.

    Attributes:
        txids: the first of them is the lowest that is not committed.
        having: names of the states that have at least the first.
        lacking: names of the states that don't have the last.
    """

    txids: range
    having: tuple[str, ...]
    lacking: tuple[str, ...]


Adopt: TypeAlias = Callable[[CoordinatorRecord, Torn | None], CoordinatorRecord]
"""Compares the record with the current declarations; returns the record with them, or raises if a change is refused."""

Migrate: TypeAlias = Callable[[CoordinatorRecord, CoordinatorRecord], None]
"""Migrates the values of states between two records: from how they were declared to how they are. If it is repeated
after a crash, what is done already stays as it is."""


def recover(
    store: RecordStore,
    states: Sequence[Recoverable],
    *,
    has_committer_spouts: bool = False,
    moved: Moved = lambda spout, definition: {},
    renamed: Callable[[CoordinatorRecord], CoordinatorRecord] = lambda record: record,
    adopt: Adopt = lambda record, torn: record,
    migrate: Migrate = lambda before, after: None,
) -> CoordinatorRecord:
    """Take over the topology of ``store``; return the record to continue from, as just written.

    Args:
        store: the leadership.
        states: all participants in commits, except spouts.
        has_committer_spouts: whether a spout takes part in commits.
        moved: called for each transaction that is closed here.
        renamed: called with the record that was found; returns it under the current names of spouts and states.
        adopt: called with the record after that.
        migrate: called when everything is checked, before the record is written.

    Raises:
        StateError: a state and the record don't belong together, or a state refuses.
        TopologyError: ``adopt`` refuses a change.
        MetadataError: the record cannot be read.
        FencedError: a newer leader exists.
        CoordinationLost: the store can't be reached.
    """
    log_about(epoch=store.epoch)
    identity = store.identity
    tokens = {state.name: _recovered(state, store) for state in states}
    found = store.read()
    record = renamed(found or CoordinatorRecord(epoch=store.epoch))
    kept = {state.name: tokens[state.name] for state in states if state.remembers}
    _check(identity.name, kept, record)
    kept = {name: token for name, token in kept.items() if token or name in record.states}  # without those that join
    known = not (has_committer_spouts or _forgetting(states, record) or _left_out(states, record))
    if known:
        record = _closed(identity.name, record, kept, moved)
    before, record = record, adopt(record, _torn(record, kept))
    _check_attempts(identity.name, [state.name for state in states if state.rolls_back], kept, record)
    gaps = _gaps(identity.name, kept, record)
    migrate(before, record)
    record = _written(store, states, record, gaps)
    first = f"{record.current_txid} on{'' if found else ' (it is new)'}"
    log.info("topology %s: epoch %d leads from transaction %s", identity.name, store.epoch, first)
    return record


def _written(
    store: RecordStore, states: Sequence[Recoverable], record: CoordinatorRecord, gaps: Mapping[str, range]
) -> CoordinatorRecord:
    """Make the first write, in which states join, and return the record.

    Gaps are passed over after it, and again if a crash prevents that.
    """
    joined = {state.name: record.states.get(state.name, record.current_txid) for state in states}
    record = evolve(
        record,
        epoch=store.epoch,
        seq=record.seq + 1,
        states={**record.states, **joined},
        standing=record.standing.led_by(store.epoch),
    )
    store.write(record)
    for state in states:
        if gaps.get(state.name):
            with located(topology=store.identity.name, state=state.name):
                state.pass_over(store.identity, store.epoch, gaps[state.name])
    return record


def _recovered(state: Recoverable, store: RecordStore) -> CommitToken | None:
    with located(topology=store.identity.name, state=state.name):
        return state.recover(store.identity, store.epoch)


def _forgetting(states: Sequence[Recoverable], record: CoordinatorRecord) -> bool:
    """Return true if a state that has committed before can't tell its last commit."""
    return any(state.name in record.states and not (state.remembers or state.is_volatile) for state in states)


def _left_out(states: Sequence[Recoverable], record: CoordinatorRecord) -> bool:
    """Return true if a state that the last leader declared is not declared any more, so its last commit is unknown."""
    outputs = Declared.of(record.declared).outputs.values() if record.declared is not None else ()
    asked = {state.name for state in states}
    return any(each.until is None and each.name in record.states and each.name not in asked for each in outputs)


def _check(topology: str, tokens: Mapping[str, CommitToken | None], record: CoordinatorRecord) -> None:
    for state, token in tokens.items():
        if token:
            _check_token(topology, state, token, record)
        elif record.states.get(state, record.current_txid) < record.current_txid:
            raise StateError(
                f"topology {topology!r}: state {state!r} is gone, it has nothing of what was committed to it while the "
                f"topology is at transaction {record.current_txid}. To fix this: restore it. If another version of "
                f"the program has renamed it, start that version. Only if it is lost, start from the beginning with "
                f"`trident reset {topology}`",
                topology=topology,
                state=state,
            )


def _check_token(topology: str, state: str, token: CommitToken, record: CoordinatorRecord) -> None:
    current = record.current_txid
    is_ahead = token.txid >= current and token.attempt_id > record.attempt_ids.get(token.txid, -1)
    if is_ahead or token.epoch > record.epoch:
        raise StateError(
            f"topology {topology!r}: state {state!r} has transaction {token.txid}, committed as {token}, and the "
            f"record in ZooKeeper, at {current} and of epoch {record.epoch}, was written before that: ZooKeeper was "
            f"restored from the past or emptied. To fix this: restore its newer data. Only if there is none, "
            f"start from the beginning with empty states: `trident reset {topology}`",
            topology=topology,
            txid=token.txid,
            state=state,
        )


def _check_attempts(
    topology: str, states: Sequence[str], tokens: Mapping[str, CommitToken | None], record: CoordinatorRecord
) -> None:
    """Refuse a state that has an earlier attempt of the last transaction than the one that was committed.

    ``states`` are those that roll back a replayed transaction. A state that has passed over it has no attempt of it.
    """
    last = record.current_txid - 1
    for state in states:
        token, gap = tokens.get(state), record.gaps.get(state)
        has_passed = gap is not None and gap.stop == record.current_txid
        if token and token.txid == last and token.attempt_id < record.committed_as and not has_passed:
            raise StateError(
                f"topology {topology!r}: state {state!r} has transaction {last} as {token}, and it was committed as "
                f"attempt {TransactionAttempt(last, record.committed_as)}, perhaps with other rows: its server lost "
                f"commits (a failover to a replica that lagged, a crash without fsync), or it was restored from the "
                f"past. To fix this: restore a newer copy of it, or give it another table, which starts empty",
                topology=topology,
                txid=last,
                state=state,
            )


def _gaps(topology: str, kept: Mapping[str, CommitToken | None], record: CoordinatorRecord) -> dict[str, range]:
    """Return the transactions that each state passes over; if the state has the first of them, it is rolled back."""
    current = record.current_txid
    gaps = {}
    for state, token in kept.items():
        if token is None:
            continue
        accepted = record.gaps.get(state)
        first = accepted.start if accepted and accepted.stop == current else current
        if token.txid < first - 1:
            raise StateError(
                f"topology {topology!r}: state {state!r} ends with transaction {token.txid}, the record is at "
                f"{current}: transactions {token.txid + 1} to {first - 1} are missing from it: its server lost "
                f"them (a failover to a replica that lagged, a crash without fsync), it was restored from the past, "
                f"or the topology ran without it. To fix this: restore a newer copy of it, or give it another "
                f"table, which starts empty",
                topology=topology,
                state=state,
            )
        gaps[state] = range(max(first, token.txid), current)
    return gaps


def _torn(record: CoordinatorRecord, kept: Mapping[str, CommitToken | None]) -> Torn | None:
    current = record.current_txid
    last = {name: max(token.txid, current - 1) if token else current - 1 for name, token in kept.items()}
    high = max(last.values(), default=current - 1)
    if high < current:
        return None
    having = tuple(name for name, txid in last.items() if txid >= current)
    return Torn(range(current, high + 1), having, tuple(name for name, txid in last.items() if txid < high))


# --- closing ----------------------------------------------------------------------------------------------------------


def _closed(
    topology: str, record: CoordinatorRecord, kept: Mapping[str, CommitToken | None], moved: Moved
) -> CoordinatorRecord:
    """Return ``record`` after all transactions that every state in ``kept`` has, as long as they can be identified."""
    tokens = [token for token in kept.values() if token]
    first = record.current_txid
    upto = min((token.txid for token in tokens), default=0) if len(tokens) == len(kept) else 0
    for txid in range(first, upto + 1):
        moves: dict[str, Mapping[str, Json] | None] = {}
        if (parking := record.parked.parking) is not None and parking.txid == txid:
            if not _is_empty(parking, tokens):
                break
        else:
            moves = {spout: moved(spout, definition) for spout, definition in record.definition(txid).items()}
            if None in moves.values() or not _is_known(record, txid, tokens, resolved=any(moves.values())):
                break
        record = _after(record, txid, _attempts_of(record, txid, tokens), moves)
    if record.current_txid > first:
        log.info(
            "topology %s: every state has the transactions %d to %d, which were not recorded yet; they are now",
            topology,
            first,
            record.current_txid - 1,
        )
    return record


def _is_known(record: CoordinatorRecord, txid: int, tokens: Sequence[CommitToken], *, resolved: bool) -> bool:
    """Return true if the states' commits of ``txid`` are of the definition in the record.

    ``resolved``: emitting has found out the definition; the attempt is durable before its commit begins.
    """
    pin = next((pin for pin in record.committing if pin.attempt.txid == txid), None)
    if pin is None:
        return not resolved
    is_pinned = all(TransactionAttempt(token.txid, token.attempt_id) == pin.attempt for token in tokens)
    return is_pinned and pin.hash == content_hash(canonical_json(dict(record.definition(txid))))


def _is_empty(parking: Parking, tokens: Sequence[CommitToken]) -> bool:
    """Return true if all states have committed the transaction that is being parked by an empty attempt."""
    return all(token.txid == parking.txid and token.attempt_id >= parking.first_attempt_id for token in tokens)


def _attempts_of(record: CoordinatorRecord, txid: int, tokens: Sequence[CommitToken]) -> tuple[int, int]:
    """Return the lowest and the highest attempt id by which states have ``txid``."""
    ours = [token.attempt_id for token in tokens if token.txid == txid] or [record.attempt_ids[txid]]
    return min(ours), max(ours)


def _after(
    record: CoordinatorRecord, txid: int, attempts: tuple[int, int], moves: Mapping[str, Mapping[str, Json] | None]
) -> CoordinatorRecord:
    """Return ``record`` after ``txid``, its lowest transaction, was committed.

    ``attempts`` are the lowest and the highest attempt id of it in the states, ``moves`` the cursors that move then.
    """
    number = record.bindings.upto(txid)
    cursors = {spout: record.cursors.get(spout, Cursors()).updated(moved) for spout, moved in moves.items() if moved}
    return evolve(
        record,
        current_txid=txid + 1,
        attempt_ids={**record.attempt_ids, txid: attempts[1]},
        committed_as=attempts[0],
        metadata={each: definitions for each, definitions in record.metadata.items() if each >= number},
        committing=tuple(pin for pin in record.committing if pin.attempt.txid > txid),
        cursors={**record.cursors, **cursors},
        fingerprints={each: seen for each, seen in record.fingerprints.items() if each > number},
        failures={each: failure for each, failure in record.failures.items() if each > txid},
        times={each: time for each, time in record.times.items() if each >= txid},
        parked=record.parked.close(txid),
        bad_rows={each: rows for each, rows in record.bad_rows.items() if each > txid},
    )
