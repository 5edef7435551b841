"""States and sinks of a simulated world: the product's own fence and memory state, and what a checker wants to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from attrs import define, evolve, field, frozen

from coordinators.record.parking import Parked
from coordinators.record.store import TopologyIdentity
from tests.simulation.rules import Rules, Violation
from trident_py.errors import StateError, StoreBusyException
from trident_py.interfaces.sinks import CommitToken, SinkTransaction
from trident_py.states.fenced import Decision, Fence
from trident_py.states.memory import MemoryMapState
from trident_py.windows.windows import WindowProgress

Rows: TypeAlias = tuple[tuple[str, int], ...]
"""The rows of a batch: spout and position."""

Group: TypeAlias = tuple[SinkTransaction, ...]
"""Transactions that follow each other, in one step."""

Given: TypeAlias = tuple[Rows, ...]
"""Rows for each transaction of a group."""


class RowsRefusedError(Exception):
    """A store refuses a transaction of a group; its number is the argument."""


Sent: TypeAlias = Given | None
"""Those of a commit; None: they are in the store."""

KEYS = 3
NEVER = 10**15
"""A transaction that nobody comes to."""


class StoreKind(StrEnum):
    """What a store can do when a transaction comes again."""

    UNDO = "keeps previous values and rolls the older attempt back"
    COMPARE = "can't undo: takes the same content again under a higher token, refuses other content"
    UNFENCED = "a user's state: knows its last txid, and neither epoch nor attempt"


@frozen
class LooseFence(Fence):
    """The product's fence without some of its rules."""

    rules: Rules = field(kw_only=True, factory=Rules)

    def _check_due(self, *_: object, **__: object) -> None:
        """Leave it to the simulation to see it."""

    _check_after = _check_due

    def decide(self, tx: SinkTransaction, state: str) -> Decision:
        """As the real one, but for the rules that are off."""
        token = self.token
        same = token is not None and token.txid == tx.txid
        if not self.rules.has("epoch in token"):
            token = token and evolve(token, epoch=tx.epoch)
            return Fence(self.topology, 0, token).decide(tx, state)
        if not self.rules.has("attempt in token") and same and token is not None and token != tx.token:
            return evolve(self, token=evolve(token, attempt_id=-1), rules=Rules()).decide(tx, state)
        if not self.rules.has("txids in order") and token is not None and tx.txid > token.txid:
            return Decision.APPLY
        if not self.rules.has("known members"):
            return Fence(self.topology, self.epoch, token).decide(tx, state)
        decision = super().decide(tx, state)
        if decision is Decision.REDO and not self.rules.has("undo"):
            return Decision.APPLY
        return decision


@frozen
class Entry:
    """What a store has of one transaction, or that it has none of it; written in the same atomic step as the data."""

    token: CommitToken
    rows: Rows
    is_passed_over: bool = False
    is_left_out: bool = False
    time: int = field(default=0, eq=False)


Part: TypeAlias = tuple[int, int]
"""A parked transaction, by its first id, and a number of the part of it that no other part ever has."""

REUSED = 1000
"""The list numbers a part as one that has left it; here the difference of two such numbers is a multiple of this."""


