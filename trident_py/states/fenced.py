"""The decision of every fenced state: which leader may write, and what to do with a transaction.

It is made under the state's lock, for transaction ``t`` of epoch ``e`` and attempt ``a``. ``(T, (E, A))`` is the last
commit of the state. Pairs of epoch and attempt are compared lexicographically. The first row that applies decides:

- ``e`` is below the fence: refuse, because a newer leader has taken over.
- ``t < T``, and ``t`` is in the group of ``T``: skip, because it was applied before ``T`` or together with it.
- ``t < T`` or ``t > T + 1``: refuse and stop, because the order is broken.
- ``t = T + 1``, or nothing was committed: apply.
- ``t = T`` and ``(e, a) = (E, A)``: skip, because it was applied already.
- ``t = T`` and ``(e, a) < (E, A)``: refuse, because the attempt is late.
- ``t = T`` and ``(e, a) > (E, A)``: roll ``T`` back, then apply.

A trial, which is rolled back in any case, is applied after the last commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import Enum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import Factory, define, evolve, field, frozen

from coordinators.values.canonical import Json, other_version
from coordinators.values.errors import our_bug
from trident_py.errors import FencedError, StateError, TopologyError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.rows.schema import clipped

if TYPE_CHECKING:
    from collections.abc import Iterator


PORTION_KEYS = 1_000
"""The number of expired keys that a transaction deletes, in addition to two for each key that it writes. So the state
stays as large as its live keys. And no commit has to delete every key that expired during a long pause."""

_MILLISECOND = timedelta(milliseconds=1)


def checked_ttl(ttl: timedelta | None) -> timedelta | None:
    """Return ``ttl``, which is at least one millisecond, or None.

    Raises:
        TopologyError: it is neither.
    """
    if ttl is not None and (not isinstance(ttl, timedelta) or ttl < _MILLISECOND):
        raise TopologyError(
            f"ttl is how long a key stays without a write, as timedelta(days=30), or None: forever; not {ttl!r}"
        )
    return ttl


def ttl_detail(ttl: timedelta | None) -> dict[str, Json]:
    """Return the entry for ``ttl`` in a factory's `Identified.details`."""
    return {"ttl": str(ttl) if ttl else "none"}


def milliseconds(ttl: timedelta | None) -> int | None:
    """Return ``ttl`` in milliseconds; None stays None."""
    return None if ttl is None else ttl // _MILLISECOND


def portion(written: int) -> int:
    """Return the number of expired keys to delete in a transaction that has written ``written`` keys."""
    return PORTION_KEYS + 2 * written


@frozen
class Expiry:
    """The expired keys of a state as of one transaction. All times are in milliseconds since 1970.

    Attributes:
        since: the time of the first transaction with a ttl, which is also the write time of keys without one. None: no
            transaction had a ttl yet.
        upto: every key written at this time or earlier has expired. It never decreases, so an expired key never
            returns. None: no key has expired.
    """

    since: int | None = None
    upto: int | None = None

    def after(self, time: int, ttl: int | None) -> Expiry:
        """Return the expiry as of a transaction of this time with this ttl; without a ttl, no more keys expire."""
        if ttl is None or time <= 0:  # 0: a transaction that is only passed over
            return self
        since = time if self.since is None else self.since
        return Expiry(since, time - ttl if self.upto is None else max(self.upto, time - ttl))

    def has_expired(self, written: int | None) -> bool:
        """Return whether a key that was written at ``written`` has expired."""
        at = self.since if written is None else written
        return self.upto is not None and at is not None and at <= self.upto


@define
class WriteTimes:
    """An index of keys by the time of their last write; the oldest keys are found without reading the others."""

    _keys: dict[int, set[str]] = field(factory=dict, init=False)
    _times: list[int] = field(factory=list, init=False)  # a heap of those in `_keys`, and of some that were there

    def move(self, key: str, before: int | None, now: int | None) -> None:
        """Move ``key`` from write time ``before`` to ``now``; None: the key is missing before, or removed now."""
        if before is not None and before in self._keys:
            self._keys[before].discard(key)
            if not self._keys[before]:
                del self._keys[before]
        if now is not None:
            if now not in self._keys:
                heappush(self._times, now)
            self._keys.setdefault(now, set()).add(key)

    def upto(self, time: int | None) -> Iterator[tuple[int, str]]:
        """Yield the keys written at ``time`` or earlier, with their times, in the order of times and keys."""
        while self._times and self._times[0] not in self._keys:
            heappop(self._times)
        if time is None or not self._times or self._times[0] > time:
            return
        for at in sorted(at for at in self._keys if at <= time):
            for key in sorted(self._keys[at]):
                yield at, key


