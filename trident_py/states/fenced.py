"""What every fenced state decides alike: who may write to it, and what a transaction means to it.

The decision, under lock, for a transaction ``t`` of epoch ``e`` and attempt ``a`` at a state whose last commit was
``(T, (E, A))``; (epoch, attempt) is compared lexicographically::

    e below the fence                refuse: a newer leader has been here
    t < T, and in T's group          applied already, before T or with it: nothing to do
    t < T or t > T + 1               refuse: order is broken, stop
    t = T + 1, or nothing committed  apply
    t = T, (e, a) = (E, A)           applied already: nothing to do
    t = T, (e, a) < (E, A)           refuse: a late attempt
    t = T, (e, a) > (E, A)           roll T back, then apply
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from attrs import evolve, frozen

from coordinators.values.errors import our_bug
from trident_py.errors import FencedError, StateError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey


class Decision(Enum):
    """What to do with a transaction."""

    APPLY = "apply"
    REDO = "roll back what an older attempt of it applied, then apply"
    SKIP = "applied already"


@frozen
class Fence:
    """What a state remembers about its writers.

    Attributes:
        topology: whose state it is.
        epoch: leaders older than this are refused.
        token: the last commit; None if there was none.
        group_first: the first transaction of the group that it was committed in, which the record may not have as
            committed yet; None: it was committed alone.
    """

    topology: TopologyKey
    epoch: int
    token: CommitToken | None = None
    group_first: int | None = None

    @property
    def commit(self) -> tuple[int | None, int | None, int | None, int | None]:
        """The last commit as it is stored: txid, epoch, attempt id, and the first transaction of its group."""
        if self.token is None:
            return None, None, None, self.group_first
        return self.token.txid, self.token.epoch, self.token.attempt_id, self.group_first

    def after(self, members: Sequence[SinkTransaction]) -> Fence:
        """Return the fence as it is after the commit of ``members``, with members that were committed before."""
        self._check_after(members)
        return evolve(self, token=members[-1].token, group_first=group_first(members))

    def due(self, members: Sequence[SinkTransaction], state: str) -> tuple[list[SinkTransaction], bool]:
        """Return those of ``members`` to be applied, and whether the first of them has to be rolled back before.

        Raises:
            FencedError, StateError: as `decide`.
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
        """Return the fence after a takeover by ``topology`` in ``epoch``; ``state`` is named in errors.

        A newer incarnation of the topology starts without a token; its caller sets the older one's data aside.

        Raises:
            StateError: the state is not this topology's.
            FencedError: a newer leader has been here.
        """
        self._check_owner(topology, state)
        if epoch < self.epoch:
            raise FencedError(
                f"topology {topology.name!r}: {state} has seen a leader of epoch {self.epoch}, ours is {epoch}: "
                f"another leader runs, or ZooKeeper was restored from the past; stop the other one, or restore what "
                f"belongs together",
                topology=topology.name,
            )
        if topology.incarnation > self.topology.incarnation:
            return Fence(topology, epoch)
        return evolve(self, epoch=epoch)

    def decide(self, tx: SinkTransaction, state: str) -> Decision:
        """Return what to do with ``tx``.

        Raises:
            FencedError: a newer leader, or a newer incarnation of the topology, has been here.
            StateError: ``tx`` is late, or not the transaction that comes next.
        """
        self.check_leader(tx, state)
        where = self._where(tx, state)
        if self.token is None or tx.txid == self.token.txid + 1:
            return Decision.APPLY
        if tx.token == self.token:
            return Decision.SKIP
        if self.group_first is not None and self.group_first <= tx.txid < self.token.txid:
            return Decision.SKIP
        if tx.txid != self.token.txid:
            raise StateError(
                f"{where} is at {self.token}, so {self.token.txid + 1} comes next; restore the state and ZooKeeper "
                f"from one moment, or `trident reset {self.topology.name}`",
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

    def check_leader(self, tx: SinkTransaction, state: str) -> None:
        """Refuse ``tx`` if its leader was taken over.

        Raises:
            FencedError: a newer leader, or a newer incarnation of the topology, has been here.
        """
        ours = (self.topology.uuid, self.topology.incarnation)
        if tx.epoch < self.epoch or (tx.key.uuid, tx.key.incarnation) != ours:
            raise FencedError(
                f"{self._where(tx, state)} belongs to epoch {self.epoch} of incarnation {ours[1]}, this leader is of "
                f"epoch {tx.epoch} of incarnation {tx.key.incarnation}; it must stop, the newer one goes on",
                topology=self.topology.name,
                attempt=tx.attempt,
            )

    def check_kept(self, known: Fence, where: str) -> None:
        """Refuse to go on with a store that has lost what was durable in it: what its leader knows is ``known``.

        Raises:
            StateError: it has lost the last commit, or that the leader took over.
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
                f"the past; bring back the data that have them, or `trident reset {known.topology.name}`",
                topology=known.topology.name,
            )

    def _check_due(self, members: Sequence[SinkTransaction], due: Sequence[SinkTransaction], *, redo: bool) -> None:
        """Assert that ``members`` has no gap, and that its last members are due: all but what was applied before."""
        txids = [tx.txid for tx in members]
        last = self.token.txid if self.token else None
        assert txids == [*range(txids[0], txids[0] + len(txids))], self._bug(members, "there is a gap")
        assert due == [*members][len(members) - len(due) :], self._bug(
            members, f"{len(due)} are due, and not the last ones"
        )
        assert not redo or due[0].txid == last, self._bug(members, "what is rolled back is not the last commit")

    def _check_after(self, members: Sequence[SinkTransaction]) -> None:
        """Assert that a commit of ``members`` goes on from here."""
        token = members[-1].token
        assert self.token is None or token > self.token, self._bug(members, "the token would go back")
        assert token.epoch >= self.epoch, self._bug(members, "its leader was taken over")
        assert group_first(members) <= members[0].txid, self._bug(members, "its group begins behind it")

    def _bug(self, members: Sequence[SinkTransaction], what: str) -> str:
        return our_bug(f"{what}: a commit of {[str(tx.token) for tx in members]} at {self}")

    def _where(self, tx: SinkTransaction, state: str) -> str:
        return f"topology {self.topology.name!r}, transaction {tx.txid}, attempt {tx.attempt}: {state}"

    def _check_owner(self, topology: TopologyKey, state: str) -> None:
        owner = self.topology
        if topology.uuid != owner.uuid and topology.name == owner.name:
            raise StateError(
                f"topology {topology.name!r}: {state} was filled by another life of it (uuid {owner.uuid}, this one is "
                f"{topology.uuid}): its record in ZooKeeper was lost or replaced, or you are in another directory than "
                "last time (state_dir .trident); restore the record or go back there, or take another table",
                topology=topology.name,
            )
        if topology.uuid != owner.uuid:
            raise StateError(
                f"topology {topology.name!r} (uuid {topology.uuid}): {state} belongs to topology {owner.name!r} "
                f"(uuid {owner.uuid}); take another table",
                topology=topology.name,
            )
        if topology.incarnation < owner.incarnation:
            raise StateError(
                f"topology {topology.name!r}: {state} is of incarnation {owner.incarnation}, this is incarnation "
                f"{topology.incarnation}: ZooKeeper was restored from the past; restore what belongs together, or "
                f"`trident reset {topology.name}`",
                topology=topology.name,
            )


def group_first(members: Sequence[SinkTransaction]) -> int:
    """Return the first transaction of the group of which ``members`` are a part.

    Steps before it may not be recorded yet.
    """
    return members[0].group_first or members[0].txid
