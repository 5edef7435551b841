"""States and sinks of a simulated world: the product's own fence and memory state, and what a checker wants to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeAlias

from attrs import define, evolve, field, frozen

from coordinators.store import TopologyIdentity
from tests.simulation.rules import Rules, Violation
from trident_py.errors import StateError, StoreBusyException
from trident_py.sinks.base import CommitToken, SinkTransaction
from trident_py.states.fenced import Decision, Fence
from trident_py.states.memory import MemoryMapState

Rows: TypeAlias = tuple[tuple[str, int], ...]
"""The rows of a batch: spout and position."""

KEYS = 3


class StoreKind(StrEnum):
    """What a store can do when a transaction comes again."""

    UNDO = "keeps previous values and rolls the older attempt back"
    COMPARE = "can't undo: takes the same content again under a higher token, refuses other content"
    UNFENCED = "a user's state: knows its last txid, and neither epoch nor attempt"


@frozen
class LooseFence(Fence):
    """The product's fence without some of its rules."""

    rules: Rules = field(kw_only=True, factory=Rules)

    def decide(self, tx: SinkTransaction, state: str) -> Decision:
        """As the real one, but for the rules that are off."""
        token = self.token
        same = token is not None and token.txid == tx.txid
        if not self.rules.has("epoch in token"):
            token = token and evolve(token, epoch=tx.epoch)
            return Fence(self.topology, 0, token).decide(tx, state)
        if not self.rules.has("attempt in token") and same and token is not None and token != tx.token:
            return Fence(self.topology, self.epoch, evolve(token, attempt_id=-1)).decide(tx, state)
        if not self.rules.has("txids in order") and token is not None and tx.txid > token.txid:
            return Decision.APPLY
        decision = super().decide(tx, state)
        if decision is Decision.REDO and not self.rules.has("undo"):
            return Decision.APPLY
        return decision


@frozen
class Entry:
    """What a store has of one transaction; written in the same atomic step as the data."""

    token: CommitToken
    rows: Rows