class Decision(Enum):
    """The action that a state takes for a transaction."""

    APPLY = "apply"
    REDO = "roll back what an older attempt of it applied, then apply"
    SKIP = "applied already"


@frozen
class Fence:
    """A state's stored knowledge of its writers: the current leader and the last commit.

    Attributes:
        topology: the topology that owns the state.
        epoch: leaders of an older epoch are refused.
        token: the last commit; None if there was none.
        group_first: the first transaction of the group in which ``token`` was committed. The topology's record may not
            have these transactions as committed yet. None: it was committed alone.
    """

    topology: TopologyKey
    epoch: int
    token: CommitToken | None = None
    group_first: int | None = None

    @property
    def commit(self) -> tuple[int | None, int | None, int | None, int | None]:
        """The last commit in its stored form: txid, epoch, attempt id, and the first transaction of its group."""
        if self.token is None:
            return None, None, None, self.group_first
        return self.token.txid, self.token.epoch, self.token.attempt_id, self.group_first

    def after(self, members: Sequence[SinkTransaction]) -> Fence:
        """Return the fence after the commit of ``members``, some of which may have been committed before."""
        self._check_after(members)
        return evolve(self, token=members[-1].token, group_first=group_first(members))

    def due(self, members: Sequence[SinkTransaction], state: str) -> tuple[list[SinkTransaction], bool]:
        """Return the members that must be applied, and whether the first of them must be rolled back before.

        Raises:
            FencedError, StateError: as for `decide`.
        """
        due: list[SinkTransaction] = []
        fence, redo = self, False
        for tx in members:
            decision = fence.decide(tx, state)
            redo = redo or decision is Decision.REDO
            if decision is not Decision.SKIP:
                due.append(tx)
                fence = evolve(fence, token=tx.token)
        self._check_due(members, due, redo=redo)
        return due, redo

    def raised(self, topology: TopologyKey, epoch: int, state: str) -> Fence:
        """Return the fence after a takeover by ``topology`` in ``epoch``; ``state`` is the state's name in errors.

        If the incarnation of the topology is newer, the fence has no token. The caller then sets the older data aside.

        Raises:
            StateError: the state does not belong to this topology.
            FencedError: a newer leader has taken over.
        """
        self._check_owner(topology, state)
        if epoch < self.epoch:
            raise FencedError(
                f"topology {topology.name!r}: {state} has seen a leader of epoch {self.epoch}, ours is {epoch}: "
                f"another leader runs, or ZooKeeper was restored from the past; to fix this: stop the other leader, "
                f"or restore the state and ZooKeeper from one moment",
                topology=topology.name,
            )
        if topology.incarnation > self.topology.incarnation:
            return Fence(topology, epoch)
        return evolve(self, epoch=epoch)

    def decide(self, tx: SinkTransaction, state: str) -> Decision:
        """Return the action for ``tx``; ``state`` is the state's name in errors.

        Raises:
            FencedError: a newer leader, or a newer incarnation of the topology, has taken over.
            StateError: ``tx`` is late, or it is not the next transaction.
        """
        self.check_leader(tx, state)
        where = self._where(tx, state)
        if self.token is None or tx.txid == self.token.txid + 1 or tx.attempt.is_trial:
            return Decision.APPLY
        if tx.token == self.token:
            return Decision.SKIP
        if self.group_first is not None and self.group_first <= tx.txid < self.token.txid:
            self._check_left_out(tx, where)
            return Decision.SKIP
        if tx.txid != self.token.txid:
            raise StateError(
                f"{where} is at {self.token}, so {self.token.txid + 1} comes next; to fix this: restore the state and "
                f"ZooKeeper from one moment, or `trident reset {self.topology.name}`",
                topology=self.topology.name,
                attempt=tx.attempt,
            )
        if tx.token < self.token:
            raise StateError(
                f"{where} has the newer attempt {self.token} already; this one is late and changes nothing",
                topology=self.topology.name,
                attempt=tx.attempt,
            )
        return Decision.REDO

    def _check_left_out(self, tx: SinkTransaction, where: str) -> None:
        """Refuse to skip a transaction that is to be left out: only the last one can still be rolled back."""
        if tx.parks is not None:
            raise StateError(
                f"{where} has it, and {self.token} after it, so it can't be left out any more; to fix this: let the "
                f"topology commit transaction {tx.txid}",
                topology=self.topology.name,
                attempt=tx.attempt,
            )

    def check_leader(self, tx: SinkTransaction, state: str) -> None:
        """Refuse ``tx`` if another leader has taken over from its leader.

        Raises:
            FencedError: a newer leader, or a newer incarnation of the topology, has taken over.
        """
        ours = (self.topology.uuid, self.topology.incarnation)
        if tx.epoch < self.epoch or (tx.key.uuid, tx.key.incarnation) != ours:
            raise FencedError(
                f"{self._where(tx, state)} belongs to epoch {self.epoch} of incarnation {ours[1]}, this leader is of "
                f"epoch {tx.epoch} of incarnation {tx.key.incarnation}; it must stop, and the newer leader continues",
                topology=self.topology.name,
                attempt=tx.attempt,
            )

    def check_kept(self, known: Fence, where: str) -> None:
        """Refuse a store that has lost durable data; ``known`` is the fence as this leader last knew it.

        Raises:
            StateError: the store has lost the last commit, or the takeover by this leader.
        """
        ours = (self.topology.uuid, self.topology.incarnation) == (known.topology.uuid, known.topology.incarnation)
        if not ours or self.epoch > known.epoch:
            return  # a newer leader has been here, and `decide` says so
        has_lost = known.token is not None and (self.token is None or self.token < known.token)
        if has_lost or self.epoch < known.epoch:
            raise StateError(
                f"{where} was at {known.token or 'no transaction'} and epoch {known.epoch}, and is at "
                f"{self.token or 'no transaction'} and epoch {self.epoch}: its server has lost commits that it had "
                f"confirmed, as in a crash without fsync or a failover to a replica that lagged, or was restored from "
                f"the past; to fix this: restore data with these commits, or `trident reset {known.topology.name}`",
                topology=known.topology.name,
            )

    def _check_due(self, members: Sequence[SinkTransaction], due: Sequence[SinkTransaction], *, redo: bool) -> None:
        """Assert that ``members`` has no gap, and that only its first members may have been applied before."""
        txids = [tx.txid for tx in members]
        last = self.token.txid if self.token else None
        assert txids == [*range(txids[0], txids[0] + len(txids))], self._bug(members, "there is a gap")
        assert due == [*members][len(members) - len(due) :], self._bug(
            members, f"{len(due)} are due, and not the last ones"
        )
        assert not redo or due[0].txid == last, self._bug(
            members, "the transaction to roll back is not the last commit"
        )

    def _check_after(self, members: Sequence[SinkTransaction]) -> None:
        """Assert that a commit of ``members`` follows this fence."""
        token = members[-1].token
        assert self.token is None or token > self.token, self._bug(members, "the token would go back")
        assert token.epoch >= self.epoch, self._bug(members, "its leader was taken over")
        assert group_first(members) <= members[0].txid, self._bug(members, "its group begins after it")

    def _bug(self, members: Sequence[SinkTransaction], what: str) -> str:
        return our_bug(f"{what}: a commit of {[str(tx.token) for tx in members]} at {self}")

    def _where(self, tx: SinkTransaction, state: str) -> str:
        return f"topology {self.topology.name!r}, transaction {tx.txid}, attempt {tx.attempt}: {state}"

    def _check_owner(self, topology: TopologyKey, state: str) -> None:
        owner = self.topology
        if topology.uuid != owner.uuid and topology.name == owner.name:
            raise StateError(
                f"topology {topology.name!r}: {state} was filled by another life of it (uuid {owner.uuid}, this one "
                f"is {topology.uuid}): its record in ZooKeeper was lost or replaced, or the topology was started in "
                f"another directory than last time (state_dir .trident); to fix this: restore the record, start it in "
                f"that directory, or use another table",
                topology=topology.name,
            )
        if topology.uuid != owner.uuid:
            raise StateError(
                f"topology {topology.name!r} (uuid {topology.uuid}): {state} belongs to topology {owner.name!r} (uuid "
                f"{owner.uuid}); to fix this: use another table",
                topology=topology.name,
            )
        if topology.incarnation < owner.incarnation:
            raise StateError(
                f"topology {topology.name!r}: {state} is of incarnation {owner.incarnation}, this is incarnation "
                f"{topology.incarnation}: ZooKeeper was restored from the past; to fix this: restore the state and "
                f"ZooKeeper from one moment, or `trident reset {topology.name}`",
                topology=topology.name,
            )