@define
class ParkedRows:
    """What was ever parked.

    Attributes:
        whole: the rows of each parked transaction, by its first id.
        rows: those of each part of one.
        released: for each transaction that released a part, which.
        skipped: the parts that are never released.
        letters: for each part that has dead letters, the store that left them out.
        left: how often a part of a number has left the list.
        able: for each transaction about which the stores were asked, whether all could leave it out then.
    """

    whole: dict[int, Rows] = field(factory=dict)
    rows: dict[Part, Rows] = field(factory=dict)
    released: dict[int, Part] = field(factory=dict)
    skipped: set[Part] = field(factory=set)
    letters: dict[Part, str] = field(factory=dict)
    left: Counter[Part] = field(factory=Counter)

    def part_of(self, entry: Parked) -> Part:
        """The part that an entry of the list is."""
        return entry.txid, entry.part + REUSED * self.left[entry.txid, entry.part]

    def leaves(self, part: Part) -> None:
        """It is not on the list any more."""
        txid, number = part
        self.left[txid, number % REUSED] += 1

    able: dict[int, bool] = field(factory=dict)

    def in_order(self, store: Store, entry: Entry) -> Rows:
        """The rows whose turn an entry is: of one that is left out those, and of a release none."""
        txid = entry.token.txid
        if txid in self.released:
            return ()
        return _read_by(store, self.whole.get(txid, ())) if entry.is_left_out else entry.rows

    def check(self, store: Store) -> None:
        """S23: what is left out has no rows; what is released has those of the one that was parked, and once."""
        counted: list[Part] = []
        for entry in store.ledger:
            parked = self.released.get(entry.token.txid)
            if parked is None or entry.is_left_out or entry.is_passed_over:
                continue
            counted.append(parked)
            if parked in self.letters:
                self._check_letters(store, entry, parked)
            elif store.leaves_out and set(entry.rows) <= set(self._of(store, parked)):
                pass  # the others are bad ones
            elif not (store.fed_by or store.collects) and entry.rows != self._of(store, parked):
                raise Violation("S23", f"{store.name} has {entry} for {parked}, {self._of(store, parked)} is due")
        if len(counted) != len(set(counted)) or self.skipped.intersection(counted):
            raise Violation("S23", f"{store.name} has released {counted}, skipped are {self.skipped}")

    def _check_letters(self, store: Store, entry: Entry, part: Part) -> None:
        """Only the store that left the rows out has some of them."""
        is_due = self.letters[part] == store.name and set(entry.rows) <= set(self.rows[part])
        if not (is_due or store.fed_by or store.collects or not entry.rows):
            raise Violation("S26", f"{store.name} has {entry}, which are dead letters of {self.letters[part]}")

    def open(self, stores: Iterable[Store]) -> set[Part]:
        """The parts that no store has the rows of."""
        counted = {
            self.released[entry.token.txid]
            for store in stores
            for entry in store.ledger
            if entry.token.txid in self.released and not (entry.is_left_out or entry.is_passed_over)
        }
        return self.rows.keys() - counted

    def note(self, parts: Mapping[Part, Rows]) -> str:
        """Take what is on the list now; say what is wrong with it.

        S24: rows that are split off were in the part that they come from, and are in it no more.
        """
        for part in sorted(parts.keys() - self.rows.keys()):
            txid, number = part
            if part in self.letters:
                self.rows[part] = parts[part]
                continue
            if number == 0:
                self.whole[txid] = self.rows[part] = parts[part]
                continue
            first = (txid, 0)
            before, both = self.rows[first], [*parts[part], *parts.get(first, ())]
            if sorted(before) != sorted(both):
                return f"{before} of {txid} are split into {parts.get(first)} and {parts[part]}"
            self.rows[part], self.rows[first] = parts[part], parts.get(first, ())
        wrong = {part: rows for part, rows in parts.items() if rows != self.rows[part]}
        return f"{wrong} is parked, and was {[self.rows[part] for part in wrong]}" if wrong else ""

    def _of(self, store: Store, part: Part) -> Rows:
        return _read_by(store, self.rows.get(part, ()))