@define
class Store:
    """One state or sink, and the target of commits.

    Attributes:
        inline: whether the rows travel with the commit; otherwise they were staged in the store, and may be gone.
        locks: whether a commit takes a lock, decides under it, and lands later: a database's transaction.
        holder: whose lock it is.
        ledger: what is in it, by txid.
        staged: what was prepared, by token.
        highest_epoch: that ever recovered it.
        claimant: the process, and the life of it, that recovered it last.
    """

    name: str
    kind: StoreKind
    rules: Rules
    inline: bool = False
    locks: bool = False
    holder: SinkTransaction | None = None
    ledger: list[Entry] = field(factory=list)
    staged: dict[CommitToken, Rows] = field(factory=dict)
    highest_epoch: int = 0
    claimant: tuple[int, int] | None = None
    state: MemoryMapState[int] = field(factory=MemoryMapState)

    @property
    def remembers(self) -> bool:
        """A user's state has no token to remember by."""
        return self.kind is not StoreKind.UNFENCED

    @property
    def fence(self) -> Fence:
        """Who may write."""
        if self.state._fence is None:
            raise StateError(f"{self.name} was not recovered")
        return self.state._fence

    # --- as the product sees it ---------------------------------------------------------------------------------------

    def recover(self, topology: TopologyIdentity, epoch: int, claimant: tuple[int, int]) -> int | None:
        """Raise the fence, sweep what older epochs staged; the last committed txid.

        As the SQL states do, it tells two leaders of one epoch apart: ZooKeeper was restored then.
        """
        if not self.remembers:
            return None
        if self.state._fence is not None and self.fence.epoch == epoch and self.claimant != claimant:
            raise StateError(f"{self.name} was claimed by another leader of epoch {epoch}")
        self.holder = None  # a takeover ends what an older leader has left open
        self.claimant = claimant
        self.highest_epoch = max(epoch, self.highest_epoch)
        if not self.rules.has("raised fences") and self.state._fence is not None:
            return self.fence.token.txid if self.fence.token else None
        self.state.recover(topology, epoch)
        fence = self.fence
        if self.rules.off:
            self.state._fence = LooseFence(fence.topology, fence.epoch, fence.token, rules=self.rules)
        if not self.inline:
            self.staged = {token: rows for token, rows in self.staged.items() if token.epoch >= epoch}
        return fence.token.txid if fence.token else None

    def stage(self, tx: SinkTransaction, rows: Rows) -> None:
        """Keep what was prepared, under the attempt's token."""
        self.staged[tx.token] = rows

    def discard(self, tx: SinkTransaction) -> None:
        """The attempt will never commit."""
        self.staged.pop(tx.token, None)

    def restart(self) -> None:
        """What was staged in it and not committed is gone."""
        self.holder = None
        if not self.inline:
            self.staged.clear()

    def sent(self, tx: SinkTransaction) -> Rows | None:
        """The rows that travel with a commit; None: they are in the store."""
        return self.staged[tx.token] if self.inline else None

    def lock(self, tx: SinkTransaction) -> None:
        """Begin a transaction: take the lock, and decide under it."""
        if self.holder is not None:
            raise StoreBusyException(f"{self.name} is locked by {self.holder.token}")
        self._decided(tx)
        self.holder = tx

    def land(self, tx: SinkTransaction, rows: Rows | None) -> None:
        """The end of a transaction, if nobody has ended it before."""
        if self.holder != tx:
            raise StoreBusyException(f"{self.name} has ended the transaction of {tx.token}")
        self.holder = None
        self.apply(tx, rows)

    def apply(self, tx: SinkTransaction, rows: Rows | None) -> None:
        """One atomic step: decide, verify what was staged, apply, keep the token."""
        decision = self._decided(tx)
        if decision is Decision.SKIP:
            return
        if rows is None:
            if tx.token not in self.staged and self.rules.has("verified staging"):
                raise StoreBusyException(f"{self.name}: what {tx.token} staged is gone")
            rows = self.staged.get(tx.token, ())
        self._refuse_other_content(tx, rows, decision)
        self._change(tx, rows)
        self._enter(Entry(tx.token, rows), decision)
        self.staged.pop(tx.token, None)
        self.check()

    def _decided(self, tx: SinkTransaction) -> Decision:
        if self.remembers:
            return self.fence.decide(tx, self.name)
        last = len(self.ledger)
        if tx.txid not in (last, last + 1):
            raise Violation("S4", f"{self.name}, at {last}, was told to begin {tx.txid}: a zombie wrote")
        return Decision.REDO if tx.txid == last else Decision.APPLY

    def _refuse_other_content(self, tx: SinkTransaction, rows: Rows, decision: Decision) -> None:
        is_other = decision is Decision.REDO and self.ledger[-1].rows != rows
        if is_other and self.kind is StoreKind.COMPARE and self.rules.has("compared content"):
            raise StateError(f"{self.name} can't undo, and has other content of {tx.txid} already")

    def _change(self, tx: SinkTransaction, rows: Rows) -> None:
        if self.kind is StoreKind.UNDO:
            self.state.begin_transaction(tx)
            counts = Counter(map(key_of, rows))
            self.state.multi_update([[key] for key in counts], [_adding(count) for count in counts.values()])
            self.state.end_transaction(tx)
        elif self.remembers:
            self.state._fence = evolve(self.fence, token=tx.token)

    def _enter(self, entry: Entry, decision: Decision) -> None:
        if decision is Decision.REDO:
            before = self.ledger.pop()
            if self.remembers and not before.token < entry.token:
                raise Violation("S7", f"{self.name}: {entry.token} replaced {before.token}")
            if self.kind is StoreKind.COMPARE:
                entry = evolve(entry, rows=before.rows)
        if self.remembers and entry.token.epoch < self.highest_epoch:
            raise Violation("S6", f"{self.name} took {entry.token} although epoch {self.highest_epoch} leads")
        self.ledger.append(entry)

    # --- as the checker sees it ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """S1 to S3: txids without gap, each row once and in order, and the values are a fold of them."""
        due: dict[str, int] = {}
        for number, entry in enumerate(self.ledger, 1):
            if entry.token.txid != number:
                raise Violation("S2", f"{self.name} has {entry.token} as its transaction {number}")
            for spout, position in entry.rows:
                if position != due.get(spout, 0):
                    story = f"{self.name}: {entry.token} has {spout} {position}, due is {due.get(spout, 0)}"
                    raise Violation("S3", story)
                due[spout] = position + 1
        if self.kind is StoreKind.UNDO:
            fold = dict(Counter(key_of(row) for entry in self.ledger for row in entry.rows))
            values = {key: value for (key,), value in self.state.values().items()}
            if values != fold:
                raise Violation("S1", f"{self.name} counts {values}, its batches make {fold}")


def key_of(row: tuple[str, int]) -> str:
    """The group of a row."""
    return f"{row[0]}{row[1] % KEYS}"


def _adding(count: int) -> Callable[[int | None], int]:
    return lambda old: (old or 0) + count


def check_agreement(stores: Sequence[Store], committed: int) -> None:
    """S2, S4, S11 over stores: what the record calls committed is the same in all of them, and at most one more is."""
    for store in stores:
        if not committed <= len(store.ledger) <= committed + 1:
            story = f"{store.name} has {len(store.ledger)} transactions, the record says {committed} are committed"
            raise Violation("S11", story)
    first, *others = stores
    for store in others:
        for one, other in zip(first.ledger[:committed], store.ledger[:committed], strict=True):
            if one.rows != other.rows:
                raise Violation("S2", f"{first.name} has {one}, {store.name} has {other}")
