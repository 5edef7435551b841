"""The leaders of a topology that writes to one sink: their calls, their expectations, and the rows that readers see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from attrs import define, evolve, field, frozen
from pyspark.sql.types import StructType

from coordinators.record.store import TopologyIdentity
from coordinators.values.attempt import CommitToken, TransactionAttempt
from trident_py.conformance.child_process import On, Subject, described
from trident_py.conformance.children import Answer, Child
from trident_py.conformance.ledger import Broken, Ledger, Row, listed
from trident_py.conformance.play import TRIES, Found, Play, Unusable
from trident_py.conformance.report import Rule
from trident_py.conformance.sample_rows import batch_name, comparable, sample_rows
from trident_py.errors import TopologyError
from trident_py.interfaces.sinks import SinkTransaction, TransactionalSink, TransactionKey
from trident_py.spark.forked import Batches

TOPOLOGY = TopologyIdentity("conformance", "00000000-0000-4000-8000-000000000001", 1)


def transaction(attempt: TransactionAttempt, epoch: int) -> SinkTransaction:
    """Return an attempt as a sink receives it."""
    key = TransactionKey(TOPOLOGY.uuid, TOPOLOGY.incarnation, attempt.txid)
    return SinkTransaction(key, attempt, epoch, time=1_767_225_600_000 + attempt.txid)


@frozen(kw_only=True)
class Needs:
    """The requirements of a sink on its caller.

    Attributes:
        same_rows: every attempt of a transaction must have the same rows.
        at_least_once: rows may be duplicated once a transaction came again, because no token is kept.
        replaces_by: as in `TransactionalSink`.
    """

    same_rows: bool = False
    at_least_once: bool = False
    replaces_by: tuple[str, ...] = ()


class SinkSubject(Subject):
    """A user's sink in a child process."""

    threads: Mapping[str, On] = {
        "prepare": On.OWN,
        "commit": On.COMMIT,
        "abort": On.COMMIT,
        "can_park": On.COMMIT,
    }

    def __init__(self, make_sink: Callable[[], TransactionalSink[Any]], batches: Batches) -> None:
        self._make, self._batches = make_sink, batches
        self._receipts: dict[CommitToken, Any] = {}

    def make(self) -> Needs:
        """Make the sink."""
        self._sink = self._make()
        self._sink.check_fields(self._batches.schema)
        self.things = [self._sink]
        at_least_once = not self._sink.keeps_token
        return Needs(
            same_rows=self._sink.needs_exact_replays or at_least_once,
            at_least_once=at_least_once,
            replaces_by=tuple(self._sink.replaces_by),
        )

    def recover(self, epoch: int) -> Any:
        """Recover, as a new leader does."""
        return self._sink.recover(TOPOLOGY, epoch)

    def prepare(self, tx: SinkTransaction, batch: str, rows: Sequence[Row], fails: bool) -> None:
        """Prepare; the receipt stays in this process."""
        self._receipts[tx.token] = self._sink.prepare(tx, self._batches.frame(batch, rows, fails=fails))

    def commit(self, tx: SinkTransaction) -> None:
        """Commit with the receipt of this attempt."""
        self._sink.commit(tx, self._receipts[tx.token])

    def can_park(self, tx: SinkTransaction) -> Any:
        """Ask whether an empty attempt can leave its transaction out."""
        return self._sink.can_park(tx)

    def abort(self, tx: SinkTransaction) -> None:
        """Abort with the receipt, if there is one."""
        self._sink.abort(tx, self._receipts.get(tx.token))


@frozen
class Prepared:
    """An attempt that was prepared."""

    tx: SinkTransaction
    rows: Sequence[Row]