def _read_by(store: Store, rows: Rows) -> Rows:
    return tuple(row for row in rows if not store.reads or source_of(row[0]) in store.reads)


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
        lags: whether it is left out, or was and has not caught up.
        settled: how many transactions have made which windows that no rollback changes; see `Windows`.
        reads: the sources that its branch reads; none: all that there are.
        fed_by: the store whose new values go into it; none: "".
        leaves_out: whether bad rows are left out of it.
        collects: whether it has only these, each under the name of its source and the store that left it out. A row
            that it has no longer is there once more, with a negative position.
        tasked: whether tasks make its values by user code, in the commit, and stage them.
        worked: the values that they have staged, by token.
    """

    name: str
    kind: StoreKind
    rules: Rules
    inline: bool = False
    locks: bool = False
    holder: Group | None = None
    ledger: list[Entry] = field(factory=list)
    staged: dict[CommitToken, Rows] = field(factory=dict)
    highest_epoch: int = 0
    claimant: tuple[int, int] | None = None
    lags: bool = False
    settled: tuple[int, WindowProgress] = (0, WindowProgress())
    reads: frozenset[str] = frozenset()
    fed_by: str = ""
    leaves_out: bool = False
    collects: bool = False
    tasked: bool = False
    worked: dict[CommitToken, dict[str, int]] = field(factory=dict)
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

    def recover(self, topology: TopologyIdentity, epoch: int, claimant: tuple[int, int]) -> CommitToken | None:
        """Raise the fence, sweep what older epochs staged; the token of the last commit.

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
            return self.fence.token
        self.state.recover(topology, epoch)
        fence = self.fence
        if self.rules.off:
            self.state._fence = LooseFence(
                fence.topology, fence.epoch, fence.token, fence.group_first, rules=self.rules
            )
        if not self.inline:
            self.staged = {token: rows for token, rows in self.staged.items() if token.epoch >= epoch}
        self.worked = {token: values for token, values in self.worked.items() if token.epoch >= epoch}
        return fence.token

    def stage(self, tx: SinkTransaction, rows: Rows) -> None:
        """Keep what was prepared, under the attempt's token."""
        self.staged[tx.token] = rows

    def work(self, group: Group, sent: Given) -> None:
        """Tasks read the values as of the transaction before, change them by the rows, and stage them."""
        first = group[0].txid if self.rules.has("values as of the one before") else NEVER
        values = Counter(key_of(row) for entry in self.ledger if entry.token.txid < first for row in entry.rows)
        for tx, rows in zip(group, sent, strict=True):
            added = Counter(map(key_of, rows))
            values.update(added)
            self.worked[tx.token] = {key: values[key] for key in added}

    def discard(self, tx: SinkTransaction) -> None:
        """The attempt will never commit."""
        self.staged.pop(tx.token, None)
        self.worked.pop(tx.token, None)

    def restart(self) -> None:
        """What was staged in it and not committed is gone."""
        self.holder = None
        self.worked.clear()
        if not self.inline:
            self.staged.clear()

    def lock(self, group: Group) -> None:
        """Begin a transaction: take the lock, and decide under it."""
        if self.holder is not None:
            raise StoreBusyException(f"{self.name} is locked by {self.holder[-1].token}")
        self._due(group)
        self.holder = group

    def land(self, group: Group, rows: Sent) -> Given:
        """The end of a transaction, if nobody has ended it before; as `apply`."""
        if self.holder != group:
            raise StoreBusyException(f"{self.name} has ended the transaction of {group[-1].token}")
        self.holder = None
        return self.apply(group, rows)

    def apply(self, group: Group, sent: Sent) -> Given:
        """One atomic step: decide, verify what was staged, apply, keep the token; gives new values.

        Those of a transaction that is skipped aren't known.
        """
        due, redo = self._due(group)
        given = dict(zip(group, sent, strict=True)) if sent is not None else {tx: self._staged(tx) for tx in due}
        if self.kind is StoreKind.COMPARE and not self._leaves_nothing(group[0]):
            raise StateError(f"{self.name} can't undo, and has what is left out", txid=group[0].txid)
        if due and redo:
            self._refuse_other_content(due[0], given[due[0]])
        self._change(group, due, given)
        for tx in due:
            self._enter(Entry(tx.token, given[tx], False, tx.parks is not None, tx.time), redo and tx is due[0])
        values = dict(zip((entry.token for entry in self.ledger), self.new_values(), strict=True))
        if self.tasked:  # what the driver knows is what they have emitted
            values.update((tx.token, tuple(sorted(self.worked.get(tx.token, {}).items()))) for tx in due)
        for tx in group:
            self.discard(tx)
        return tuple(values[tx.token] if tx in due else () for tx in group)

    def new_values(self) -> Iterator[Rows]:
        """For each transaction the values that it left, of the keys that it changed."""
        counts = Counter[str]()
        for entry in self.ledger:
            changed = Counter(map(key_of, entry.rows))
            counts.update(changed)
            yield tuple((key, counts[key]) for key in sorted(changed))

    def letters(self, of: str) -> Counter[tuple[str, int]]:
        """The bad rows of a store that are here, and how often."""
        found = Counter[tuple[str, int]]()
        for name, position in (row for entry in self.ledger for row in entry.rows):
            spout, _, store = name.partition("@")
            if store == of:
                found[spout, max(position, ~position)] += 1 if position >= 0 else -1
        return found

    def pass_over(self, tx: SinkTransaction) -> None:
        """Take ``tx`` for committed, without any change."""
        due, redo = self._due((tx,))
        self._change((tx,), due, {tx: ()})
        for each in due:
            self._enter(Entry(each.token, (), is_passed_over=True), redo)

    def join(self, txid: int) -> None:
        """It has a part in the topology from ``txid`` on."""
        if self.remembers and self.fence.token is None:
            earlier = (CommitToken(before, 0, 0) for before in range(1, txid))
            self.ledger = [Entry(token, (), is_passed_over=True) for token in earlier]

    def can_park(self, tx: SinkTransaction, *, may_have_begun: bool) -> bool:
        """Whether an empty attempt can leave the transaction out."""
        if not self.remembers:
            return not may_have_begun
        if self.kind is StoreKind.COMPARE:
            return self._leaves_nothing(tx)
        try:
            self.fence.due([tx], self.name)
        except StateError:
            return False
        return True

    def _leaves_nothing(self, tx: SinkTransaction) -> bool:
        return tx.leaves_nothing(self.fence.token)

    def _staged(self, tx: SinkTransaction) -> Rows:
        if tx.parks is not None:
            return ()
        if tx.token not in self.staged and self.rules.has("verified staging"):
            raise StoreBusyException(f"{self.name}: what {tx.token} staged is gone")
        return self.staged.get(tx.token, ())

    def _due(self, group: Group) -> tuple[list[SinkTransaction], bool]:
        if self.remembers:
            return self.fence.due(group, self.name)
        last, (tx,) = len(self.ledger), group
        if tx.txid not in (last, last + 1):
            raise Violation("S4", f"{self.name}, at {last}, was told to begin {tx.txid}: a zombie wrote")
        return [tx], tx.txid == last

    def _refuse_other_content(self, tx: SinkTransaction, rows: Rows) -> None:
        is_other = self.ledger[-1].rows != rows and tx.parks is None
        if is_other and self.kind is StoreKind.COMPARE and self.rules.has("compared content"):
            raise StateError(f"{self.name} can't undo, and has other content of {tx.txid} already")

    def _change(self, group: Group, due: Sequence[SinkTransaction], given: Mapping[SinkTransaction, Rows]) -> None:
        if self.kind is StoreKind.UNDO and due:
            if self.tasked and any(given[tx] and tx.token not in self.worked for tx in due):
                raise StoreBusyException(f"{self.name}: values that {due[-1].token} staged are gone")
            self.state.begin_group(group)
            for tx in due:
                self.state.begin_member(tx)
                if self.tasked:
                    new = self.worked.get(tx.token, {})
                    self.state.multi_put([[key] for key in new], list(new.values()))
                    continue
                counts = Counter(map(key_of, given[tx]))
                self.state.multi_update([[key] for key in counts], [_adding(count) for count in counts.values()])
            self.state.commit_group()
        elif self.remembers and due:
            self.state._fence = self.fence.after(group)

    def _enter(self, entry: Entry, redo: bool) -> None:
        if redo:
            before = self.ledger.pop()
            if self.remembers and not before.token < entry.token:
                raise Violation("S7", f"{self.name}: {entry.token} replaced {before.token}")
            if self.kind is StoreKind.COMPARE:
                entry = evolve(entry, rows=before.rows)
        if self.remembers and entry.token.epoch < self.highest_epoch:
            raise Violation("S6", f"{self.name} took {entry.token} although epoch {self.highest_epoch} leads")
        self.ledger.append(entry)

    # --- as the checker sees it ---------------------------------------------------------------------------------------

    def check(self, parked: ParkedRows) -> None:
        """S1 to S3: txids without gap, each row once and in order, and the values are a fold of them."""
        parked.check(self)
        due: dict[str, int] = {}
        has_gap = False
        for number, entry in enumerate(self.ledger, 1):
            if entry.token.txid != number:
                raise Violation("S2", f"{self.name} has {entry.token} as its transaction {number}")
            if entry.is_passed_over:
                has_gap = True
                due.clear()
            for spout, position in parked.in_order(self, entry) if not self.fed_by else ():
                expected = due.get(spout, position if has_gap else 0)
                is_due = position >= expected if self.leaves_out or self.collects else position == expected
                if not is_due:
                    story = f"{self.name}: {entry.token} has {spout} {position}, due is {expected}"
                    raise Violation("S3", story)
                due[spout] = position + 1
        if self.kind is StoreKind.UNDO:
            accumulator = dict(Counter(key_of(row) for entry in self.ledger for row in entry.rows))
            values = {key: value for (key,), value in self.state.values().items()}
            if values != accumulator:
                raise Violation("S1", f"{self.name} counts {values}, its batches make {accumulator}")


def key_of(row: tuple[str, int]) -> str:
    """The group of a row."""
    return f"{row[0]}{row[1] % KEYS}"


def _adding(count: int) -> Callable[[int | None], int]:
    return lambda old: (old or 0) + count


def source_of(name: str) -> str:
    """The source of a row, by the name that it has there: that of the source, or of a partition of it."""
    return name.partition(".")[0]
