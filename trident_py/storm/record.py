"""The record of a topology that continues from Storm's.

Storm has committed every transaction below C, in order, and nothing after C. C itself may be committed in some states
or in a part of one, if Storm was killed in its commit. So the values of all states are brought to one transaction,
C - 1 or C (`trident_py.storm.states`), and our first transaction is the next one.

Later transactions are in no state. They keep their attempts and definitions as far as every spout has one, without a
gap: Storm may define a transaction before the one below it, we don't. The others are defined anew. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from coordinators.record.declarations import Declarations, Declared, StoredDeclaration
from coordinators.record.record import CoordinatorRecord
from coordinators.values.attempt import FIRST_ATTEMPT_ID, INITIAL_TXID
from coordinators.values.canonical import Json, content_hash
from coordinators.values.cursors import Cursors
from trident_py.errors import StateError
from trident_py.storm.snapshot import StormSnapshot
from trident_py.storm.spouts import ImportedSpout
from trident_py.storm.states import StormValues

IMPORTED = "imported"


@frozen(kw_only=True)
class Verdict:
    """The transaction that everything is brought to.

    Attributes:
        txid: the last one that counts as committed; 0: no transaction does.
        is_recorded: whether Storm has recorded it as committed. If not, it is skipped: the states have all of it.
    """

    txid: int
    is_recorded: bool


def verdict(
    topology: str,
    snapshot: StormSnapshot,
    states: Sequence[StormValues],
    others: Sequence[str],
    spouts: Mapping[str, ImportedSpout],
) -> Verdict:
    """Return the transaction that all states are brought to.

    Args:
        topology: the name of our topology.
        snapshot: the stored data of its spouts.
        states: the states to import.
        others: the outputs that are not imported. They need every transaction that Storm has not recorded.
        spouts: the spouts by name, from ``snapshot.current`` on.

    Raises:
        StateError: they can't be brought to one transaction.
    """
    current = snapshot.current
    for each in states:
        each.check(current)
    possible = {each.name: each.possible(current) for each in states}
    if all(current - 1 in txids for txids in possible.values()):
        return Verdict(txid=current - 1, is_recorded=True)
    if not (why := _obstacle(current, possible, others, spouts)):
        return Verdict(txid=current, is_recorded=False)
    raise StateError(
        f"topology {topology!r}: Storm's topology {snapshot.name!r} was stopped in the commit of transaction "
        f"{current}, and {why}; nothing was imported. To fix this: activate it until the transaction is committed, "
        f"deactivate it again, and repeat the import. Or keep the state per key as in Storm: a TransactionalMap or "
        f"OpaqueMap over an IBackingMap that reads the same values",
        topology=topology,
        txid=current,
    )


def _obstacle(
    current: int,
    possible: Mapping[str, frozenset[int]],
    others: Sequence[str],
    spouts: Mapping[str, ImportedSpout],
) -> str:
    """Return why not everything can be brought to ``current``, which some states can't go back from; or nothing."""
    whole = [name for name, txids in possible.items() if txids == {current}]
    lacking = [name for name, txids in possible.items() if current not in txids] + [*others]
    unknown = [name for name, spout in spouts.items() if not spout.knows_batch]
    if torn := [name for name, txids in possible.items() if not txids]:
        return (
            f"state {torn[0]!r} is transactional and has values of it; whether all of its tasks have written theirs is "
            f"unknown. If it had one task in Storm, say so by tasks=1"
        )
    if lacking:
        return f"state {whole[0]!r} has it, and {lacking[0]!r} may lack it"
    if unknown:
        return f"state {whole[0]!r} has it, and spout {unknown[0]!r} is opaque or has not stored which batch it was"
    return ""


def import_mark(snapshot: StormSnapshot, states: Sequence[str]) -> str:
    """Return the entry of `CoordinatorRecord.accepted` by which a record tells that it was imported, and from what.

    ``states`` say what was imported of states.
    """
    return f"{IMPORTED}:{snapshot.name}:{content_hash('|'.join([snapshot.digest, *sorted(states)]))}"


def imported_record(
    *,
    epoch: int,
    verdict: Verdict,
    attempts: Mapping[int, int],
    spouts: Mapping[str, ImportedSpout],
    states: Sequence[str],
    declarations: Declarations,
    mark: str,
) -> CoordinatorRecord:
    """Return the record to continue from.

    Args:
        epoch: of the leadership that imports.
        verdict: the transaction that all states are brought to.
        attempts: Storm's last attempt ids by txid.
        spouts: the spouts by name, from the transaction after ``verdict`` on.
        states: the names of the imported states.
        declarations: the program's own.
        mark: see `import_mark`.
    """
    current, metadata = verdict.txid + 1, _metadata(spouts, verdict.txid)
    last = max(metadata)
    positions = {name: Cursors().updated(spout.cursors(last)) for name, spout in spouts.items()}
    return CoordinatorRecord(
        epoch=epoch,
        current_txid=current,
        attempt_ids={txid: attempts.get(txid, FIRST_ATTEMPT_ID) for txid in range(current, last + 1)},
        metadata={number: each for number, each in metadata.items() if each},
        cursors={name: each for name, each in positions.items() if each.shards},
        success_upto=verdict.txid,
        states=dict.fromkeys(states, INITIAL_TXID) if current > INITIAL_TXID else {},
        declared=Declared(
            declarations.plan,
            {name: StoredDeclaration.of(each) for name, each in declarations.spouts.items()},
            {name: StoredDeclaration.of(each) for name, each in declarations.outputs.items()},
        ).json,
        accepted=(mark,),
    )


def _metadata(spouts: Mapping[str, ImportedSpout], committed: int) -> dict[int, dict[str, Json]]:
    """Return the definitions of the last committed transaction, and of the pending ones that follow without a gap."""
    before = {name: spout.definition(committed) for name, spout in spouts.items()}
    metadata = {committed: {name: definition[0] for name, definition in before.items() if definition}}
    while definitions := _definitions(spouts, max(metadata) + 1):
        metadata[max(metadata) + 1] = definitions
    return metadata


def _definitions(spouts: Mapping[str, ImportedSpout], txid: int) -> dict[str, Json]:
    """Return the definition of a transaction by every spout; empty: not every one has stored one."""
    found = {name: spout.definition(txid) for name, spout in spouts.items()}
    return {} if None in found.values() else {name: each[0] for name, each in found.items() if each is not None}