# large: one field for each thing that an experiment with a sink keeps
@define(eq=False)
class SinkPlay(Play):
    """Experiments with a sink.

    Attributes:
        schema: the fields of its rows.
        read_rows: reads the rows that a reader of the store sees.
        needs: the requirements and promises of the sink.
    """

    schema: StructType = field(kw_only=True)
    read_rows: Callable[[], Sequence[Sequence[Any]]] = field(kw_only=True)
    needs: Needs = field(factory=Needs, init=False)
    noun: ClassVar[str] = "sink"
    ledger: Ledger = field(kw_only=True, factory=Ledger)
    epoch: int = field(default=0, init=False)
    leader: Child | None = field(default=None, init=False)
    sizes: dict[int, int] = field(factory=dict, init=False)  # the number of rows of a transaction, if it is unusual
    _attempts: Counter[int] = field(factory=Counter, init=False)
    _fixed: dict[int, int] = field(
        factory=dict, init=False
    )  # the variant of rows that a transaction may be committed with
    _variants: dict[CommitToken, int] = field(factory=dict, init=False)
    epochs: dict[int, int] = field(factory=dict, init=False)  # of each process
    began: int = field(default=1, init=False)  # the first transaction of the experiment
    first: int = field(default=1, init=False)  # the first one that may still come again
    waiting: tuple[Child, Prepared] | None = field(default=None, init=False)  # a leader that will commit this
    _left_out: dict[int, int] = field(
        factory=dict, init=False
    )  # by transaction that is left out, the first attempt id from which on its attempts are empty
    _replaced: set[int] = field(factory=set, init=False)  # transactions whose attempts replace each other's rows
    _current: dict[int, Prepared] = field(factory=dict, init=False)  # by process, the attempt of its last call
    _lenient: bool = field(default=False, init=False)
    _owed: dict[int, Sequence[Row]] = field(factory=dict, init=False)  # by transaction, where commits were answered

    # --- leaders --------------------------------------------------------------------------------------------------

    def leading(self) -> Child:
        """Return the present leader, or a new one."""
        return self.leader or self.take_over()

    def take_over(self) -> Child:
        """Recover with a new leader; its token must match the store."""
        for _ in range(TRIES):
            self.leader = None
            self.epoch += 1
            child = self.new_child()
            self.epochs[child.pid] = self.epoch
            made = self.call(child, f"leader {self.epoch} makes the {self.noun}", "make")
            if made.error:
                continue
            self.needs = made.value
            self.ledger.keys = tuple(map(self.schema.names.index, self.needs.replaces_by))
            self.steps.pop()  # this step is not informative
            if self.recover(child):
                return child
        raise Found(Rule.COMES_THROUGH, f"{TRIES} leaders, one after the other, could not recover")

    def recover(self, child: Child) -> bool:
        """Recover with ``child``, in the present epoch; return whether it leads now."""
        self.epochs[child.pid] = epoch = self.epoch
        return self.recovered(child, epoch, self.call(child, f"leader {epoch} recovers", "recover", epoch))

    def recovered(self, child: Child, epoch: int, answer: Answer) -> bool:
        """Check the answer of ``recover`` in ``child``; return whether it leads now."""
        if answer.error:
            return False
        self.steps.append(f"leader {epoch} is told {answer.value or 'that nothing was committed'}")
        self._judge(epoch, answer.value)
        self.leader = child
        return True

    def _judge(self, epoch: int, token: Any) -> None:
        if self.needs.at_least_once and not self._lenient:
            self.steps.pop()  # such a sink has no token
            self.ledger.fence = epoch
            return
        if self._lenient:
            self._lenient = False
            said = token.txid if isinstance(token, CommitToken) else 0
            self.ledger.fence = epoch
            self.ledger.start_over(said or self.ledger.last, self.read())
            return
        rows = self.read() if self.ledger.in_doubt else None
        broken = self.ledger.recovered(epoch, token, rows)
        if broken is not None and rows is None:
            broken = self.ledger.recovered(epoch, token, self.read())
        self._raise(broken)
        for txid in [each for each in self._fixed if each > self.ledger.last]:
            del self._fixed[txid]

    # --- transactions ---------------------------------------------------------------------------------------------

    def last_tx(self, leader: Child) -> SinkTransaction:
        """Return the attempt for which ``leader`` was last called."""
        return self._current[leader.pid].tx

    def prepare(self, leader: Child, txid: int, *, fails: bool = False) -> Prepared | None:
        """Prepare the next attempt of ``txid``; None if it failed."""
        attempt = TransactionAttempt(txid, self._attempts[txid])
        self._attempts[txid] += 1
        tx = self._transaction(leader, attempt)
        variant = self._variant(tx)
        size = {"count": self.sizes[txid]} if txid in self.sizes else {}
        rows = [] if tx.parks is not None else sample_rows(self.schema, txid, variant, **size)
        batch = batch_name(txid, variant) if rows else ""
        if tx.replaces and rows:
            rows, batch = self._replacing(txid, variant), f"{batch} by the keys of those before"
        compared = [comparable(row) for row in rows]
        if txid > self.ledger.last:
            self.ledger.given(tx.token, compared[:-1])
        self._variants[tx.token] = variant
        what = f"leader {tx.epoch} prepares attempt {attempt} of {_listed(compared)}"
        self._current[leader.pid] = prepared = Prepared(tx, compared)
        answer = self.call(leader, f"{what}, which can't be read" if fails else what, "prepare", tx, batch, rows, fails)
        return None if answer.error else prepared

    def _variant(self, tx: SinkTransaction) -> int:
        if tx.replaces:
            return tx.attempt.attempt_id
        return 0 if self.needs.same_rows else self._fixed.get(tx.txid, tx.attempt.attempt_id)

    def _replacing(self, txid: int, variant: int) -> list[tuple[Any, ...]]:
        """Return the rows of an attempt, and rows with the keys of each earlier attempt and its own other values."""
        keys, found = self.ledger.keys, dict[Row, tuple[Any, ...]]()
        for earlier in range(variant + 1):
            both = zip(sample_rows(self.schema, txid, earlier), sample_rows(self.schema, txid, variant), strict=True)
            for known, own in both:
                row = tuple((known if place in keys else own)[place] for place in range(len(own)))
                found[comparable([row[place] for place in keys])] = row
        return list(found.values())

    def commit(self, leader: Child, prepared: Prepared) -> bool:
        """Commit an attempt; return whether there was an answer."""
        tx = prepared.tx
        if self.ledger.fence <= tx.epoch:
            self._fixed.setdefault(tx.txid, self._variants[tx.token])
        if tx.parks is not None:
            self.ledger.leaves_out(tx.token)
        elif tx.replaces:
            self.ledger.replaces(tx.token, prepared.rows)
        else:
            self.ledger.begun(tx.token, prepared.rows)
        self._current[leader.pid] = prepared
        what, arguments = self._commit_call(prepared)
        answer = self.call(leader, f"leader {tx.epoch} commits {what}", "commit", *arguments)
        if not answer.error:
            self._answered(prepared)
        return not answer.error

    def _answered(self, prepared: Prepared) -> None:
        tx = prepared.tx
        self._owed[tx.txid] = prepared.rows
        if tx.parks is None and not tx.replaces:
            self.ledger.answered(tx.token)
            return
        if tx.parks is None:
            self.ledger.replaced(tx.token)
        else:
            self.ledger.left_out(tx.token)
        if broken := self.ledger.read(self.read()):
            raise Found(Rule.REPLACED if tx.parks is None else Rule.LEFT_OUT, broken.seen)

    def _transaction(self, leader: Child, attempt: TransactionAttempt) -> SinkTransaction:
        tx = transaction(attempt, self.epochs[leader.pid])
        return evolve(tx, parks=self._left_out.get(attempt.txid), replaces=attempt.txid in self._replaced)

    def can_leave_out(self, leader: Child, txid: int) -> bool | None:
        """Ask the sink whether the next attempt of ``txid`` can leave it out; None: it can't tell, or has raised."""
        attempt = TransactionAttempt(txid, self._attempts[txid])
        tx = evolve(transaction(attempt, self.epochs[leader.pid]), parks=attempt.attempt_id)
        self._current[leader.pid] = Prepared(tx, ())
        says = f"leader {tx.epoch} asks whether {attempt} can leave transaction {txid} out"
        answer = self.call(leader, says, "can_park", tx)
        if answer.error:
            return None
        self.steps.append(f"leader {tx.epoch} is told {answer.value}")
        found: bool | None = answer.value
        return found

    def replace(self, txid: int) -> None:
        """Decide that each attempt of ``txid`` replaces the rows of earlier ones, by `replaces_by`."""
        self._replaced.add(txid)

    def leave_out(self, txid: int) -> None:
        """Decide that ``txid`` is left out: its further attempts are empty."""
        self._left_out[txid] = self._attempts[txid]

    def insist(self, leader: Child, txid: int) -> None:
        """Commit an empty attempt of ``txid``, which the sink can't leave out; it must raise, and change nothing."""
        self.leave_out(txid)
        prepared = self.prepare(leader, txid)
        del self._left_out[txid]
        if prepared is None:
            return
        what = f"leader {prepared.tx.epoch} commits {prepared.tx.attempt}, which leaves transaction {txid} out"
        if not self.call(leader, what, "commit", prepared.tx).error:
            raise Found(Rule.LEFT_OUT, f"commit() returns, and the rows of transaction {txid} stay")
        self.abort(leader, prepared.tx)
        self.look()

    def _commit_call(self, prepared: Prepared) -> tuple[str, tuple[Any, ...]]:
        return str(prepared.tx.attempt), (prepared.tx,)

    def abort(self, leader: Child, tx: SinkTransaction) -> None:
        """Abort an attempt; an exception is only logged, as in the product."""
        self.ledger.given_up(tx.token)
        self._current[leader.pid] = Prepared(tx, ())
        self.call(leader, f"leader {tx.epoch} aborts {tx.attempt}", "abort", tx)

    def committed(self, leader: Child, txid: int) -> Child:
        """Commit ``txid``, in as many attempts and by as many leaders as necessary; return the leader that did."""
        for number in range(1, TRIES * 2 + 1):
            prepared = self.prepare(leader, txid)
            if prepared is not None and self.commit(leader, prepared):
                return leader
            if prepared is not None:
                self.abort(leader, prepared.tx)
            if number % TRIES == 0:
                leader = self.take_over()
        raise Found(Rule.COMES_THROUGH, f"transaction {txid} was not committed in {TRIES * 2} attempts")

    def prepared(self, leader: Child, txid: int) -> Prepared:
        """Prepare ``txid``, in as many attempts as necessary."""
        for _ in range(TRIES):
            if (prepared := self.prepare(leader, txid)) is not None:
                return prepared
        raise Found(Rule.COMES_THROUGH, f"transaction {txid} was not prepared in {TRIES} attempts")

    @property
    def next(self) -> int:
        """The next transaction."""
        return self.ledger.last + 1

    # --- experiments ----------------------------------------------------------------------------------------------

    @property
    def lossy(self) -> bool:
        """Whether a transaction came again in this experiment, or a leader was killed."""
        return any(count > 1 for txid, count in self._attempts.items() if txid >= self.began)

    def start(self) -> str:
        self.first = self.began = self.next
        self.waiting = None
        match self.ledger.last:
            case 0:
                done = "the store is empty"
            case 1:
                done = "transaction 1 is committed"
            case last:
                done = f"transactions 1 to {last} are committed"
        return f"{done}, and {f'leader {self.epochs[self.leader.pid]} leads' if self.leader else 'no process leads'}"

    def finish(self) -> None:
        """Commit all begun transactions with a new leader, after a leader was killed."""
        self.look_after_death()
        self.take_over()
        self.redo()

    def look_after_death(self) -> None:
        """Read the store before any leader recovers; only after calls that change the store for readers."""
        if self.calls[-1].method in ("recover", "commit", "abort"):
            self.look()

    def redo(self) -> None:
        """Commit all transactions that were begun in this experiment."""
        for txid in range(self.first, max(self._attempts, default=0) + 1):
            self.committed(self.leading(), txid)

    def crash(self, child: Child) -> None:
        super().crash(child)
        self.leader = None

    def tidy(self) -> None:
        """End all processes except the leader."""
        self.end_children(but=self.leader)
        self._current.clear()

    def lead_again(self, child: Child) -> None:
        """Lead again with the same process."""
        self.leader = None
        self.epoch += 1
        if not self.recover(child):
            self.take_over()

    def wake_zombie(self, *, commits: bool = False) -> None:
        """Resume the zombie to the end of its call. It then commits its prepared attempt, or aborts it."""
        zombie, method = self.zombie, self.paused_call.method
        assert zombie is not None  # noqa: S101
        answer = self.wake()
        if zombie.is_gone or method not in ("prepare", "commit"):
            return
        prepared = self._current[zombie.pid]
        if method == "prepare":
            done = commits and not answer.error and self.commit(zombie, prepared)
        else:
            done = not answer.error
        if not done:
            self.abort(zombie, prepared.tx)

    def overtake(self) -> None:
        """Commit with the waiting leader, while the newer one is paused in its recovery; then resume that one."""
        recovering = self.zombie
        assert self.waiting is not None  # noqa: S101
        assert recovering is not None  # noqa: S101
        self.commit(*self.waiting)
        epoch = self.epoch
        method = self.paused_call.method
        answer = self.wake()
        self.zombie = None
        led = self.recover(recovering) if method == "make" else self.recovered(recovering, epoch, answer)
        if not led:
            self.take_over()

    # --- readers --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the store; a reader must see a possible outcome."""
        if not self.needs.at_least_once or not (self.lossy or self.ledger.in_doubt or self.zombie):
            self._raise(self.ledger.read(self.read()))
            return
        rows = self.read()
        if missing := sum(map(Counter, self._owed.values()), Counter()) - rows:
            raise Found(Rule.COMMITTED_STAYS, f"a reader does not see {listed(missing)}")
        if not self.ledger.in_doubt:
            self.ledger.start_over(self.ledger.last, rows)

    def ensure_empty(self) -> None:
        """Refuse a store that already has rows, such as those of an earlier check.

        Raises:
            TopologyError: it has rows.
        """
        if rows := self.read():
            raise TopologyError(
                f"the store of the {self.noun} has rows before the check begins: {listed(rows)}; empty it, or check "
                "with another one, as where each test has its own"
            )

    def read(self) -> Counter[Row]:
        """Return the rows that a reader sees; a store without a commit need not be readable yet."""
        try:
            with self.released_if_waiting():
                return Counter(comparable(row) for row in self.read_rows())
        except Exception as error:
            if self.ledger.last == 0:
                return Counter()
            if self.release("nobody can read meanwhile"):
                return self.read()
            raise Found(Rule.READABLE, f"read_rows() raises {described(error)}") from error

    def recuperate(self) -> None:
        """Accept the present rows, after a rule was broken, and continue."""
        self.end_children()
        self.leader, self._lenient = None, True
        self._owed.clear()
        self.ledger.start_over(max(self._attempts, default=0), Counter())
        try:
            self.take_over()
        except Found as error:
            raise Unusable from error

    def _raise(self, broken: Broken | None) -> None:
        if broken is not None:
            raise Found(broken.rule, broken.seen)


def _listed(rows: Sequence[Row]) -> str:
    return ", ".join(map(str, rows)) or "no rows"