def group_first(members: Sequence[SinkTransaction]) -> int:
    """Return the first transaction of the group that ``members`` belong to.

    Its transactions before ``members`` may not be recorded as committed yet.
    """
    return members[0].group_first or members[0].txid


VERSION = 1
"""The format version of headers and of their tables."""


class TableStep(Enum):
    """The action that a takeover takes for the state's table."""

    KEEP = "go on with it"
    CREATE = "make it"
    REPLACE = "set it aside, and make a new one"


@frozen
class StateHeader:
    """The header of one state: its fence, its owner, its fields and its expired keys.

    Attributes:
        owner: identifies the object that raised the fence last. Two owners in one epoch mean that two states use the
            same table.
        columns: the declared fields.
        expiry: the keys that have expired.
    """

    COLUMNS: ClassVar[str] = (
        "version, topology, uuid, incarnation, fence, owner, columns, txid, epoch, attempt_id, group_first, ttl_since, "
        "expired"
    )

    fence: Fence
    owner: str
    columns: str
    expiry: Expiry = Factory(Expiry)

    @classmethod
    def of(cls, row: Sequence[Any]) -> StateHeader:
        """Return the header that was stored as ``row``, the values of `COLUMNS`.

        Raises:
            StateError: the row can't be read.
        """
        _check_row(row)
        _, name, uuid, incarnation, epoch, owner, columns, txid, its_epoch, attempt, group_first, *expiry = row
        found = CommitToken(txid, its_epoch, attempt) if txid is not None else None
        fence = Fence(TopologyKey(name, uuid, incarnation), epoch, found, group_first)
        return cls(fence, owner, columns, Expiry(*expiry))

    @property
    def row(self) -> tuple[Any, ...]:
        """The values of `COLUMNS`."""
        topology = self.fence.topology
        return (
            VERSION,
            topology.name,
            topology.uuid,
            topology.incarnation,
            self.fence.epoch,
            self.owner,
            self.columns,
            *self.fence.commit,
            self.expiry.since,
            self.expiry.upto,
        )

    def claimed(self, found: StateHeader | None, *, exists: bool, state: str) -> tuple[StateHeader, TableStep]:
        """Return the header after a takeover by this one's topology and epoch, and the action for the table.

        Args:
            found: the stored header; None: no state has written one.
            exists: whether a table of this name exists.
            state: the state's name in errors.

        Raises:
            StateError: the table belongs to another writer, has other fields than declared, or is gone.
            FencedError: a newer leader has taken over.
        """
        topology = self.fence.topology
        if found is None:
            if exists:
                raise StateError(
                    f"topology {topology.name!r}: {state} exists and was not made by a topology; to fix this: use "
                    f"another table",
                    topology=topology.name,
                )
            return self, TableStep.CREATE
        header = evolve(self, fence=found.fence.raised(topology, self.fence.epoch, state))
        if found.fence.epoch == self.fence.epoch and found.owner != self.owner:
            raise StateError(
                f"topology {topology.name!r} uses {state} twice, or a leader of the same epoch {self.fence.epoch} has "
                f"used it, and ZooKeeper was restored from the past; to fix this: give each state its own table; or "
                f"restore the state and ZooKeeper from one moment, or `trident reset {topology.name}`",
                topology=topology.name,
            )
        if topology.incarnation != found.fence.topology.incarnation:
            return header, TableStep.REPLACE if exists else TableStep.CREATE
        self._check_table(found, exists, state)
        header = evolve(header, expiry=found.expiry)
        return header, TableStep.KEEP if exists else TableStep.CREATE

    def _check_table(self, found: StateHeader, exists: bool, state: str) -> None:
        name = self.fence.topology.name
        if found.columns != self.columns:
            raise StateError(
                f"topology {name!r}: {state} has the fields {found.columns}, declared are {self.columns}; to fix "
                f"this: if another version of the program has migrated it, start that version; else use another table, "
                f"or `trident reset {name}`",
                topology=name,
            )
        if not exists and found.fence.token is not None:
            raise StateError(
                f"topology {name!r}: {state} is gone, it was at {found.fence.token}; to fix this: restore it, or "
                f"`trident reset {name}`",
                topology=name,
            )


_TEXTS = frozenset({"topology", "uuid", "owner", "columns"})
_MAY_LACK = frozenset({"txid", "epoch", "attempt_id", "group_first", "ttl_since", "expired"})
_TOKEN = ("txid", "epoch", "attempt_id")


def _check_row(row: Sequence[Any]) -> None:
    names = StateHeader.COLUMNS.split(", ")
    if len(row) != len(names) or row[0] != VERSION:
        version = row[0] if len(row) == len(names) else 0
        raise StateError(
            f"the state can't be read: {other_version(version, VERSION)}; nothing of it was changed; to fix this: give "
            f"the topology another table or prefix"
        )
    found = dict(zip(names, row, strict=True))
    for name, value in found.items():
        if name in _MAY_LACK and value is None:
            continue
        if type(value) is not (str if name in _TEXTS else int):
            raise StateError(f"the header of the state has {clipped(value)} as {name}; to fix this: restore the store")
    if found["txid"] is not None and any(found[name] is None for name in _TOKEN):
        raise StateError("the header of the state has only a part of a commit token; to fix this: restore the store")
